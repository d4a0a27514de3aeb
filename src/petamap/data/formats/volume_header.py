"""JSON header of an observation in a volume."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray
from petamap.pointing.frames import FRAMES, OFFSET

FORMAT = "petamap volume"
VERSION = 1

# keys of plates and noise models by kind
_PLATES = {"uniform": ("phase", "rate"), "sampled": ("spacing", "offset")}
_MODELS = {"one-over-f": ("net", "fknee", "fmin", "alpha"), "inverse-lags": (), "psd": ()}


@dataclass(frozen=True)
class VolumeHeader:
    """Header of an observation; for the keys see `petamap.data.formats.volume`."""

    name: str
    uid: int
    n_samp: int
    sample_rate: float
    start_time: float
    detectors: tuple[str, ...]
    intervals: tuple[tuple[int, int], ...]
    unit: str
    frame: str | None = None
    boresight: dict[str, Any] | None = None
    plate: dict[str, Any] | None = None
    noise: dict[str, Any] | None = None
    chunk: int = 1
    crc: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return the header as JSON; floats are exact."""
        return json.dumps(asdict(self), allow_nan=False).encode()

    @classmethod
    def from_json(cls, content: bytes, where: str) -> VolumeHeader:
        """Return the header of a JSON text.

        Raises
        ------
        DataError
            If the text is not a valid header.
        """
        try:
            raw = json.loads(content)
            raw["detectors"] = tuple(raw["detectors"])
            raw["intervals"] = tuple((start, stop) for start, stop in raw["intervals"])
            header = cls(**raw)
            header._check()
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise DataError(f"is no header of version {VERSION}: {error}", where=where) from error
        return header

    def _check(self) -> None:
        _must(all(isinstance(text, str) for text in (self.name, self.unit, *self.detectors)), "texts")
        _must(0 < len(set(self.detectors)) == len(self.detectors), "names of detectors")
        _must(
            all(type(n) is int for n in (self.uid, self.n_samp, self.chunk, *self.crc.values())), "integers"
        )
        _must(0 <= self.uid < 2**32 and self.n_samp > 0 and self.chunk > 0, "uid, n_samp, chunk")
        _must(math.isfinite(self.start_time) and 0 < self.sample_rate < math.inf, "clock")
        bounds = [bound for interval in self.intervals for bound in interval]
        _must(all(type(bound) is int for bound in bounds), "intervals")
        _must(all(a <= b for a, b in zip([0, *bounds], [*bounds, self.n_samp], strict=True)), "intervals")
        _must(self.frame in (None, OFFSET, *FRAMES), "frame")
        if self.boresight is not None:
            self._check_boresight(self.boresight)
        if self.plate is not None:
            _must(_numbers(self.plate, *_PLATES[self.plate["kind"]]), "plate")
        if self.noise is not None:
            self._check_noise(self.noise)

    def _check_boresight(self, boresight: dict[str, Any]) -> None:
        if set(boresight) == {"pieces"}:
            _must(type(boresight["pieces"]) is int and boresight["pieces"] > 0, "pieces")
            return
        _must(set(boresight) == {"spacing", "offset", "order"}, "boresight")
        _must(boresight["order"] in ("slerp", "cubic"), "boresight")
        _must(_numbers(boresight, "spacing", "offset"), "boresight")

    def _check_noise(self, noise: dict[str, Any]) -> None:
        for model in noise["models"]:
            _must(_numbers(model, *_MODELS[model["kind"]]), "noise")
            _must(model["kind"] == "one-over-f" or isinstance(model["dataset"], str), "noise")
        _must(len(noise["index"]) == len(self.detectors), "noise index")
        for row in noise["index"]:
            _must(len(row) == len(self.intervals), "noise index")
            _must(all(type(k) is int and 0 <= k < len(noise["models"]) for k in row), "noise index")


def crc32(values: AnyArray | bytes) -> int:
    """Return the CRC-32 of an array in C order, or of bytes."""
    return zlib.crc32(values if isinstance(values, bytes) else np.ascontiguousarray(values).data)


def _numbers(entry: dict[str, Any], *names: str) -> bool:
    return all(type(entry[name]) in (int, float) for name in names)


def _must(true: bool, what: str) -> None:
    if not true:
        raise ValueError(f"{what} cannot be so")
