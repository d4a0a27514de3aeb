"""Maximum-likelihood and binned maps: operators, preconditioners, conjugate gradients, products.

Must not import: spectra (beside it), planning, montecarlo and everything above.
"""

from petacomm.base.instruction_set import kernel_folders

__path__ = [*__path__, *kernel_folders(__path__)]
