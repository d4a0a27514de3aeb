"""File formats as sources of observations, one module a format."""
