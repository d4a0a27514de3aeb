"""Noise spectra, Toeplitz kernels of the inverse noise, and their estimation from data."""
