"""Maximum-likelihood and binned maps: operators, preconditioners, conjugate gradients, products."""
