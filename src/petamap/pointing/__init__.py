"""Pointing of detectors: boresights, focal planes, half-wave plates, scan strategies, recorded pointing.

Must not import: petamap.noise, petamap.examples, and the rooms above (data, simulation, mapmaking, ...).
"""
