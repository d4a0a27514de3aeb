"""Power spectra of maps: masks, pseudo-spectra, MASTER, pure B, pixel likelihood.

Must not import: mapmaking (beside it), montecarlo and everything above.
"""
