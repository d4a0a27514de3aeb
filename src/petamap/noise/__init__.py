"""Noise models, power spectral densities, Toeplitz approximations of N^-1, and estimation of noise from data.

Must not import: petamap.pointing, petamap.examples, and the rooms above (data, simulation, mapmaking, ...).
"""
