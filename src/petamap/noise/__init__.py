"""Noise models, power spectral densities, Toeplitz approximations of N^-1, and estimation of noise from data.

Must not import: petamap.pointing, petamap.examples, and the rooms above (data, simulation, mapmaking, ...).
"""

from petacomm.base.instruction_set import kernel_folders

__path__ = [*__path__, *kernel_folders(__path__)]
