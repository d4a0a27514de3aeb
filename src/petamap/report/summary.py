"""The summary of a run, under the name of the room that shows it.

Map-making makes it and stands below the report, so it is defined in `petamap.data.run_summary`.
"""

from petamap.data.run_summary import (
    Comparison,
    Environment,
    Memory,
    NoiseKernel,
    PhaseCost,
    Product,
    Solver,
    Spread,
    Step,
    Summary,
    Totals,
    pixels_sha256,
)

__all__ = [
    "Comparison",
    "Environment",
    "Memory",
    "NoiseKernel",
    "PhaseCost",
    "Product",
    "Solver",
    "Spread",
    "Step",
    "Summary",
    "Totals",
    "pixels_sha256",
]
