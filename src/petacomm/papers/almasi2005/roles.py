"""What a number or an ordering of the reproduction is. Only predicted ones are counted."""

PREDICTED = "predicted"
CALIBRATED = "calibrated"  # a constant was derived from it
RESTATED = "restated"  # a measurement that stands in another cell too, where it is counted
FROM_PUBLISHED = "from the published value"  # the source's own number or formula, by which it holds anyway
BOUND = "bound"
NOT_COVERED = "not covered"
