"""Maximum-likelihood and binned maps: operators, preconditioners, conjugate gradients, products.

Must not import: spectra (beside it), planning, montecarlo and everything above.
"""
