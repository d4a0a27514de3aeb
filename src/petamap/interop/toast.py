"""TOAST 3: observations of its `Data` in memory, and an operator that maps them.

Parts of an observation mean what they mean in volumes (`petamap.data.formats.toast`): maps have the same
bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import toast
import toast.noise_sim
import toast.ops
import traitlets
from astropy import units
from toast.observation import default_values as defaults
from toast.traits import Bool, Int, Unicode, trait_docs

from petacomm.base.errors import ConfigError, DataError, did_you_mean
from petacomm.base.typing import AnyArray, FloatArray, UInt8Array
from petamap.arrays.make_map import make_map
from petamap.data.checks import check_sampling, check_times
from petamap.data.formats.toast_instrument import mixed_psd
from petamap.data.observation import DetectorNoise, Observation
from petamap.data.recorded_azimuth import RecordedAzimuth
from petamap.mapmaking.maps_in_memory import Maps
from petamap.noise.model import NoiseModel, OneOverF
from petamap.noise.psd import check_noise_model
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate
from petamap.sky.healpix import Healpix

_END_AT_LEAPS = "name stationary intervals that end there, by the trait view"
_FRAMES = {"C": "equatorial", "G": "galactic", "E": "ecliptic"}
# Products that TOAST has names for: theirs, and how they are kept
_PRODUCTS = {
    "map": ("map", np.float64), "binned": ("binmap", np.float64), "hits": ("hits", np.int32),
    "covariance": ("cov", np.float64), "rcond": ("rcond", np.float64),
}  # fmt: skip


@trait_docs
class MapMaker(toast.ops.Operator):  # type: ignore[misc]
    """Operator that makes maximum-likelihood maps of TOAST's data in memory.

    The maps are put into the data as `PixelData`: ``<name>_map``, ``<name>_binmap``, ``<name>_hits``,
    ``<name>_cov`` and ``<name>_rcond``, 0 where a pixel has no value; `maps` holds all products of petamap.
    Noise is taken from the noise model in full, so that no templates are needed. Signal and flags are
    read where they are. For one process: the data of several are mapped from a volume.
    """

    API = Int(0, help="Internal interface version for this operator")
    det_data = Unicode(defaults.det_data, help="Observation detdata key for the timestream data")
    noise_model = Unicode(defaults.noise_model, help="Observation key containing the noise model")
    boresight = Unicode(defaults.boresight_radec, help="Observation shared key for boresight")
    hwp_angle = Unicode(
        defaults.hwp_angle, allow_none=True, help="Observation shared key for HWP angle, where there is one"
    )
    times = Unicode(defaults.times, help="Observation shared key for timestamps")
    azimuth = Unicode(
        defaults.azimuth, allow_none=True, help="Observation shared key for azimuth, where there is one"
    )
    view = Unicode(None, allow_none=True, help="Intervals that are stationary; others are not used")
    det_mask = Int(defaults.det_mask_nonscience, help="Bit mask value for per-detector flagging")
    det_flags = Unicode(defaults.det_flags, allow_none=True, help="Observation detdata key for flags to use")
    det_flag_mask = Int(defaults.det_mask_nonscience, help="Bit mask value for detector sample flagging")
    shared_flags = Unicode(
        defaults.shared_flags, allow_none=True, help="Observation shared key for telescope flags to use"
    )
    shared_flag_mask = Int(
        defaults.shared_mask_nonscience, help="Bit mask value for optional shared flagging"
    )
    nside = Int(64, help="The NSIDE resolution")
    nside_submap = Int(16, help="The NSIDE of the submap resolution")
    nest = Bool(True, help="If True, use NESTED ordering instead of RING")
    mode = Unicode("IQU", help="The Stokes parameters to map (I, QU or IQU)")
    coord_out = Unicode("C", help="The coordinates of the maps: C, G or E")
    options = traitlets.Dict({}, help="Options of petamap's configuration, as {'solver.tolerance': 1e-8}")
    progress = Bool(False, help="If True, show progress bars in terminals and notebooks")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.maps: Maps | None = None

    def _exec(self, data: Any, detectors: Sequence[str] | None = None, **kwargs: Any) -> None:
        if data.comm.world_size > 1:
            raise ConfigError(
                "data that TOAST has dealt to several processes are not mapped in memory",
                mend="write a volume (toast.ops.SaveHDF5), and map it by petamap run over MPI",
            )
        if self.coord_out not in _FRAMES:
            raise ConfigError(f"coord_out is '{self.coord_out}'", mend="C, G or E")
        self.maps = make_map(
            list(self.observations(data, detectors)), pixelization=Healpix(self.nside, nest=self.nest),
            stokes=self.mode, frame=_FRAMES[self.coord_out], options={"run.name": "toast", **self.options},
            progress=self.progress,
        )  # fmt: skip
        put_maps(data, self.name, self.maps, self.nside_submap)

    def _finalize(self, data: Any, **kwargs: Any) -> None:
        return None

    def observations(self, data: Any, detectors: Sequence[str] | None = None) -> Iterator[Observation]:
        """Yield petamap's observations of the data, those without a detector left out."""
        for ob in data.obs:
            names = ob.select_local_detectors(detectors, flagmask=self.det_mask)
            if names:
                self._require_parts(ob)
                yield self._observation(ob, tuple(names))

    def _require_parts(self, ob: Any) -> None:
        """Raise an error if an observation lacks what a trait names; what defaults name may be missing."""
        needed = {
            "det_data": ob.detdata, "times": ob.shared, "boresight": ob.shared, "view": ob.intervals,
        }  # fmt: skip
        others = {
            "noise_model": ob, "det_flags": ob.detdata, "shared_flags": ob.shared, "hwp_angle": ob.shared,
            "azimuth": ob.shared,
        }  # fmt: skip
        for trait, parts in (needed | others).items():
            name = getattr(self, trait)
            by_default = trait in others and name == self.traits()[trait].default_value
            if name is None or name in parts or by_default:
                continue
            mend = did_you_mean(name, [str(key) for key in parts])
            raise DataError(
                f"has no '{name}', which {trait} names", where=f"observation {ob.name}", mend=mend
            )

    def _observation(self, ob: Any, names: tuple[str, ...]) -> Observation:
        n_samp, plane = ob.n_local_samples, ob.telescope.focalplane
        times = check_times(ob.shared[self.times].data, f"{ob.name}, {self.times}")
        unit = ob.detdata[self.det_data].units.to_string()
        samples = _Samples(
            ob.detdata[self.det_data].data,
            tuple(ob.detdata[self.det_data].indices(names)),
            self._flags(ob, names),
        )
        told, intervals = plane.sample_rate, self._intervals(ob)
        rate = (n_samp - 1) / (times[-1] - times[0]) if told is None else told.to_value(units.Hz)
        check_sampling(times, rate, intervals, f"{ob.name}, {self.times}", _END_AT_LEAPS)
        return Observation(
            name=ob.name, uid=int(ob.uid) % 2**32, n_samp=n_samp, detectors=names, start_time=float(times[0]),
            sample_rate=rate, intervals=intervals, pointing=self._pointing(ob, names), signals=(samples,),
            flags=(samples,), noise=self._noise(ob, names, unit), azimuth=self._azimuth(ob),
            unit="K_CMB" if unit in ("K", "") else unit, frame="equatorial",
        )  # fmt: skip

    def _flags(self, ob: Any, names: tuple[str, ...]) -> tuple[tuple[AnyArray, int, tuple[int, ...]], ...]:
        """Return flags, the bits that say bad, and rows of detectors."""
        found: list[tuple[AnyArray, int, tuple[int, ...]]] = []
        if self.shared_flags is not None and self.shared_flags in ob.shared:
            found.append((ob.shared[self.shared_flags].data[None], self.shared_flag_mask, (0,) * len(names)))
        if self.det_flags is not None and self.det_flags in ob.detdata:
            flags = ob.detdata[self.det_flags]
            found.append((flags.data, self.det_flag_mask, tuple(flags.indices(names))))
        return tuple(found)

    def _intervals(self, ob: Any) -> tuple[tuple[int, int], ...]:
        if self.view is None:
            return ((0, ob.n_local_samples),)
        return tuple((int(one.first), int(one.last)) for one in ob.intervals[self.view])

    def _pointing(self, ob: Any, names: tuple[str, ...]) -> CompressedPointing:
        plane, n_samp = ob.telescope.focalplane, ob.n_local_samples
        columns, plate = plane.detector_data.colnames, None
        if self.hwp_angle is not None and self.hwp_angle in ob.shared:
            plate = SampledPlate(np.array(ob.shared[self.hwp_angle].data))
        leakage, gamma = None, None
        if "pol_leakage" in columns:
            leakage = [float(plane[name]["pol_leakage"]) for name in names]
        if "gamma" in columns:
            gamma = [plane[name]["gamma"].to_value(units.rad) for name in names]
        return CompressedPointing(
            Boresight(ob.shared[self.boresight].data, n_samp),
            np.array([plane[name]["quat"] for name in names], np.float64),
            epsilon=leakage, gamma=gamma, plate=plate,
        )  # fmt: skip

    def _noise(self, ob: Any, names: tuple[str, ...], unit: str) -> DetectorNoise | None:
        if self.noise_model not in ob:
            return None
        model = ob[self.noise_model]
        of = _analytic if isinstance(model, toast.noise_sim.AnalyticNoise) else _tabulated
        models = tuple(of(model, name, unit or "K") for name in names)
        for name, one in zip(names, models, strict=True):
            check_noise_model(one, f"{ob.name}, {self.noise_model}, detector {name}")
        return DetectorNoise(models)

    def _azimuth(self, ob: Any) -> RecordedAzimuth | None:
        if self.azimuth is None or self.azimuth not in ob.shared:
            return None
        track = ob.shared[self.azimuth].data
        return RecordedAzimuth(
            lambda start, stop: track[start:stop],
            lambda sample: f"{ob.name}, {self.azimuth}, sample {sample}",
        )


@dataclass(frozen=True, eq=False)
class _Samples:
    """Signal and flags of some detectors of an observation (implements `Signal` and `Flags`)."""

    any_order = in_memory = True

    signal: AnyArray
    rows: tuple[int, ...]
    flags: tuple[tuple[AnyArray, int, tuple[int, ...]], ...]

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        out += self.signal[self.rows[detector], start:stop]

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        for flags, mask, rows in self.flags:
            out |= (flags[rows[detector], start:stop] & mask) != 0


def _analytic(model: Any, name: str, unit: str) -> NoiseModel:
    net = model.NET(name).to_value(f"{unit} s(1/2)")
    fknee, fmin = (part(name).to_value(units.Hz) for part in (model.fknee, model.fmin))
    return OneOverF(float(net), float(fknee), float(fmin), -float(model.alpha(name)))


def _tabulated(model: Any, name: str, unit: str) -> NoiseModel:
    """Return the spectrum of a detector in the precision that volumes have, float32."""
    parts = []
    for key, weight in model.mixing_matrix[name].items():
        table = np.array([model.freq(key).to_value(units.Hz), model.psd(key).value], np.float32)
        frequencies, values = table.astype(np.float64)
        factor = 2 * model.psd(key).unit.to(f"{unit}2 s")
        above = frequencies > 0
        parts.append(((frequencies[above], factor * values[above]), float(np.float32(weight)) ** 2))
    return mixed_psd(parts, f"noise model, detector {name}")


def put_maps(data: Any, name: str, maps: Maps, nside_submap: int = 16) -> None:
    """Put maps into TOAST's data as `PixelData`, 0 where a pixel has no value.

    Parameters
    ----------
    data : toast.Data
    name : str
        Of the operator, with which the names begin.
    maps : Maps
        HEALPix maps.
    nside_submap : int
        Of the submaps of TOAST's pixel distribution.
    """
    hits = (maps.hits if "hits" in maps else maps.sky).whole()
    pixels = hits.pixelization
    assert isinstance(pixels, Healpix), "the operator maps HEALPix pixels"
    n_submap = 12 * min(nside_submap, pixels.n_side) ** 2
    n_submap = pixels.n_pix // (pixels.n_pix // n_submap)
    length = pixels.n_pix // n_submap
    seen = np.isfinite(hits.values[0])
    submaps = np.flatnonzero(seen.reshape(n_submap, length).any(axis=1))
    dist = toast.PixelDistribution(
        n_pix=pixels.n_pix, n_submap=n_submap, local_submaps=submaps, comm=data.comm.comm_world
    )
    data[f"{name}_dist"] = dist
    for kind, (suffix, dtype) in _PRODUCTS.items():
        if kind in maps:
            data[f"{name}_{suffix}"] = _pixel_data(maps[kind].whole(), dist, submaps, length, dtype)


def _pixel_data(product: Any, dist: Any, submaps: AnyArray, length: int, dtype: Any) -> Any:
    unit = units.Unit(product.unit.replace("_CMB", "")) if product.unit else units.dimensionless_unscaled
    found = toast.PixelData(dist, dtype, n_value=len(product.names), units=unit)
    values = product.values.reshape(len(product.names), -1, length)[:, submaps]
    found.data[:] = np.nan_to_num(values, nan=0.0).transpose(1, 2, 0)
    return found
