"""Monte Carlo realizations of a run: simulation, map-making, spectra, calibration and validation.

Must not import: petamap.papers, petamap.report, petamap.cli.
"""
