"""Sums of values on keys that several ranks share."""
