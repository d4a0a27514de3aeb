"""Pointing of detectors: boresights, focal planes, half-wave plates, scan strategies, recorded pointing.

Must not import: petamap.noise, petamap.examples, and the rooms above (data, simulation, mapmaking, ...).
"""

from petacomm.base.instruction_set import kernel_folders

__path__ = [*__path__, *kernel_folders(__path__)]
