"""Observations, run configurations, file formats of time-ordered data, checks, and summaries of runs.

Must not import: petamap.simulation and the rooms above (mapmaking, spectra, planning, ...); simulated sources
are found by name at run time.
"""
