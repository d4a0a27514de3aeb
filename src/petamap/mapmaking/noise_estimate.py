"""Noise models estimated from the data, in rounds: each measures what a map made with the last one leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.progress import Progress
from petacomm.base.timers import Timers
from petacomm.base.typing import BoolArray, FloatArray
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.observation import Observation
from petamap.mapmaking.noise_kernels import ModelOf
from petamap.mapmaking.right_hand_side import Dataset, binned_map, right_hand_side, right_hand_sides
from petamap.mapmaking.system import MapmakingSystem, SystemOptions, set_up
from petamap.mapmaking.time_layout import TimeStream
from petamap.mapmaking.vectors import Unknowns
from petamap.noise.model import EstimatedPsd, InverseLags, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.noise.spectrum_estimate import continue_psd, estimate_psd, segments_of
from petamap.noise.welch import smooth_power
from petamap.simulation.random_keys import Purpose, gaussians, random_stream
from petamap.sky.pixelization import Pixelization

_ANY = TabulatedPsd(np.ones(1), np.ones(1))
_SIMULATIONS = 3  # with the data, half of the vectors that the kernels take side by side
_MAP_TOLERANCE = "10% of noise"  # in any mode: 1% of the variance of one of the map's many

Spectra = dict[tuple[int, int, int], TabulatedPsd]  # by observation, detector and interval


@dataclass(frozen=True)
class NoiseEstimate:
    """Noise models of each detector in each interval, estimated from the data.

    Attributes
    ----------
    model_of : ModelOf
    rounds : int
        How often the spectra were measured.
    change : float
        Largest mean relative change of the spectra in an octave in the last round; infinite after the first.
    maps_converged : bool
        Whether the solver reached its tolerance in all rounds.
    """

    model_of: ModelOf
    rounds: int
    change: float
    maps_converged: bool


class ReferenceNoise:
    """Noise of known spectra in whole streams, random numbers that no source draws (implements `Signal`).

    Unlike `petamap.simulation.noise.SimulatedNoise` it makes a stream at once, by a transform of twice its
    length: quick where every stream has a spectrum of its own and is read whole.

    Parameters
    ----------
    observation : Observation
    model_of : ModelOf
        Gives tables.
    number : int
        Of the simulation.
    """

    def __init__(self, observation: Observation, model_of: ModelOf, number: int) -> None:
        self._observation, self._model_of, self._number = observation, model_of, number
        self._stream = lru_cache(maxsize=64)(self._make_stream)

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add the noise of samples [start, stop) of a detector to `out`, float64 (stop - start,), K."""
        for interval, (first, last) in enumerate(self._observation.intervals):
            begin, end = max(start, first), min(stop, last)
            if begin < end:
                whole = self._stream(detector, interval)
                out[begin - start : end - start] += whole[begin - first : end - first]

    def _make_stream(self, detector: int, interval: int) -> FloatArray:
        from scipy.fft import irfft, next_fast_len, rfftfreq

        one = self._observation
        start, stop = one.intervals[interval]
        n = next_fast_len(2 * (stop - start), real=True)
        words = random_stream(Purpose.REFERENCE_NOISE, 0, self._number, one.uid, detector, interval)
        model = self._model_of(one, detector, interval)
        assert not isinstance(model, InverseLags)
        power = noise_psd(model, rfftfreq(n, 1 / one.sample_rate))
        # Each line of a real transform has the variance n rate P / 4 in both of its parts.
        lines = gaussians(words, 2 * len(power)).view(np.complex128)
        lines *= np.sqrt(power * (n * one.sample_rate / 4))
        return np.asarray(irfft(lines, n)[: stop - start])


@dataclass(frozen=True)
class NoiseEstimator:
    """Estimates the noise of a run from its data.

    The first round bins the data with equal weights, subtracts that map and measures what is left. Each
    further round makes a maximum-likelihood map with the spectra so far (Ferreira & Jaffe 2000, MNRAS 312,
    89), of the data and of noise that is simulated with them, S. With W the power that is measured, r what is
    left after the map is subtracted, and n the simulated noise,

        S' = W[r_data] / (T R),    T = sum W[r_n] / sum W[n],

    where T is the share of the power that the map and the gaps leave, and R the response of the window
    (`petamap.noise.welch.WelchSegments.window_response`). The same random numbers in numerator and
    denominator leave to T the scatter of what the map takes out alone, and the same in all rounds let them
    converge.

    Parameters
    ----------
    observations, pixelization, comm, timers, progress
        Data and pixels of the run, and its listeners.
    options_of : callable
        Return the options of the system with a noise model; called on all ranks.
    max_iterations : int
        Of the solver.
    """

    observations: Sequence[Observation]
    pixelization: Pixelization
    options_of: Callable[[ModelOf], SystemOptions]
    max_iterations: int
    comm: Communicator
    timers: Timers
    progress: Progress

    def estimate(self, max_rounds: int, tolerance: float) -> NoiseEstimate:
        """Return the noise after `max_rounds`, or once it changes by at most `tolerance`. Collective.

        Each stream is measured on one rank, so the number of ranks does not matter.

        Raises
        ------
        DataError
            On all ranks, if a stream has too few good samples.
        """
        spectra, change, n_rounds, all_converged = self._first_round(), np.inf, 1, True
        while change > tolerance and n_rounds < max_rounds:
            n_rounds += 1
            found, converged = self._next_round(spectra, n_rounds)
            change, spectra = largest_change(spectra, found), found
            all_converged &= converged
        return NoiseEstimate(self._model_of(self._continued(spectra)), n_rounds, change, all_converged)

    def _model_of(self, models: Spectra) -> ModelOf:
        numbers = {id(observation): number for number, observation in enumerate(self.observations)}
        return lambda observation, detector, interval: models[numbers[id(observation)], detector, interval]

    def _continued(self, spectra: Spectra) -> Spectra:
        """Return the spectra, continued to one period in their intervals."""
        models = Spectra()
        for key, psd in spectra.items():
            one = self.observations[key[0]]
            start, stop = one.intervals[key[2]]
            models[key] = continue_psd(psd, one.sample_rate / (stop - start))
        return models

    def _first_round(self) -> Spectra:
        unit_noise: ModelOf = lambda observation, detector, interval: InverseLags(np.ones(1))  # noqa: E731
        options = replace(
            self.options_of(unit_noise), n_lag=0, stream_lags=None, free_ends=False, flags="cut",
            uniform_binning=True,
        )  # fmt: skip
        system = self._set_up(options, unit_noise)
        with self.timers.phase("noise estimate"):
            sky = system.shared.pixels.scatter_fwd(binned_map(system, right_hand_side(system)))
            found = [Unknowns(sky, np.zeros((1, 1)))]

            def measure(stream: TimeStream, number: int, where: str) -> TabulatedPsd:
                samples, good = _residuals(system, number, found, None)
                # A stream without a good sample adds nothing to the map, whatever its noise.
                rate = self.observations[stream.observation].sample_rate
                return estimate_psd(samples[0], good, rate, where=where) if good.any() else _ANY

            return self._measured(system, 1, measure)

    def _next_round(self, spectra: Spectra, n_round: int) -> tuple[Spectra, bool]:
        """Return the spectra that a map made with those of the last round leaves, and if it has converged."""
        # A value that scatters low would draw the map to its own stream, and fall further.
        model_of = self._model_of(self._continued({key: _smooth(psd) for key, psd in spectra.items()}))
        system = self._set_up(replace(self.options_of(model_of), n_rhs=1 + _SIMULATIONS), model_of)
        simulated = [
            [ReferenceNoise(one, model_of, k) for k in range(_SIMULATIONS)] for one in self.observations
        ]
        datasets: list[Dataset] = [[one.signals for one in self.observations]]
        datasets += [[(noises[k],) for noises in simulated] for k in range(_SIMULATIONS)]
        with self.timers.phase("noise estimate"):
            found, converged = self._maps(system, datasets)

            def measure(stream: TimeStream, number: int, where: str) -> TabulatedPsd:
                residuals, good = _residuals(system, number, found, datasets)
                noises = _whole_streams(simulated[stream.observation], stream)
                rate = self.observations[stream.observation].sample_rate
                try:
                    return _corrected(residuals, noises, good, rate, where)
                except DataError:  # other weights cut other pixels: the last spectrum of a stream stays
                    return spectra[stream.observation, stream.detector, stream.interval]

            return self._measured(system, n_round, measure), converged

    def _set_up(self, options: SystemOptions, model_of: ModelOf) -> MapmakingSystem:
        return set_up(
            self.observations, self.pixelization, options, model_of, self.comm, self.timers, self.progress,
            whole_streams=True,
        )  # fmt: skip

    def _maps(self, system: MapmakingSystem, datasets: Sequence[Dataset]) -> tuple[list[Unknowns], bool]:
        """Return the maximum-likelihood solutions of data sets on this rank's rows, and if all converged."""
        rhs = right_hand_sides(system, datasets)
        solutions = system.solver().solve_many(
            [one.unknowns for one in rhs], _MAP_TOLERANCE, self.max_iterations
        )
        for solution in solutions:
            if solution.error is not None:
                raise solution.error
        # copies: the next map comes into the same memory
        found = [system.shared.scatter_fwd(one.map).copy() for one in solutions]
        return found, all(solution.converged for solution in solutions)

    def _measured(
        self, system: MapmakingSystem, n_round: int, measure: Callable[[TimeStream, int, str], TabulatedPsd]
    ) -> Spectra:
        """Return the spectra of all streams, each measured on the rank that has it."""
        local, own = system.projection.local, Spectra()
        self.progress.begin("noise estimate", local.n_out, "samples")
        with agree_on_errors(self.comm):
            for number, segment in enumerate(local.segments):
                stream = system.layout.streams[segment.stream]
                one = self.observations[stream.observation]
                where = (
                    f"observation {one.name}, detector {one.detectors[stream.detector]}, "
                    f"interval {stream.interval}"
                )
                key = stream.observation, stream.detector, stream.interval
                own[key] = measure(stream, number, where)
                self.progress.advance(float(segment.stop - segment.start))
        self.progress.end(f"round {n_round}")
        found = {key: psd for part in self.comm.allgather(own) for key, psd in part.items()}
        return {key: found[key] for key in sorted(found)}  # sums over them have one order


def largest_change(before: Spectra, after: Spectra) -> float:
    """Return the largest mean relative change of all spectra in an octave.

    The mean is what a bias would be; what single spectra change beyond it is below their own scatter.
    """
    measured = [(before[key], new) for key, new in after.items() if isinstance(new, EstimatedPsd)]
    if not measured:
        return 0.0
    changes = np.concatenate([new.values / noise_psd(old, new.frequencies) - 1 for old, new in measured])
    octaves = np.floor(np.log2(np.concatenate([new.frequencies for _, new in measured])))
    means = [changes[octaves == octave].mean() for octave in np.unique(octaves)]
    return float(np.abs(means).max())


def _smooth(psd: TabulatedPsd) -> TabulatedPsd:
    if not isinstance(psd, EstimatedPsd):
        return psd
    return replace(psd, values=smooth_power(psd.frequencies, psd.values, psd.scatter))


def _whole_streams(noises: Sequence[ReferenceNoise], stream: TimeStream) -> FloatArray:
    """Return all recorded samples of a stream of simulations, without gaps, float64 (n, n_samp)."""
    start, stop = stream.recorded_range(stream.start, stream.stop)
    out = np.zeros((len(noises), stop - start))
    for noise, row in zip(noises, out, strict=True):
        noise.add_signal(stream.detector, start, stop, row)
    return out


def _corrected(
    residuals: FloatArray, noises: FloatArray, good: BoolArray, sample_rate: float, where: str
) -> EstimatedPsd:
    """Return the PSD of a stream, with what map, gaps and window take from it put back.

    Parameters
    ----------
    residuals : float64 (1 + n, n_samp)
        Of the data and of n simulations, K.
    noises : float64 (n, n_samp)
        The simulations, K.
    good : bool (n_samp,)
    sample_rate : float
        Hz.
    where : str
        For messages.
    """
    segments = segments_of(residuals[0], good, sample_rate, where=where)
    everywhere = np.ones(len(good), np.bool_)
    left = np.sum([segments.power(residual, good) for residual in residuals[1:]], axis=0)
    whole = np.sum([segments.power(noise, everywhere) for noise in noises], axis=0)
    power = segments.power(residuals[0], good) * (whole / left)
    return EstimatedPsd(segments.frequencies, power / segments.window_response(power), segments.scatter)


def _residuals(
    system: MapmakingSystem, number: int, found: Sequence[Unknowns], datasets: Sequence[Dataset] | None
) -> tuple[FloatArray, BoolArray]:
    """Return data minus scanned maps and templates of a stream that is all here, and a mask of good samples.

    float64 (n_sky, n_samp) in K, bool (n_samp,): without the margins.
    """
    projection = system.projection
    parts: list[FloatArray] = []
    masks: list[BoolArray] = []
    for block in projection.local.blocks[projection.local.blocks[:, 5] == number]:
        n_in, n_left, n_out = (int(value) for value in block[1:4])
        inputs = projection.sample_pointing(block, inputs=True)
        data, scanned = np.empty((len(found), n_in)), np.empty(n_out)
        projection.read(block, inputs.pixels, data, datasets)
        samples = inputs.slice(n_left, n_left + n_out)
        good = samples.pixels >= 0
        pixels = np.maximum(samples.pixels, -1)  # gaps are left out, whatever their numbers
        residual = data[:, n_left : n_left + n_out]
        for row, one in zip(residual, found, strict=True):
            _mapmaking.scan(
                pixels, samples.angles, samples.gains, samples.efficiency, one.pixels, np.zeros(1), scanned
            )
            if projection.amplitudes:
                amplitudes = np.ascontiguousarray(one.gaps[:, 0])
                _mapmaking.scan_templates(
                    projection.amplitudes.table, block, inputs.pixels, amplitudes, n_left, scanned
                )
            row -= scanned
        parts.append(residual * projection.units[number])
        masks.append(good)
    stream = system.layout.streams[projection.local.segments[number].stream]
    recorded = slice(stream.margin, stream.stop - stream.start - stream.margin)
    return np.concatenate(parts, axis=1)[:, recorded], np.concatenate(masks)[recorded]
