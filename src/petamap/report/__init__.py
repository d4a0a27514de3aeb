"""The HTML report and the machine-readable summary of a run."""
