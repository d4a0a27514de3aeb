"""Glitches of cosmic rays and steps of the level, found in the streams of each detector.

Glitches are flagged; steps are flagged at their places, and what the level changes by is a template.

Must not import: templates, simulation, mapmaking, spectra, planning, montecarlo, report, cli.
"""
