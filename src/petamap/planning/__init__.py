"""Prediction of the communication, memory and time of a run on any machine, without running it.

Must not import: `petamap.papers`, `petamap.montecarlo` and the rooms above them.
"""

from petacomm.base.instruction_set import kernel_folders

__path__ = [*__path__, *kernel_folders(__path__)]
