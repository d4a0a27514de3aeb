"""petacomm: reductions, collectives, redistribution, mapping and network models for jobs that must scale."""

import os

__version__ = "0.1.0"

# Waiting threads must sleep, not spin: with more threads than free cores (ranks beside each other, a shared
# machine) spinning made iterations 20 times slower. OpenMP reads this when a kernel is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
