"""Options of frequency bands and of the components of the sky that they see, and what they may not be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from petacomm.base.errors import ConfigError
from petacomm.base.options import option

if TYPE_CHECKING:
    from petamap.data.config.model import RunConfig

# Spectral index and frequency of the map where the configuration does not say them: of dust, the index that
# Planck 2018 results XI (A&A 641, A11) has in polarization; of synchrotron, that of Planck 2018 results IV.
_DEFAULTS = {"dust": (1.53, 353e9), "synchrotron": (-3.1, 30e9)}
# Products of one map of all data.
_OF_ONE_MAP = (
    "pixel_covariance", "filtered", "observation_matrix", "modes_taken", "demodulated", "compare",
    "compare_binned",
)  # fmt: skip


@dataclass(frozen=True)
class BandOptions:
    """Frequency band: detectors with a map of their own, or that see components of the sky alike."""

    name: str = option(help="name of the band; part of file names")
    detectors: tuple[str, ...] = option(help="of the band: names, patterns as LFI28*, or beginnings of names")
    frequency: float | None = option(
        None, dimension="frequency", minimum=1e6, maximum=1e13,
        help="at which spectra of components are taken; needed for these",
    )  # fmt: skip


@dataclass(frozen=True)
class ComponentOptions:
    """Component of the sky of known spectrum, which all bands see; its map is made instead of theirs."""

    name: str = option(help="name of the component; part of file names")
    spectrum: str = option(
        choices=("cmb", "dust", "synchrotron", "power-law", "factors"),
        help="dust: a modified blackbody; synchrotron, power-law: a power of the frequency in "
        "Rayleigh-Jeans temperature; factors: as given",
    )
    beta: float | None = option(
        None, help="spectral index, needed for power-law; default: 1.53 of dust, -3.1 of synchrotron",
        minimum=-20.0, maximum=20.0,
    )  # fmt: skip
    temperature: float = option(
        19.6, dimension="temperature", minimum=1.0, maximum=1e4, help="of dust, in kelvin"
    )
    reference: float | None = option(
        None, dimension="frequency", minimum=1e6, maximum=1e13,
        help="frequency at which the map shows the component, needed for power-law; default: 353 GHz of "
        "dust, 30 GHz of synchrotron",
    )  # fmt: skip
    polarization_beta: float | None = option(
        None, help="spectral index of Q and U; default: beta", minimum=-20.0, maximum=20.0
    )
    factors: tuple[float, ...] = option(
        (), help="on the component's map in each [[band]], in their order (factors)"
    )
    polarization_factors: tuple[float, ...] = option((), help="the same of Q and U; default: factors")
    polarized: bool = option(True, help="whether it has Q and U")

    def __post_init__(self) -> None:
        """Find options that do not belong together."""
        given = {name for name in _OF_SPECTRA if getattr(self, name) != _default(name)}
        foreign = sorted(given - _OF_SPECTRUM[self.spectrum])
        if foreign:
            raise ConfigError(f"{', '.join(foreign)}: not of spectrum = '{self.spectrum}'")
        if self.spectrum == "power-law" and (self.beta is None or self.reference is None):
            raise ConfigError("a power law needs beta and reference")
        if self.spectrum == "factors" and not self.factors:
            raise ConfigError("factors are missing: one for each [[band]]")
        if not self.polarized and (self.polarization_factors or self.polarization_beta is not None):
            raise ConfigError("what is not polarized has no spectrum of Q and U")

    def index(self, *, polarized: bool) -> float:
        """Return the spectral index, of I or of Q and U."""
        beta = self.beta if self.beta is not None else _DEFAULTS[self.spectrum][0]
        return self.polarization_beta if polarized and self.polarization_beta is not None else beta

    @property
    def reference_frequency(self) -> float:
        """Frequency at which the map shows the component, Hz."""
        return self.reference if self.reference is not None else _DEFAULTS[self.spectrum][1]


_OF_SPECTRUM = {
    "cmb": set[str](),
    "dust": {"beta", "temperature", "reference", "polarization_beta"},
    "synchrotron": {"beta", "reference", "polarization_beta"},
    "power-law": {"beta", "reference", "polarization_beta"},
    "factors": {"factors", "polarization_factors"},
}
_OF_SPECTRA = sorted(set[str]().union(*_OF_SPECTRUM.values()))


def _default(name: str) -> object:
    return ComponentOptions.__dataclass_fields__[name].default


class Conflict(NamedTuple):
    """What bands and components of a configuration may not be.

    Attributes
    ----------
    kind : "band" or "component"
    number : int
        Of the table.
    what, mend : str
    """

    kind: str
    number: int
    what: str
    mend: str


def band_conflicts(config: RunConfig) -> Iterator[Conflict]:
    """Yield what does not fit together in bands, components and the other options of a run."""
    if not (config.bands or config.components):
        return
    yield from _component_conflicts(config)
    if config.components and not config.bands:
        return
    if config.splits:
        mend = "leave [[split]] away, and make a run for each band"
        yield Conflict("band", 0, "maps of bands are not split", mend)
    wanted = [name for name in _OF_ONE_MAP if getattr(config.products, name)]
    if wanted:
        mend = "leave it away, or make a run for each band"
        yield Conflict("band", 0, f"products.{wanted[0]} is of one map, and each band has one", mend)


def _component_conflicts(config: RunConfig) -> Iterator[Conflict]:
    n_bands, n_components = len(config.bands), len(config.components)
    if n_components > n_bands:
        what = f"more components than bands: {n_components} and {n_bands}"
        yield Conflict("component", n_bands, what, "add a [[band]], or leave a component away")
        return
    for number, one in enumerate(config.components):
        for name in ("factors", "polarization_factors"):
            n = len(getattr(one, name))
            if n and n != n_bands:
                yield Conflict("component", number, f"{n} {name} for {n_bands} bands", "give one for each")
    needs = next((one.name for one in config.components if one.spectrum not in ("cmb", "factors")), None)
    for number, band in enumerate(config.bands):
        if needs is not None and band.frequency is None:
            what = f"band '{band.name}' has no frequency, and component '{needs}' needs one"
            yield Conflict("band", number, what, 'write e.g. frequency = "150 GHz", or give factors')
    if n_components and config.solver.preconditioner in ("diagonal", "none"):
        what = f'solver.preconditioner = "{config.solver.preconditioner}" is not of maps of components'
        yield Conflict("component", 0, what, "take auto, two-level or block-diagonal")
