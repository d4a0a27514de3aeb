"""Blocks of detectors that share noise: those of one range of time, filtered together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petamap.data.observation import Observation, noise_in_common
from petamap.mapmaking.time_layout import LocalBlocks, TimeLayout
from petamap.noise.common_modes import ModeAmplitudes, mode_amplitudes
from petamap.noise.model import NoiseModel


@dataclass(frozen=True)
class JointGroup:
    """Blocks of all detectors of an interval over one range of time.

    Attributes
    ----------
    members : int64 (n_det,)
        Numbers of the rank's blocks.
    forward, backward : float64 (n_det, n_modes)
        As in `ModeAmplitudes`, of samples in the units of their streams.
    kernels : int64 (n_modes,)
        Of the amplitudes.
    """

    members: Int64Array
    forward: FloatArray
    backward: FloatArray
    kernels: Int64Array


@dataclass(frozen=True)
class JointNoise:
    """All groups of a rank, and the blocks in none.

    Attributes
    ----------
    groups : tuple of JointGroup
    alone : int64 (n,)
        Numbers of blocks of detectors that share nothing.
    """

    groups: tuple[JointGroup, ...]
    alone: Int64Array

    def table(self, n_kernels: int) -> _mapmaking.JointTable:
        """Return the groups as the kernels take them, those of modes after `n_kernels` of detectors."""
        rows, first_member, first_coupling = [], 0, 0
        for group in self.groups:
            n_det, n_modes = group.forward.shape
            rows.append((first_member, n_det, first_coupling, n_modes, n_kernels + int(group.kernels[0])))
            first_member += n_det
            first_coupling += n_det * n_modes
        members, forward, backward = (
            np.concatenate([np.zeros(0, dtype), *(getattr(group, name).ravel() for group in self.groups)])
            for name, dtype in (("members", np.int64), ("forward", np.float64), ("backward", np.float64))
        )
        return _mapmaking.JointTable(
            np.array(rows, np.int64).reshape(-1, 5), members, self.alone, forward, backward
        )

    def in_units(self, units: FloatArray, blocks: Int64Array) -> JointNoise:
        """Return the groups for samples in multiples of `units`, (n_segment,)."""
        scaled = []
        for group in self.groups:
            own = units[blocks[group.members, 5]][:, None]
            scaled.append(replace(group, forward=group.forward * own, backward=group.backward / own))
        return replace(self, groups=tuple(scaled))

    def of_blocks(self, used: BoolArray) -> JointNoise:
        """Return the groups of some of the blocks, (n_block,) bool, as these are numbered."""
        numbers = np.cumsum(used) - 1
        groups = (replace(g, members=numbers[g.members]) for g in self.groups if used[g.members[0]])
        return JointNoise(tuple(groups), numbers[self.alone[used[self.alone]]])

    def norm(self, norms: FloatArray, mode_norms: FloatArray) -> float:
        """Return a bound of |N^-1 x| / max|x|, of those of each block's kernel and of those of the modes."""
        largest = 0.0
        for group in self.groups:
            forward, backward = np.abs(group.forward), np.abs(group.backward)
            amplitudes = forward.sum(axis=0)  # of z for |x| of at most 1
            filtered = norms[group.members] * (1 + backward @ amplitudes)
            answers = mode_norms[group.kernels] * amplitudes + backward.T @ filtered
            largest = max(largest, float((filtered + forward @ answers).max()))
        return largest

    def filter(
        self,
        number: int,
        blocks: Int64Array,
        kernels: _mapmaking.Kernels,
        first_kernel: int,
        data: FloatArray,
    ) -> list[FloatArray]:
        """Return N^-1 of the inputs of a group, (n_det, n, n_in), for each detector (n, n_out).

        `data` is overwritten.
        """
        group = self.groups[number]
        n_modes, own = group.forward.shape[1], blocks[group.members]
        shape = data.shape[1], int(own[0, 3])
        modes = np.zeros((n_modes, *data.shape[1:]))
        for x, factors in zip(data, group.forward, strict=True):
            for mode, factor in zip(modes, factors, strict=True):
                mode += factor * x
        answers, out = np.zeros((n_modes, *shape)), [np.zeros(shape) for _ in own]
        for mode, kernel, answer in zip(modes, group.kernels, answers, strict=True):
            block = own[0].copy()
            block[4] = first_kernel + kernel
            _mapmaking.filter_block(block, kernels, mode, answer)
        for block, x, factors, filtered in zip(own, data, group.backward, out, strict=True):
            for mode, factor in zip(modes, factors, strict=True):
                x -= factor * mode
            _mapmaking.filter_block(block, kernels, x, filtered)
            for answer, factor in zip(answers, factors, strict=True):
                answer -= factor * filtered
        for filtered, factors in zip(out, group.forward, strict=True):
            for answer, factor in zip(answers, factors, strict=True):
                filtered += factor * answer
        return out

    def n_bytes(self, blocks: Int64Array, width: int, n_threads: int) -> int:
        """Return the bytes of the streams of a group, one for each thread."""
        largest = max((len(g.members) + 2 * len(g.kernels) for g in self.groups), default=0)
        return 8 * largest * int(blocks[:, 1].max(initial=0)) * width * n_threads


def interval_amplitudes(
    observation: Observation, interval: int, models: Sequence[NoiseModel]
) -> ModeAmplitudes | None:
    """Return the amplitudes of what detectors share in an interval, of their own noise; None for nothing."""
    shared = noise_in_common(observation, interval)
    where = f"observation {observation.name}"
    return mode_amplitudes(models, shared, observation.sample_rate, where) if shared else None


def group_blocks(
    layout: TimeLayout, local: LocalBlocks
) -> tuple[list[tuple[int, int, Int64Array]], Int64Array]:
    """Return observation, interval and blocks of each group of a rank, and the blocks in none."""
    numbers = local.blocks[:, 5]
    streams, starts = local.segments.stream[numbers], local.segments.start - local.segments.offset
    joint = layout.is_joint(streams)
    first_outputs = local.blocks[:, 0] + local.blocks[:, 2] + starts[numbers]
    ranges: dict[tuple[int, int, int], list[int]] = {}
    for number in np.flatnonzero(joint).tolist():
        stream = layout.streams[int(streams[number])]
        ranges.setdefault((stream.observation, stream.interval, int(first_outputs[number])), []).append(
            number
        )
    groups = [(key[0], key[1], np.array(members, np.int64)) for key, members in ranges.items()]
    return groups, np.flatnonzero(~joint)
