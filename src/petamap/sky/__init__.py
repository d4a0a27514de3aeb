"""Pixelizations of the sky, Stokes parameters, sky maps, power spectra and their FITS files.

Must not import: any other room of petamap.
"""

from petacomm.base.instruction_set import kernel_folders

__path__ = [*__path__, *kernel_folders(__path__)]
