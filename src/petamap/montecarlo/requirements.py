"""What a Monte Carlo asks of its configuration and sources, before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

from petacomm.base.errors import ConfigError
from petamap.data.config import MonteCarloOptions, RunConfig, open_signal_parts
from petamap.data.observation import Observation
from petamap.mapmaking.own_temperature import needs_own_temperature
from petamap.montecarlo.draws import Draws
from petamap.montecarlo.file_layout import FILTER_AND_BIN
from petamap.spectra.measure import SpectraChoices, make_bins
from petamap.spectra.options import spectra_choices


def require_one_map(config: RunConfig) -> None:
    """Raise ConfigError unless a configuration makes one map of all data, on HEALPix pixels."""
    if config.bands:
        raise ConfigError(
            "realizations are of one map of all data", where=f"band {config.bands[0].name}",
            mend="leave [[band]] and [[component]] away, and choose detectors of one band in the sources",
        )  # fmt: skip
    if config.map.pixelization != "healpix":
        what = f"spectra need HEALPix pixels, not {config.map.pixelization}"
        raise ConfigError(what, mend='map.pixelization = "healpix"')


def require_known_temperature(observations: Sequence[Observation]) -> None:
    """Raise ConfigError if a template is of the run's own map."""
    if needs_own_temperature(observations):
        raise ConfigError(
            "leakage of the temperature of the run's own map, which each realization has to find",
            mend="give the template leakage a map",
        )


def require_consistent_options(options: MonteCarloOptions, observations: Sequence[Observation]) -> None:
    """Raise ConfigError if options exclude each other, or no template is there that would be filtered."""
    filters = options.estimator == FILTER_AND_BIN
    if filters and options.vectors:
        raise ConfigError("a filter needs no vectors", mend="montecarlo.vectors = 0")
    if filters and not any(one.templates for one in observations):
        raise ConfigError(
            "there is no template that would be filtered",
            mend='add a [[source]] as "polynomials", or leave montecarlo.estimator away',
        )
    if options.fixed == "add" and options.parts in ("sky", "noise"):
        raise ConfigError(
            f"fixed signals cannot be added to the {options.parts} alone", mend='montecarlo.parts = "apart"'
        )


def checked_spectra_choices(config: RunConfig, draws: Draws) -> SpectraChoices:
    """Return the choices of the spectra of realizations.

    Raises
    ------
    ConfigError
        If no bin of multipoles fits, or maps have nothing of what is asked for.
    """
    choices = spectra_choices(config.spectra, config.folder, draws.fwhm)
    n_side = config.map.n_side or 1
    make_bins(choices, n_side, 3 * n_side - 1)
    if choices.pure and config.map.stokes == "I":
        raise ConfigError("an I map has no B that could be pure", mend='spectra.purify = "none"')
    return choices


def require_realizations(config: RunConfig) -> None:
    """Raise the error with which a Monte Carlo of a configuration would end before any work.

    Masks and files of an earlier one are not looked at.
    """
    require_one_map(config)
    observations, parts = open_signal_parts(config)
    require_known_temperature(observations)
    draws = Draws(config.montecarlo, parts, observations, config.run.seed)
    require_consistent_options(config.montecarlo, observations)
    checked_spectra_choices(config, draws)
