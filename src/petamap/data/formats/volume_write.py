"""Writing of petamap's own volume format; for the layout see `petamap.data.formats.volume`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import atomic_write
from petacomm.base.threads import map_ahead
from petacomm.base.typing import AnyArray, UInt8Array
from petacomm.mpi import Communicator, SerialCommunicator, agree_on_errors, gather_in_order
from petamap.data.checks import check_not_empty
from petamap.data.formats.hdf5_chunk import encode_chunk
from petamap.data.formats.volume_header import FORMAT, VERSION, VolumeHeader, crc32
from petamap.data.observation import Observation, noise_models, read_flags, read_signal
from petamap.data.read_ahead import PIECE
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, TabulatedPsd, noise_key
from petamap.pointing.boresight import AnyBoresight, Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate, UniformPlate

_CHUNK = 1 << 16  # samples
_WRITER_MAKES = 4  # ranks; of more, the one that writes keeps pace with the others if it makes no samples
_COMPRESSED = ("flags",)


def write_volume(
    path: Path,
    observations: Sequence[Observation],
    precision: Literal["float64", "float32"] = "float64",
    n_threads: int = 1,
    advance: Callable[[float], None] = lambda amount: None,
    comm: Communicator | None = None,
) -> None:
    """Write observations to one file atomically; the signal is written as the sum of its contributions.

    The ranks of a communicator, and their threads, make samples, checksums and compressed chunks, which rank
    0 writes. The bytes of the file do not depend on their number. Collective if `comm` is given.

    Parameters
    ----------
    path : Path
        With the suffix ``.h5``, the folder can be used as a source.
    observations : sequence of Observation
        Pointing, signal, flags and noise are each optional.
    precision : {"float64", "float32"}
        Data type of the signal.
    n_threads : int
        Threads of this rank that make or read the samples.
    advance : callable
        Called on rank 0 with the number of samples of the signal just written.
    comm : Communicator, optional
        Ranks that share the work; by default this process alone.

    Raises
    ------
    DataError
        On all ranks, if the pointing is not `CompressedPointing`, or there are no samples or detectors.
    ResourceError
        On all ranks, if the file cannot be written.
    """
    comm = comm or SerialCommunicator()
    with ExitStack() as stack:
        with agree_on_errors(comm):
            for observation in observations:
                check_not_empty(observation)
            file = stack.enter_context(_new_file(path, len(observations))) if comm.rank == 0 else None
        for number, observation in enumerate(observations):
            _Writer(file, f"{number:04d}", observation, comm, n_threads, advance).write(precision)
        with agree_on_errors(comm):
            stack.close()


@contextmanager
def _new_file(path: Path, n_observations: int) -> Iterator[Any]:
    import h5py

    with atomic_write(path) as temporary, h5py.File(temporary, "w", libver=("v110", "latest")) as file:
        file.attrs["format"], file.attrs["version"] = np.bytes_(FORMAT), VERSION
        file.attrs["n_observations"] = n_observations
        yield file


class _Writer:
    """Writer of an observation to its group, on rank 0; the header is written last."""

    def __init__(
        self,
        file: Any,
        group: str,
        observation: Observation,
        comm: Communicator,
        n_threads: int,
        advance: Callable[[float], None],
    ) -> None:
        self._file, self._name = file, group
        self._group: Any = None
        self._observation = observation
        self._comm, self._n_threads, self._advance = comm, n_threads, advance
        self._chunk = min(_CHUNK, observation.n_samp)
        self._crc: dict[str, int] = {}

    def write(self, precision: str) -> None:
        """Write all parts of the observation. Collective."""
        observation, boresight, plate = self._observation, None, None
        with agree_on_errors(self._comm):
            if self._file is not None:
                self._group = self._file.create_group(self._name)
                if observation.pointing is not None:
                    boresight, plate = self._pointing()
        if observation.signals:
            self._samples("signal", precision, read_signal)
        if observation.flags:
            self._samples("flags", "uint8", read_flags)
        with agree_on_errors(self._comm):
            if self._file is not None:
                self._write_rest(boresight, plate)

    def _write_rest(self, boresight: dict[str, Any] | None, plate: dict[str, Any] | None) -> None:
        observation = self._observation
        if observation.azimuth is not None:
            self._dataset("azimuth", observation.azimuth.azimuths(0, observation.n_samp))
        header = VolumeHeader(
            name=observation.name,
            uid=int(observation.uid),
            n_samp=int(observation.n_samp),
            sample_rate=float(observation.sample_rate),
            start_time=float(observation.start_time),
            detectors=observation.detectors,
            intervals=tuple((int(start), int(stop)) for start, stop in observation.intervals),
            unit=observation.unit,
            frame=observation.frame,
            boresight=boresight,
            plate=plate,
            noise=self._noise() if observation.noise is not None else None,
            chunk=self._chunk,
            crc=self._crc,
        )
        content = header.to_json()
        self._dataset("header", np.frombuffer(content, np.uint8)).attrs["crc"] = crc32(content)

    def _pointing(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        pointing = compressed_pointing(self._observation, "volume")
        entry = self._boresight(pointing.boresight)
        self._dataset("quaternions", pointing.detectors)
        self._dataset("detector_angles", np.stack([pointing.epsilon, pointing.gamma]))
        match pointing.plate:
            case UniformPlate(phase, rate):
                return entry, {"kind": "uniform", "phase": phase, "rate": rate}
            case SampledPlate(angles, spacing, offset):
                self._dataset("plate", np.asarray(angles, np.float64))
                return entry, {"kind": "sampled", "spacing": spacing, "offset": offset}
        return entry, None

    def _boresight(self, boresight: AnyBoresight) -> dict[str, Any]:
        if isinstance(boresight, Boresight):
            self._dataset("knots", boresight.knots)
            return {"spacing": boresight.spacing, "offset": boresight.offset, "order": boresight.order}
        pieces = boresight.pieces
        rows = [(p.n_samp, len(p.knots), p.spacing, p.offset, p.degree) for p in pieces]
        self._dataset("knots", np.concatenate([piece.knots for piece in pieces]))
        self._dataset("pieces", np.array(rows, np.float64))
        return {"pieces": len(pieces)}

    def _samples(self, name: str, dtype: str, read: Callable[[Observation, int, int, int], AnyArray]) -> None:
        """Write samples of all detectors, which the ranks make. Collective."""
        observation, chunk, comm = self._observation, self._chunk, self._comm
        begins = range(0, observation.n_samp, chunk)
        places = [(detector, begin) for detector in range(observation.n_det) for begin in begins]
        crc = np.zeros((observation.n_det, len(begins)), np.uint32)
        with agree_on_errors(comm):
            if self._file is not None:
                data = self._create(name, (observation.n_det, observation.n_samp), dtype, (1, chunk))

        def made(place: tuple[int, int]) -> UInt8Array:
            detector, begin = place
            stop = min(begin + chunk, observation.n_samp)
            values = read(observation, detector, begin, stop).astype(dtype)
            crc[detector, begin // chunk] = crc32(values)
            return encode_chunk(values, chunk, name in _COMPRESSED)

        def take(number: int, encoded: UInt8Array) -> None:
            detector, begin = places[number]
            data.id.write_direct_chunk((detector, begin), encoded)
            if name == "signal":
                self._advance(float(min(chunk, observation.n_samp - begin)))

        makers = self._makers(places)
        own = (place for place, rank in zip(places, makers, strict=True) if rank == comm.rank)
        gather_in_order(comm, makers, map_ahead(made, own, self._n_threads), take)
        comm.allreduce(crc)
        with agree_on_errors(comm):
            if self._file is not None:
                self._dataset(f"{name}_crc", crc)

    def _makers(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Return the rank that makes each chunk, the same for those of a piece in which files are read."""
        pieces = [(detector, begin // PIECE) for detector, begin in places]
        numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
        first = int(self._comm.size > _WRITER_MAKES)
        return [first + numbers[piece] % (self._comm.size - first) for piece in pieces]

    def _noise(self) -> dict[str, Any]:
        known: dict[Hashable, tuple[int, NoiseModel]] = {}  # number and model, by key
        index = [
            [known.setdefault(noise_key(model), (len(known), model))[0] for model in models]
            for models in noise_models(self._observation)
        ]
        return {"models": [self._model(model, number) for number, model in known.values()], "index": index}

    def _model(self, model: NoiseModel, number: int) -> dict[str, Any]:
        match model:
            case OneOverF():
                return {"kind": "one-over-f", **{name: float(value) for name, value in vars(model).items()}}
            case InverseLags(lags):
                self._dataset(f"noise_{number}", np.asarray(lags, np.float64))
                return {"kind": "inverse-lags", "dataset": f"noise_{number}"}
            case TabulatedPsd(frequencies, values):
                self._dataset(f"noise_{number}", np.stack([frequencies, values]).astype(np.float64))
                return {"kind": "psd", "dataset": f"noise_{number}"}

    def _dataset(self, name: str, values: AnyArray) -> Any:
        """Write a dataset that is read in full, and keep its CRC-32."""
        rows = max(1, min(values.shape[0], (1 << 19) // max(1, values[:1].nbytes)))
        data = self._create(name, values.shape, values.dtype, (rows, *values.shape[1:]))
        data[...] = values
        self._crc[name] = crc32(values)
        return data

    def _create(self, name: str, shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...]) -> Any:
        compression = "gzip" if name in _COMPRESSED else None
        return self._group.create_dataset(
            name, shape, dtype, chunks=chunks, fletcher32=True, compression=compression
        )


def compressed_pointing(observation: Observation, file: str) -> CompressedPointing:
    """Return the pointing of an observation to be written to a kind of file.

    Raises
    ------
    DataError
        If the pointing is not `CompressedPointing`, or of streams that are no detectors.
    """
    pointing = observation.pointing
    if not isinstance(pointing, CompressedPointing):
        what = f"a {file} cannot hold {type(pointing).__name__}"
        raise DataError(what, where=observation.name, mend="only compressed pointing")
    if any(pointing.intensity(detector) != 1 for detector in range(pointing.n_det)):
        what = f"a {file} cannot hold streams of polarization alone"
        raise DataError(what, where=observation.name, mend="write the data before demodulation")
    return pointing
