"""Measured choice of the algorithms of an MPI library's collectives, written as the rules that it reads.

`tuning_job` starts jobs of `measurement`, which times the algorithms of each collective beside the library's
own choice; `choice` takes those that are faster beyond the noise; `mpich_rules` and `openmpi_rules` write
them; `prediction` tells times of sizes and communicators (`cells`) that were not measured.

Must not import: `petacomm.sharing` and the rooms above it.
"""

from petacomm.tuning.choice import AlgorithmChoice, select_algorithm
from petacomm.tuning.tuning_job import Tuning, tune_collectives

__all__ = ["AlgorithmChoice", "Tuning", "select_algorithm", "tune_collectives"]
