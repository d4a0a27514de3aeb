"""Simulated sources: scans, sky signal, noise and cuts, computed on demand.

Must not import: petamap.templates, petamap.mapmaking, petamap.spectra and the rooms above.
"""

from petacomm.base.instruction_set import kernel_folders

__path__ = [*__path__, *kernel_folders(__path__)]
