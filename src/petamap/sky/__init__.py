"""Pixelizations of the sky, Stokes parameters, sky maps, power spectra and their FITS files.

Must not import: any other room of petamap.
"""
