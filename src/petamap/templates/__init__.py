"""Unknowns beside the sky: offsets, polynomials, signals synchronous with azimuth or plate, errors of gains.

A template gives functions of time (`petamap.data.template`), of which map-making solves for the amplitudes
with the map; it knows templates by that interface alone.

Must not import: mapmaking, spectra, planning, montecarlo, report, cli.
"""
