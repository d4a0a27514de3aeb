"""Configurations and data of the examples that come with the package."""
