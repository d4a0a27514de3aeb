"""Writing petamap's own volume; the layout stands in `petamap.data.formats.volume`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import replacing
from petacomm.base.typing import AnyArray
from petamap.data.formats.volume_header import FORMAT, VERSION, Header, crc_of
from petamap.data.observation import Observation
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, TabulatedPsd
from petamap.pointing.compressed import CompressedPointing, SampledPlate, UniformPlate

_CHUNK = 1 << 16  # samples


def write_volume(
    path: Path, observations: Sequence[Observation], precision: Literal["float64", "float32"] = "float64"
) -> None:
    """Write observations to one file, which is whole or absent; contributions to the signal are summed.

    Parameters
    ----------
    path : Path
        Name it ``*.h5``: a source can then name the folder.
    observations : sequence of Observation
        What they lack (pointing, signal, flags, noise) is not written either.
    precision : {"float64", "float32"}
        Of the signal.

    Raises
    ------
    DataError
        If the pointing is not `CompressedPointing`.
    ResourceError
        If the file cannot be written.
    """
    import h5py

    with replacing(path) as temporary, h5py.File(temporary, "w", libver=("v110", "latest")) as file:
        file.attrs["format"], file.attrs["version"] = np.bytes_(FORMAT), VERSION
        file.attrs["n_observations"] = len(observations)
        for number, observation in enumerate(observations):
            _Writer(file.create_group(f"{number:04d}"), observation).write(precision)


class _Writer:
    """Writes one observation to its group, and the header at last."""

    def __init__(self, group: Any, observation: Observation) -> None:
        self._group = group
        self._observation = observation
        self._chunk = min(_CHUNK, observation.n_samp)
        self._crc: dict[str, int] = {}

    def write(self, precision: str) -> None:
        """Write all that the observation has."""
        one = self._observation
        boresight, plate = self._pointing() if one.pointing is not None else (None, None)
        if one.signals:
            self._samples("signal", precision)
        if one.flags:
            self._samples("flags", "uint8")
        header = Header(
            name=one.name,
            uid=int(one.uid),
            n_samp=int(one.n_samp),
            sample_rate=float(one.sample_rate),
            start_time=float(one.start_time),
            detectors=one.detectors,
            intervals=tuple((int(start), int(stop)) for start, stop in one.intervals),
            unit=one.unit,
            boresight=boresight,
            plate=plate,
            noise=self._noise() if one.noise is not None else None,
            chunk=self._chunk,
            crc=self._crc,
        )
        content = header.to_json()
        self._whole("header", np.frombuffer(content, np.uint8)).attrs["crc"] = crc_of(content)

    def _pointing(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        pointing = self._observation.pointing
        if not isinstance(pointing, CompressedPointing):
            raise DataError(
                f"a volume cannot hold {type(pointing).__name__}",
                where=self._observation.name,
                mend="only compressed pointing",
            )
        boresight = pointing.boresight
        self._whole("knots", boresight.knots)
        self._whole("quaternions", pointing.detectors)
        self._whole("detector_angles", np.stack([pointing.epsilon, pointing.gamma]))
        said = {"spacing": boresight.spacing, "offset": boresight.offset, "order": boresight.order}
        match pointing.plate:
            case UniformPlate(phase, rate):
                return said, {"kind": "uniform", "phase": phase, "rate": rate}
            case SampledPlate(angles, spacing, offset):
                self._whole("plate", np.asarray(angles, np.float64))
                return said, {"kind": "sampled", "spacing": spacing, "offset": offset}
        return said, None

    def _samples(self, name: str, dtype: str) -> None:
        one = self._observation
        bounds = range(0, one.n_samp, self._chunk)
        crc = np.zeros((one.n_det, len(bounds)), np.uint32)
        data = self._create(name, (one.n_det, one.n_samp), dtype, (1, self._chunk))
        for detector in range(one.n_det):
            for k, start in enumerate(bounds):
                values = self._read(name, detector, start, min(start + self._chunk, one.n_samp))
                data[detector, start : start + len(values)] = values = values.astype(dtype)
                crc[detector, k] = crc_of(values)
        self._whole(f"{name}_crc", crc)

    def _read(self, name: str, detector: int, start: int, stop: int) -> AnyArray:
        if name == "flags":
            flags = np.zeros(stop - start, np.uint8)
            for mask in self._observation.flags:
                mask.or_flags(detector, start, stop, flags)
            return flags
        signal = np.zeros(stop - start)
        for part in self._observation.signals:
            part.add_signal(detector, start, stop, signal)
        return signal

    def _noise(self) -> dict[str, Any]:
        one = self._observation
        assert one.noise is not None
        known: dict[object, int] = {}
        models: list[dict[str, Any]] = []
        index = []
        for detector in range(one.n_det):
            row = []
            for interval in range(len(one.intervals)):
                model = one.noise.noise_model(detector, interval)
                key = noise_key(model)
                if key not in known:
                    known[key] = len(models)
                    models.append(self._model(model, len(models)))
                row.append(known[key])
            index.append(row)
        return {"models": models, "index": index}

    def _model(self, model: NoiseModel, number: int) -> dict[str, Any]:
        match model:
            case OneOverF(net, fknee, fmin, alpha):
                numbers = {"net": net, "fknee": fknee, "fmin": fmin, "alpha": alpha}
                return {"kind": "one-over-f", **{name: float(value) for name, value in numbers.items()}}
            case InverseLags(lags):
                self._whole(f"noise_{number}", np.asarray(lags, np.float64))
                return {"kind": "inverse-lags", "dataset": f"noise_{number}"}
            case TabulatedPsd(frequencies, values):
                self._whole(f"noise_{number}", np.stack([frequencies, values]).astype(np.float64))
                return {"kind": "psd", "dataset": f"noise_{number}"}

    def _whole(self, name: str, values: AnyArray) -> Any:
        """Write a dataset that is read as a whole."""
        rows = max(1, min(values.shape[0], (1 << 19) // max(1, values[:1].nbytes)))
        data = self._create(name, values.shape, values.dtype, (rows, *values.shape[1:]))
        data[...] = values
        self._crc[name] = crc_of(values)
        return data

    def _create(self, name: str, shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...]) -> Any:
        packed = "gzip" if name == "flags" else None
        return self._group.create_dataset(
            name,
            shape,
            dtype,
            chunks=chunks,
            fletcher32=True,
            compression=packed,
        )


def noise_key(model: NoiseModel) -> object:
    """Return what is equal for equal models, and can be hashed."""
    if isinstance(model, OneOverF):
        return model
    arrays = (model.lags,) if isinstance(model, InverseLags) else (model.frequencies, model.values)
    return type(model), *(np.asarray(array, np.float64).tobytes() for array in arrays)
