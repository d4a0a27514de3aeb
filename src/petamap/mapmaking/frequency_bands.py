"""Frequency bands of a run: which detectors are in each, and how it sees the components of the sky."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.name_patterns import choose_names
from petacomm.base.typing import FloatArray
from petamap.data.config import BandOptions, ComponentOptions, RunConfig, band_conflicts
from petamap.data.observation import Observation
from petamap.data.parts import PartRuns, Parts
from petamap.data.run_summary import FrequencyBand, SkyComponent
from petamap.sky.component_spectra import modified_blackbody, power_law
from petamap.sky.stokes import Stokes

_NAMED = 5  # detectors in no band that a message names


def band_parts(bands: Sequence[BandOptions], observations: Sequence[Observation]) -> Parts:
    """Return the bands of all detectors.

    Raises
    ------
    ConfigError
        If a band has no detector, or a detector is in none or in two of them.
    """
    names = list(dict.fromkeys(name for one in observations for name in one.detectors))
    band_of: dict[str, int] = {}
    for number, band in enumerate(bands):
        where = f"band {band.name}"
        if not band.detectors:
            raise ConfigError("has no detectors", where=where, mend='write e.g. detectors = ["W1*"]')
        for name in choose_names(band.detectors, names, "detector", where=where):
            if name in band_of:
                other = bands[band_of[name]].name
                mend = "give the bands names or patterns that do not overlap"
                raise ConfigError(f"detector '{name}' is in band '{other}', too", where=where, mend=mend)
            band_of[name] = number
    missing = [name for name in names if name not in band_of]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise ConfigError(
            f"in no band: {', '.join(missing[:_NAMED])}{more}",
            mend="add a [[band]] of them, or leave them out with `detectors` of their source",
        )
    runs = [PartRuns.constant(number) for number in range(len(bands))]
    return Parts(
        tuple(band.name for band in bands),
        lambda observation, detector: runs[band_of[observations[observation].detectors[detector]]],
    )


def require_consistent_bands(config: RunConfig) -> None:
    """Raise the error of bands and components that do not fit together, if they do not."""
    for kind, number, what, mend in band_conflicts(config):
        name = getattr(config, f"{kind}s")[number].name
        raise ConfigError(what, where=f"{kind} {name}", mend=mend)


def mixing_factors(config: RunConfig, unit: str) -> FloatArray:
    """Return s: how each band sees the map of each component, (n_bands, n_components, n_stokes).

    Parameters
    ----------
    config : RunConfig
    unit : str
        Of the data.

    Raises
    ------
    ConfigError
        If spectra are asked for and the unit is not K_CMB, or bands see components too much alike.
    """
    stokes = Stokes(config.map.stokes)
    columns = [[_factors(one, config.bands, letter) for letter in stokes.value] for one in config.components]
    known = next((one for one in config.components if one.spectrum != "factors"), None)
    if known is not None and unit != "K_CMB":
        raise ConfigError(
            f"spectra are of maps in K_CMB, and the data in '{unit}'", where=f"component {known.name}",
            mend='give factors between maps in that unit: spectrum = "factors"',
        )  # fmt: skip
    factors = np.array(columns).transpose(2, 0, 1)
    if not np.isfinite(factors).all():
        raise ConfigError("factors are not finite", mend="take other frequencies, beta or temperature")
    for number, one in enumerate(config.components):
        if not factors[:, number].any():
            what = f"no band sees it in a map of {stokes.value}"
            raise ConfigError(
                what, where=f"component {one.name}", mend="leave it away, or give other factors"
            )
    for number, letter in enumerate(stokes.value):
        _require_told_apart(factors[:, :, number], letter, config)
    return np.ascontiguousarray(factors)


def band_records(
    config: RunConfig, parts: Parts | None, observations: Sequence[Observation]
) -> tuple[FrequencyBand, ...]:
    """Return what the summary says of bands."""
    found: list[set[str]] = [set() for _ in config.bands]
    for number, one in enumerate(observations if parts else ()):
        for detector, name in enumerate(one.detectors):
            assert parts is not None, "there are bands"
            found[int(parts.of(number, detector).parts[0])].add(name)
    return tuple(
        FrequencyBand(name=band.name, frequency=band.frequency, detectors=len(names))
        for band, names in zip(config.bands, found, strict=True)
    )


def component_records(config: RunConfig, factors: FloatArray | None) -> tuple[SkyComponent, ...]:
    """Return what the summary says of components."""
    records = []
    for number, one in enumerate(config.components if factors is not None else ()):
        assert factors is not None, "there are components"
        first, last = (tuple(factors[:, number, k].tolist()) for k in (0, -1))
        known = one.spectrum not in ("cmb", "factors")
        records.append(
            SkyComponent(
                name=one.name, spectrum=one.spectrum, factors=first,
                polarization_factors=() if first == last else last,
                reference=one.reference_frequency if known else None,
            )
        )  # fmt: skip
    return tuple(records)


def _factors(one: ComponentOptions, bands: Sequence[BandOptions], letter: str) -> FloatArray:
    """Return the factors of a component on a Stokes parameter, (n_bands,); zero where it has none."""
    polarized = letter != "I"
    if polarized and not one.polarized:
        return np.zeros(len(bands))
    if one.spectrum == "factors":
        return np.array(one.polarization_factors if polarized and one.polarization_factors else one.factors)
    if one.spectrum == "cmb":
        return np.ones(len(bands))
    nu, beta = np.array([band.frequency for band in bands]), one.index(polarized=polarized)
    if one.spectrum == "dust":
        return modified_blackbody(nu, one.reference_frequency, beta, one.temperature)
    return power_law(nu, one.reference_frequency, beta)


def _require_told_apart(factors: FloatArray, letter: str, config: RunConfig) -> None:
    """Raise a ConfigError if bands of the same noise could not tell components apart, (n_bands, n)."""
    seen = np.flatnonzero((factors != 0).any(axis=0))
    sizes = np.linalg.svd(factors[:, seen] / np.linalg.norm(factors[:, seen], axis=0), compute_uv=False)
    condition = float((sizes[-1] / sizes[0]) ** 2) if len(seen) else 1.0
    if len(seen) > 1 and condition < config.solver.rcond_min:
        names = ", ".join(f"'{config.components[number].name}'" for number in seen)
        raise ConfigError(
            f"bands do not tell components {names} apart in {letter}: the reciprocal condition of their "
            f"factors is {condition:.2g}",
            mend="add bands that see them differently, leave one away, or lower solver.rcond_min",
        )
