"""P^T N^-1 P over the blocks of a rank on a device, in batches that its memory has room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from petacomm.base.errors import ResourceError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.cuda.device import Device
from petamap.cuda.sample_tables import WINDOW, CompressedSamples, KeptSamples

_BATCH_BYTES = 256 << 20  # of the transforms of a batch
_RUN = 4  # outputs of a thread (normal.cu)

# `Samples` in samples.h: addresses and numbers, 8 bytes each.
_MEMBERS = (
    "blocks", "responses", "n_stokes", "n_gaps", "n", "n_lag", "pixels", "angles", "gains", "streams",
    "pointings", "knots", "interpolation", "sights", "plate_turns", "ranges", "sight_of", "turns", "n_side",
    "order", "n_pix", "n_cap", "nested", "words", "before", "gap_bits", "gap_length", "first_windows",
    "first_slots", "expanded", "stride",
)  # fmt: skip


class NormalPass:
    """The pass P^T N^-1 P of conjugate gradients on a device.

    A batch of blocks is gathered from the map, each block as one complex row of two halves, transformed,
    multiplied, transformed back and scattered into sums, integers that do not depend on the order. Rows are
    transformed in batches of one size, so that the bits of a block depend on nothing else.

    Parameters
    ----------
    device : Device
    blocks : (n_block, 6) int64
    turns : (n_block,) int64
        When each block is visited: blocks of one range of time see the same pixels.
    responses : (n_segment, 2) float64
        Intensity and polarization efficiency.
    samples : KeptSamples or CompressedSamples
    first_slots : (n_block,) int64
        Unknown of the first gap of each block; used where samples are not kept.
    lags : (n_kernel, n_lag + 1) float64
        Of the inverse noise.
    transform : int
        Its length, longer than twice the lags.
    n_stokes, n_local, n_gaps : int
        Of the vectors.

    Raises
    ------
    ResourceError
        If the device has too little memory.
    """

    def __init__(
        self,
        device: Device,
        blocks: Int64Array,
        turns: Int64Array,
        responses: FloatArray,
        samples: KeptSamples | CompressedSamples,
        first_slots: Int64Array,
        lags: FloatArray,
        transform: int,
        n_stokes: int,
        n_local: int,
        n_gaps: int,
    ) -> None:
        self._device = device
        self._white = lags.shape[1] == 1
        self._n = 0 if self._white else transform
        arrays = samples.arrays(blocks)
        stride = int(blocks[:, 1].max(initial=1))
        self._rows = max(1, _BATCH_BYTES // (16 * max(self._n, stride // 2)))
        # rows before and after a transform, and their samples
        work = self._rows * (2 * 16 * self._n + 8 * stride)
        self._require(sum(one.nbytes for one in arrays.values()) + work + 16 * (n_local * n_stokes + n_gaps))
        self._most_out, self._most_in = int(blocks[:, 3].max(initial=0)), stride
        self._held = {name: device.upload(values) for name, values in arrays.items()}
        self._held |= {"blocks": device.upload(blocks), "responses": device.upload(responses)}
        sights = samples.sights(blocks)
        self._expands = sights is not None
        if self._expands:
            self._held["expanded"] = device.empty((self._rows, stride), np.uint64)
        self._order_blocks(turns, sights)
        numbers = {"n_stokes": n_stokes, "n_gaps": n_gaps, "n": self._n, "n_lag": lags.shape[1] - 1}
        self._describe(numbers | {"stride": stride} | samples.numbers())
        self._factors = device.upload(lags[:, 0] if self._white else spectra(lags, transform))
        self._time = None if self._white else device.empty((self._rows, self._n), np.complex128)
        self._sums = device.empty((n_local * n_stokes,), np.int64)
        self._gap_sums = device.empty((max(n_gaps, 1),), np.int64)
        self._vectors = device.empty((0,), np.float64), device.empty((0,), np.float64)
        if "gap_bits" in self._held:
            first = device.upload(first_slots)
            device.launch("number_gaps", len(blocks), 1, self._samples, device.address(first), len(blocks))
            device.read(self._gap_sums, np.zeros(1, np.int64))  # until the device has read what is freed here

    def _require(self, n_bytes: int) -> None:
        free = self._device.free_bytes()
        if n_bytes > free:
            raise ResourceError(
                f"this needs {n_bytes / 1e9:.2f} GB on {self._device.name}, {free / 1e9:.2f} GB are free",
                mend='set resources.pointing = "recompute", use more devices, or resources.backend = "cpu"',
            )

    def _order_blocks(self, turns: Int64Array, sights: Int64Array | None) -> None:
        """Put blocks in the order of their visits; in each batch, number the lines of sight that differ."""
        device, order = self._device, np.argsort(turns, kind="stable").astype(np.int64)
        places = np.zeros(len(order), np.int32)
        expanded: list[Int64Array] = []
        self._batches: list[tuple[int, int, int, int]] = []
        n_expanded = 0
        for first in range(0, len(order), self._rows):
            members = order[first : first + self._rows]
            own = members[:0]
            if sights is not None:
                _, one, place = np.unique(sights[members], axis=0, return_index=True, return_inverse=True)
                own = members[one]
                places[first : first + len(members)] = place.reshape(-1)
            self._batches.append((first, len(members), n_expanded, len(own)))
            expanded.append(own)
            n_expanded += len(own)
        self._visited, self._places = device.upload(order), device.upload(places)
        self._sight_blocks = device.upload(np.concatenate([*expanded, np.zeros(0, np.int64)]))

    def _describe(self, numbers: dict[str, int]) -> None:
        """Write the record that kernels read."""
        members = numbers | {name: self._device.address(one) for name, one in self._held.items()}
        self._record = self._device.upload(np.array([members.get(name, 0) for name in _MEMBERS], np.int64))
        self._samples = self._device.address(self._record)

    def apply(
        self, pixels: FloatArray, gaps: FloatArray, scales: FloatArray, sums: Int64Array, gap_sums: Int64Array
    ) -> None:
        """Write P^T N^-1 P of (pixels, gaps) to the sums, in units of 1/scale of each vector.

        Parameters
        ----------
        pixels : float64 (n_local, n_stokes, width)
        gaps : float64 (n_gaps, width)
        scales : float64 (width,)
            A vector of which it is 0 is left out.
        sums : int64 (n_local, n_stokes, width)
        gap_sums : int64 (n_gaps, width)
        """
        device = self._device
        self._vectors = tuple(
            self._written(values, to) for values, to in zip((pixels, gaps), self._vectors, strict=True)
        )
        for column in np.flatnonzero(scales):
            device.clear(self._sums)
            device.clear(self._gap_sums)
            for batch in self._batches:
                self._run(batch, int(column), len(scales), float(scales[column]))
            for values, to in ((self._sums, sums), (self._gap_sums, gap_sums)):
                found = to if len(scales) == 1 else np.empty(to.shape[:-1], np.int64)
                device.read(values, found)
                if found is not to:
                    to[..., column] = found

    def _written(self, values: FloatArray, to: Any) -> Any:
        """Return an array of the device with the values, which is `to` if it is long enough."""
        if to.size < values.size:
            return self._device.upload(values.reshape(-1))
        self._device.write(values, to)
        return to

    def _run(self, batch: tuple[int, int, int, int], column: int, width: int, scale: float) -> None:
        device, address = self._device, self._device.address
        first, n, first_expanded, n_expanded = batch
        blocks = address(self._visited) + 8 * first
        members = self._samples, blocks, address(self._places) + 4 * first
        vector = *(address(one) + 8 * column for one in self._vectors), width
        sums = scale, address(self._sums), address(self._gap_sums)
        if self._expands:
            seen = address(self._sight_blocks) + 8 * first_expanded
            device.launch("expand", -(-self._most_in // WINDOW), n_expanded, self._samples, seen)
        n_runs = -(-self._most_out // _RUN)
        if self._white:
            return device.launch("weigh", n_runs, n, *members, address(self._factors), *vector, *sums)
        time = address(self._time)
        device.launch("gather", self._n, self._rows, *members, n, *vector, time)
        device.transform(self._time, inverse=False)
        device.launch("multiply", self._n, n, self._samples, blocks, address(self._factors), time)
        device.transform(self._time, inverse=True)
        return device.launch("scatter", n_runs, n, *members, time, *sums)


def spectra(lags: FloatArray, n: int) -> FloatArray:
    """Return the spectra of symmetric band Toeplitz matrices with the factor 1/n, (n_kernel, n).

    Parameters
    ----------
    lags : float64 (n_kernel, n_lag + 1)
    n : int
        Length of the transform.
    """
    n_lag = lags.shape[1] - 1
    rows = np.zeros((len(lags), n))
    rows[:, : n_lag + 1] = lags
    rows[:, n - n_lag :] = lags[:, :0:-1]
    found: FloatArray = np.fft.fft(rows, axis=1).real / n
    return found
