"""Run configurations: typed options, read from TOML, XML and the command line.

`load_config` reads a file and applies ``key=value``, `to_toml` and `to_xml` write,
`open_sources` returns the observations; `petamap.data.config.xsd` has the schema of the XML form. All errors
are collected and raised at once, each with file, line, key and a suggestion.

Names (of the run, observations, detectors) consist of at most 128 letters, digits and ``_ - . +``, and do not
begin with a dot, so that they can be parts of file names on all systems. Choices of detectors and
observations may hold ``* ? [ ] !`` as well.
"""

from petamap.data.config.band_options import BandOptions, ComponentOptions, band_conflicts
from petamap.data.config.model import (
    REPEATED,
    SECTIONS,
    CommOptions,
    GlitchOptions,
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
    SplitOptions,
)
from petamap.data.config.observations import RandomSource, SignalParts, open_signal_parts, open_sources
from petamap.data.config.reader import config_of_options, load_config, parse_config, require_configuration
from petamap.data.config.writer import to_toml, to_xml

__all__ = [
    "REPEATED",
    "SECTIONS",
    "BandOptions",
    "CommOptions",
    "ComponentOptions",
    "GlitchOptions",
    "MapOptions",
    "MonteCarloOptions",
    "NoiseOptions",
    "ProductOptions",
    "RandomSource",
    "ResourceOptions",
    "RunConfig",
    "RunOptions",
    "SignalParts",
    "SolverOptions",
    "SourceConfig",
    "SpectraOptions",
    "SplitOptions",
    "band_conflicts",
    "config_of_options",
    "load_config",
    "open_signal_parts",
    "open_sources",
    "parse_config",
    "require_configuration",
    "to_toml",
    "to_xml",
]
