"""Command line of petamap: one module per group of commands."""
