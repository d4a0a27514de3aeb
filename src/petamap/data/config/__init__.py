"""Run configurations: one typed model, read from TOML, XML and the command line.

`load` reads a file, `apply_overrides` takes ``key=value``, `to_toml` and `to_xml` write, `open_sources` gives
the observations; `petamap.data.config.xsd` describes the XML form. All errors are found before any work and
told at once, each with file, line, key and mend.

Names (of the run, observations, detectors) consist of letters, digits and ``_ - . +``, at most 128 of them,
and do not begin with a dot, so that they can be parts of file names anywhere.
"""

from petamap.data.config.model import (
    SECTIONS,
    CommOptions,
    MapOptions,
    MonteCarloOptions,
    NoiseOptions,
    ProductOptions,
    ResourceOptions,
    RunConfig,
    RunOptions,
    SolverOptions,
    SourceConfig,
    SpectraOptions,
)
from petamap.data.config.observations import Drawing, Parts, open_parts, open_sources
from petamap.data.config.overrides import apply_overrides
from petamap.data.config.reader import load, loads
from petamap.data.config.writer import to_toml, to_xml

__all__ = [
    "SECTIONS",
    "CommOptions",
    "Drawing",
    "MapOptions",
    "MonteCarloOptions",
    "NoiseOptions",
    "Parts",
    "ProductOptions",
    "ResourceOptions",
    "RunConfig",
    "RunOptions",
    "SolverOptions",
    "SourceConfig",
    "SpectraOptions",
    "apply_overrides",
    "load",
    "loads",
    "open_parts",
    "open_sources",
    "to_toml",
    "to_xml",
]
