"""HTML pages and drawings that open without a network."""
