"""Pixelizations, Stokes parameters and map files."""
