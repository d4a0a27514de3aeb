"""Simulated sources: scans, sky signal, noise and cuts, computed on demand.

Must not import: petamap.templates, petamap.mapmaking, petamap.spectra and the rooms above.
"""
