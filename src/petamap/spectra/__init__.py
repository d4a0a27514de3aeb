"""Power spectra of maps: masks, pseudo-spectra, MASTER, pure B, pixel likelihood.

Must not import: mapmaking (beside it), montecarlo and everything above.
"""

from petacomm.base.instruction_set import kernel_folders

__path__ = [*__path__, *kernel_folders(__path__)]
