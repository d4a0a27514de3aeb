"""Maps of a user's arrays or observations in one call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.progress import Progress, SilentProgress
from petacomm.cli.shown_progress import shown_progress
from petacomm.mpi import Communicator, agree_on_errors
from petamap.arrays.array_observation import array_observation
from petamap.arrays.rigid_plane import RigidPlane
from petamap.data.config import RunConfig, config_of_options
from petamap.data.given_communicator import given_communicator
from petamap.data.observation import Observation
from petamap.data.template import Template
from petamap.mapmaking.maps_in_memory import Maps
from petamap.mapmaking.run import run
from petamap.noise.model import NoiseModel
from petamap.pointing.frames import FRAMES, OFFSET
from petamap.pointing.protocol import Pointing
from petamap.sky.car import CarPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.partial_healpix import PartialHealpix
from petamap.sky.pixelization import Pixelization

_PIXELS = ("map.n_side", "map.ordering", "map.pixelization", "map.resolution")
_NO_NOISE = 'noise=petamap.OneOverF(net="60 uK s^0.5", fknee="50 mHz"), or noise="estimate"'


def make_map(
    data: Any,
    theta: Any = None,
    phi: Any = None,
    psi: Any = None,
    *,
    n_side: int | None = None,
    pixelization: Pixelization | None = None,
    stokes: str = "IQU",
    frame: str | None = None,
    noise: NoiseModel | Sequence[NoiseModel] | str | None = None,
    sample_rate: Any = None,
    flags: Any = None,
    pixels: Any = None,
    weights: Any = None,
    pointing: Pointing | Any = None,
    efficiency: Any = None,
    hwp_angle: Any = None,
    gamma: Any = None,
    intervals: Sequence[tuple[int, int]] | None = None,
    detectors: Sequence[str] | None = None,
    templates: Sequence[Template] = (),
    azimuth: Any = None,
    unit: str | None = None,
    options: Mapping[str, Any] | None = None,
    comm: Communicator | None = None,
    progress: bool | Progress = True,
) -> Maps:
    """Make maps of time streams in memory: of arrays, or of observations. Collective.

    No file is touched, and no array copied. Beside the arrays the map-maker keeps 8 bytes a sample; 4 where
    every pass reads polarization angles from `psi`, so that it must not change meanwhile (float64,
    contiguous, without half-wave plate); or one at most where the angles are those of a rigid focal plane,
    whose pointing is recomputed in every pass unless ``options={"resources.pointing": "keep"}``. Over MPI all
    ranks are given the same data, of which each reads its part; rank 0 has the maps.

    Parameters
    ----------
    data : array (n_det, n_samp), Observation or sequence of Observation
        The signal, masked or in a unit of astropy or not; or observations, as of `array_observation`, which
        have all that belongs to samples.
    theta, phi, psi : array, optional
        Colatitude, longitude and polarization angle, radians or quantities, COSMO; see `array_observation`.
    n_side : int, optional
        Resolution of a HEALPix map, in nested order.
    pixelization : Healpix, CarPatch or FlatPatch, optional
        Of the map, in the place of `n_side`; of `pixels`, with their order.
    stokes : {"IQU", "QU", "I"}
        Stokes parameters solved for.
    frame : str, optional
        Of the pointing and of the map: equatorial, galactic or ecliptic; not known by default. Observations
        are turned into it.
    noise : NoiseModel, sequence of them, or "estimate"
        Of all detectors, or of each; or to be estimated from the data.
    sample_rate : float, str or Quantity
        Hz, or with a unit.
    flags, pixels, weights, pointing, efficiency, hwp_angle, gamma : array, optional
        See `array_observation`.
    intervals, detectors, templates, azimuth : sequence, optional
        See `array_observation`.
    unit : str, optional
        Of the signal, if it is no Quantity; K_CMB by default.
    options : mapping, optional
        Options of the run configuration, ``{"solver.tolerance": 1e-8, "products.residual": False}``, and
        tables, ``{"source": [{"kind": "offsets"}], "split": [{"name": "halves", "by": "time"}]}``.
    comm : Communicator or mpi4py.MPI.Comm, optional
        By default all processes of the launcher.
    progress : bool or Progress
        Whether bars are shown, in terminals and notebooks; or a listener.

    Returns
    -------
    Maps
        ``maps.sky``, ``maps.hits``, ``maps.covariance``, ``maps.binned``, ..., and ``maps.summary``.

    Raises
    ------
    DataError
        If arrays do not fit, or a value is wrong; names argument, detector and sample.
    ConfigError
        If arguments are missing or do not belong together, or an option is not valid.
    ResourceError
        If memory does not suffice.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> rng, t = np.random.default_rng(1), np.arange(40_000) / 10
    >>> theta, phi = np.pi / 2 + 1e-4 * t, 0.2 * np.sin(t / 10)
    >>> psi = np.add.outer([0.0, np.pi / 4], t)
    >>> signal = 1e-3 * np.cos(2 * psi) + rng.normal(scale=2e-4, size=psi.shape)
    >>> noise = petamap.OneOverF(net="60 uK s^0.5", fknee="50 mHz", fmin="1 mHz")
    >>> maps = petamap.make_map(signal, theta, phi, psi, noise=noise, sample_rate="10 Hz", n_side=16)
    >>> maps.sky.names, int(np.nansum(maps.hits.values))
    (('I', 'Q', 'U'), 80000)
    """
    given = {
        "theta": theta, "phi": phi, "psi": psi, "sample_rate": sample_rate, "flags": flags, "pixels": pixels,
        "weights": weights, "pointing": pointing, "efficiency": efficiency, "hwp_angle": hwp_angle,
        "gamma": gamma, "intervals": intervals, "detectors": detectors, "azimuth": azimuth,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    comm = given_communicator(comm)
    with agree_on_errors(comm):
        config, observations = _prepared(
            data, given, noise=noise, templates=templates, unit=unit, n_side=n_side,
            pixelization=pixelization, stokes=stokes, frame=frame, options=options,
        )  # fmt: skip
    with shown_progress(progress, comm.rank) as shown:
        maps = run(config, observations=observations, comm=comm, progress=shown, pixelization=pixelization)
    if comm.rank == 0 and type(shown) is SilentProgress:  # which has shown no warnings
        for text in maps.summary.warnings:
            warnings.warn(text, stacklevel=2)
    return maps


def _prepared(
    data: Any,
    given: dict[str, Any],
    *,
    noise: Any,
    templates: Sequence[Template],
    unit: str | None,
    n_side: int | None,
    pixelization: Pixelization | None,
    stokes: str,
    frame: str | None,
    options: Mapping[str, Any] | None,
) -> tuple[RunConfig, list[Observation]]:
    """Return the configuration and the observations of a map, of the arguments of `make_map`."""
    estimate, model = _known_noise(noise)
    observations = _observations(data)
    if observations:
        _require_none({**given, "templates": templates or None, "noise": model, "unit": unit})
        _require_frames(observations, frame)
    else:
        _require_all(noise, given.get("sample_rate"), stokes, given)
        own = {"noise": model, "templates": templates, "frame": frame, "unit": unit or "K_CMB"}
        observations = [array_observation(data, **given, **own, pixelization=pixelization)]
    _require_kinds(pixelization, options)
    tree = _map_options(observations, n_side, pixelization, stokes, frame)
    _require_once(tree, options or {})
    if all(isinstance(one.pointing, RigidPlane) for one in observations):
        tree["resources.pointing"] = "recompute"
    if estimate:
        tree["noise.kernel"] = "estimate"
    return config_of_options({**tree, **(options or {})}), observations


def _observations(data: Any) -> list[Observation]:
    """Return the observations given, in any sequence or generator; none if the data are arrays.

    Raises
    ------
    ConfigError
        If there is nothing, or something else among them.
    """
    if isinstance(data, Observation):
        return [data]
    given = list(data) if isinstance(data, Sequence | Iterator) or _of_objects(data) else None
    if given is not None and not given:
        raise ConfigError("there is no observation", where="data")
    if given is None or not any(isinstance(one, Observation) for one in given):
        return []
    for number, one in enumerate(given):
        if not isinstance(one, Observation):
            raise ConfigError(
                f"is a {type(one).__name__} among observations", where=f"data, number {number}",
                mend="make it one by petamap.array_observation",
            )  # fmt: skip
    return given


def _of_objects(data: Any) -> bool:
    return isinstance(data, np.ndarray) and data.dtype == object and data.ndim == 1


def _known_noise(noise: Any) -> tuple[bool, Any]:
    """Return whether noise is to be estimated, and else its models."""
    if isinstance(noise, str) and noise != "estimate":
        raise ConfigError(f"unknown noise '{noise}'", mend=_NO_NOISE)
    return (True, None) if isinstance(noise, str) else (False, noise)


def _require_kinds(pixelization: Any, options: Any) -> None:
    """Raise an error unless the pixelization is one, and options are a mapping."""
    if not (pixelization is None or (hasattr(pixelization, "n_pix") and not isinstance(pixelization, type))):
        named = getattr(pixelization, "__name__", repr(pixelization))
        mend = "give n_side=64, petamap.Healpix(64) or a petamap.CarPatch or FlatPatch, say"
        raise ConfigError(f"{printable(named)[:60]} is no pixelization", where="pixelization", mend=mend)
    if not (options is None or isinstance(options, Mapping)):
        what, mend = f"are a {type(options).__name__}, no mapping", 'give {"solver.tolerance": 1e-8}, say'
        raise ConfigError(what, where="options", mend=mend)


def _require_all(noise: Any, sample_rate: Any, stokes: str, given: Mapping[str, Any]) -> None:
    """Raise an error if something is missing that only maps of arrays need."""
    if noise is None:
        raise ConfigError("nothing says what the noise is", mend=_NO_NOISE)
    if sample_rate is None:
        raise ConfigError("the sample rate is not given", mend='sample_rate="10 Hz", say')
    if stokes != "I" and {"theta", "pixels"} & set(given) and not {"psi", "weights"} & set(given):
        raise ConfigError("nothing says at what angles detectors look", mend='give psi, or stokes="I"')


def _require_none(given: Mapping[str, Any]) -> None:
    """Raise an error if there are arguments that observations have themselves."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"{name} is part of the observations",
                mend=f"give it to petamap.array_observation: {name}=...",
            )


def _require_frames(observations: Sequence[Observation], frame: str | None) -> None:
    """Raise an error if an observation of an unknown frame is mapped in a known one."""
    known = [one.frame for one in observations if one.frame != OFFSET]
    unknown = [one.name for one in observations if one.frame == OFFSET]
    if unknown and (known or frame):
        raise ConfigError(
            f"does not say the frame of its pointing, and the map is {frame or known[0]}",
            where=f"observation {unknown[0]}", mend='petamap.array_observation(..., frame="galactic"), say',
        )  # fmt: skip


def _map_options(
    observations: Sequence[Observation],
    n_side: int | None,
    pixelization: Pixelization | None,
    stokes: str,
    frame: str | None,
) -> dict[str, Any]:
    """Return the options of a configuration that say what is mapped."""
    frames = [one.frame for one in observations if one.frame in FRAMES]
    options: dict[str, Any] = {"map.stokes": stokes, "map.frame": frame or [*frames, "galactic"][0]}
    if n_side is not None and pixelization is not None:
        raise ConfigError("both n_side and pixelization", mend="give one of them")
    if isinstance(pixelization, PartialHealpix):
        raise ConfigError("pixelization is a part of the sky", mend=f"give {pixelization.sky}")
    if isinstance(pixelization, Healpix):
        ordering = "nest" if pixelization.nest else "ring"
        options.update({"map.n_side": pixelization.n_side, "map.ordering": ordering})
    elif isinstance(pixelization, NumberedPixels):
        options["map.pixelization"] = "numbered"
    elif pixelization is not None:
        kind = "car" if isinstance(pixelization, CarPatch) else "flat"
        degrees = math.degrees(math.sqrt(pixelization.pixel_area))
        options.update({"map.pixelization": kind, "map.resolution": f"{degrees!r} deg"})
    elif n_side is not None:
        options["map.n_side"] = n_side
    return options


def _require_once(tree: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise an error if options say of the map's pixels something else than the arguments."""
    section = options.get("map")
    nested = {f"map.{key}": value for key, value in section.items()} if isinstance(section, Mapping) else {}
    for name, value in {**nested, **options}.items():
        if name in _PIXELS and name in tree and value != tree[name]:
            raise ConfigError(
                f"{name} is {value!r}, the arguments say {tree[name]!r}", where="options", mend="say it once"
            )
