"""Noise models estimated from the data, in rounds: each measures what a map made with the last one leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.progress import Progress
from petacomm.base.threads import map_threads
from petacomm.base.timers import Timers
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.observation import Observation
from petamap.mapmaking.filter_and_bin import FilterAndBin, white_options
from petamap.mapmaking.interval_noise import measure_interval
from petamap.mapmaking.noise_kernels import ModelOf
from petamap.mapmaking.residual_streams import (
    DrawnStreams,
    ReferenceNoise,
    ResidualStreams,
    datasets_of,
    residual_psd,
)
from petamap.mapmaking.right_hand_side import Dataset, right_hand_sides
from petamap.mapmaking.system import MapmakingSystem, set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.unmeasured_noise import NearestStreams, StreamKey
from petamap.mapmaking.vectors import Unknowns
from petamap.noise.mode_estimate import EstimatedModes, check_n_modes
from petamap.noise.model import EstimatedPsd, InverseLags, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.noise.spectrum_estimate import TooFewSamples, continue_psd
from petamap.noise.welch import smooth_power
from petamap.sky.pixelization import Pixelization

_ANY = TabulatedPsd(np.ones(1), np.ones(1))  # of a stream without a good sample
_SIMULATIONS = 3  # with the data, half of the vectors that the kernels take side by side
RIGHT_HAND_SIDES = 1 + _SIMULATIONS
_MAP_TOLERANCE = "10% of noise"  # in any mode: 1% of the variance of one of the map's many


@dataclass(frozen=True)
class MeasuredNoise:
    """Noise of all streams, as measured.

    Attributes
    ----------
    spectra : dict
        By observation, detector and interval.
    modes : dict
        What detectors share, by observation and interval.
    substitutes : dict
        Streams whose spectrum those have that could not be measured.
    """

    spectra: dict[StreamKey, TabulatedPsd]
    modes: dict[tuple[int, int], EstimatedModes]
    substitutes: dict[StreamKey, StreamKey] = field(default_factory=dict)

    def whole_spectrum(self, key: StreamKey) -> TabulatedPsd:
        """Return the spectrum of a stream, with its part of what detectors share."""
        psd, modes = self.spectra[key], self.modes.get((key[0], key[2]))
        if modes is None:
            return psd
        shared = [
            coupling**2 * noise_psd(amplitude, psd.frequencies)
            for coupling, amplitude in zip(modes.basis.couplings[key[1]], modes.amplitudes, strict=True)
        ]
        return replace(psd, values=psd.values + np.sum(shared, axis=0))

    def smoothed(self) -> MeasuredNoise:
        """Return the noise with each spectrum smoothed."""
        return replace(
            self,
            spectra={key: _smooth(psd) for key, psd in self.spectra.items()},
            modes={key: modes.with_spectra(_smooth) for key, modes in self.modes.items()},
        )

    def continued(self, observations: Sequence[Observation]) -> MeasuredNoise:
        """Return the noise with each spectrum continued to one period in its interval."""

        def lowest(observation: int, interval: int) -> float:
            one = observations[observation]
            start, stop = one.intervals[interval]
            return one.sample_rate / (stop - start)

        return replace(
            self,
            spectra={key: continue_psd(psd, lowest(key[0], key[2])) for key, psd in self.spectra.items()},
            modes={
                key: modes.with_spectra(lambda psd, key=key: continue_psd(psd, lowest(*key)))  # type: ignore[misc]
                for key, modes in self.modes.items()
            },
        )

    def declare(self, observations: Sequence[Observation]) -> tuple[list[Observation], ModelOf]:
        """Return observations with what their detectors share, and the models of single streams."""
        models = self.continued(observations)
        numbers = {one.uid: number for number, one in enumerate(observations)}
        shared = [[*one.common_noise] for one in observations]
        for (number, interval), modes in models.modes.items():
            own = [models.spectra[number, d, interval] for d in range(observations[number].n_det)]
            shared[number] += modes.common_noise(own, interval)
        declared = [
            replace(one, common_noise=tuple(common)) for one, common in zip(observations, shared, strict=True)
        ]
        return declared, lambda one, detector, interval: models.spectra[numbers[one.uid], detector, interval]


@dataclass(frozen=True)
class NoiseEstimate:
    """Noise models of each detector in each interval, estimated from the data.

    Attributes
    ----------
    observations : list of Observation
        With what their detectors share.
    model_of : ModelOf
    rounds : int
        How often the spectra were measured.
    change : float
        Largest mean relative change of the spectra in an octave in the last round; infinite after the first.
    maps_converged : bool
        Whether the solver reached its tolerance in all rounds.
    predicted_bytes : int
        Memory of this rank in the round that was predicted to need most.
    substitutes : dict
        Streams whose noise those with too few good samples have.
    """

    observations: list[Observation]
    model_of: ModelOf
    rounds: int
    change: float
    maps_converged: bool
    predicted_bytes: int
    substitutes: dict[StreamKey, StreamKey]


@dataclass(frozen=True)
class _Round:
    """What a round has found, whether its map converged, and the memory that was predicted."""

    noise: MeasuredNoise
    converged: bool
    predicted_bytes: int


@dataclass(frozen=True)
class NoiseEstimator:
    """Estimates the noise of a run from its data.

    The first round fits templates to the data, bins what is left with equal weights, and measures what
    remains without both. Each
    further round makes a maximum-likelihood map with the spectra so far (Ferreira & Jaffe 2000, MNRAS 312,
    89), of the data and of noise that is simulated with them, S. With W the power that is measured, r what is
    left after the map is subtracted, and n the simulated noise,

        S' = W[r_data] / (T R),    T = sum W[r_n] / sum W[n],

    where T is the share of the power that the map and the gaps leave, and R the response of the window
    (`petamap.noise.welch.WelchSegments.window_response`). The same random numbers in numerator and
    denominator leave to T the scatter of what the map takes out alone, and the same in all rounds let them
    converge. With modes, W is measured of their amplitudes, and of what these leave of each detector
    (`petamap.noise.mode_estimate`).

    Parameters
    ----------
    observations, pixelization, comm, timers, progress
        Data and pixels of the run, and its listeners.
    options_of : callable
        Return the options of the system of observations with a noise model; called on all ranks.
    max_iterations : int
        Of the solver.
    n_modes : int
        Modes of noise that the detectors of an observation share.
    """

    observations: Sequence[Observation]
    pixelization: Pixelization
    options_of: Callable[[Sequence[Observation], ModelOf], SystemOptions]
    max_iterations: int
    comm: Communicator
    timers: Timers
    progress: Progress
    n_modes: int = 0

    def estimate(self, max_rounds: int, tolerance: float) -> NoiseEstimate:
        """Return the noise after `max_rounds`, or once it changes by at most `tolerance`. Collective.

        Each stream is measured on one rank, so the number of ranks does not matter.

        Raises
        ------
        ConfigError
            If an observation has too few detectors for the modes that they share.
        DataError
            On all ranks, if samples are not finite or do not vary, or no stream has enough good samples.
        """
        for one in self.observations if self.n_modes else ():
            check_n_modes(self.n_modes, one.n_det, f"observation {one.name}")
        rounds, change = [self._first_round()], np.inf
        while change > tolerance and len(rounds) < max_rounds:
            rounds.append(self._next_round(rounds[-1].noise, len(rounds) + 1))
            change = largest_change(rounds[-2].noise, rounds[-1].noise)
        noise = rounds[-1].noise
        if self.n_modes:
            # Where detectors share noise, what scatters in one of them holds up the solver for all.
            noise = noise.smoothed()
        converged = all(one.converged for one in rounds)
        most = max(one.predicted_bytes for one in rounds)
        return NoiseEstimate(
            *noise.declare(self.observations), len(rounds), change, converged, most, noise.substitutes
        )

    def _first_round(self) -> _Round:
        unit_noise: ModelOf = lambda observation, detector, interval: InverseLags(np.ones(1))  # noqa: E731
        options = replace(white_options(self.options_of(self.observations, unit_noise)), uniform_binning=True)
        system = self._set_up(self.observations, options, unit_noise)
        with self.timers.phase("noise estimate"):
            found = system.shared.scatter_fwd(FilterAndBin(system).solution())
            streams = ResidualStreams(system, self.observations, [found])
            return _Round(self._measured(streams, 1, None), True, system.memory.total)

    def _next_round(self, noise: MeasuredNoise, n_round: int) -> _Round:
        """Return the noise that a map made with that of the last round leaves."""
        # A value that scatters low would draw the map to its own stream, and fall further.
        observations, model_of = noise.smoothed().declare(self.observations)
        options = replace(self.options_of(observations, model_of), n_rhs=RIGHT_HAND_SIDES)
        system = self._set_up(observations, options, model_of)
        most = streams_at_once(observations, system.projection.n_threads)
        drawn = DrawnStreams(most)
        simulated = [
            [ReferenceNoise(one, model_of, k, drawn) for k in range(_SIMULATIONS)] for one in observations
        ]
        n_threads = system.projection.n_threads
        predicted = system.memory.total + stream_bytes(observations, most, n_threads, self.n_modes)
        with self.timers.phase("noise estimate"):
            found, converged = self._maps(system, datasets_of(observations, simulated))
            streams = ResidualStreams(system, observations, found, simulated)
            return _Round(self._measured(streams, n_round, noise), converged, predicted)

    def _set_up(
        self, observations: Sequence[Observation], options: SystemOptions, model_of: ModelOf
    ) -> MapmakingSystem:
        return set_up(
            observations, self.pixelization, options, model_of, self.comm, self.timers, self.progress,
            whole="intervals" if self.n_modes else "streams",
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

    def _measured(self, streams: ResidualStreams, n_round: int, last: MeasuredNoise | None) -> MeasuredNoise:
        """Return the noise of all streams, each measured on the rank that has it."""
        local, own = streams.system.projection.local, MeasuredNoise({}, {})
        self.progress.begin("noise estimate", local.n_out, "samples")
        measure = self._measure_modes if self.n_modes else self._measure_stream
        faults: dict[StreamKey, DataError] = {}
        with agree_on_errors(self.comm):
            map_threads(
                lambda numbers: measure(streams, numbers, own, faults),
                self._measured_together(streams),
                measured_at_once(streams.system.projection.n_threads, self.n_modes),
            )
        self.progress.end(f"round {n_round}")
        found = MeasuredNoise({}, {})
        every: dict[StreamKey, DataError] = {}
        for part, of_part in self.comm.allgather((own, faults)):
            found.spectra.update(part.spectra)
            found.modes.update(part.modes)
            every.update(of_part)
        _fill_unmeasured(found, every, last, self.observations)
        # sums over them have one order
        return replace(
            found, spectra=dict(sorted(found.spectra.items())), modes=dict(sorted(found.modes.items()))
        )

    def _measured_together(self, streams: ResidualStreams) -> list[list[int]]:
        """Return the segments that are measured at once: one, or with modes those of an interval."""
        numbers = range(len(streams.system.projection.local.segments))
        if not self.n_modes:
            return [[number] for number in numbers]
        return [list(group) for _, group in groupby(numbers, lambda number: streams.key(number)[::2])]

    def _measure_stream(
        self,
        streams: ResidualStreams,
        numbers: Sequence[int],
        own: MeasuredNoise,
        faults: dict[StreamKey, DataError],
    ) -> None:
        """Measure a stream alone."""
        (number,) = numbers
        key, (residuals, good) = streams.key(number), streams.residuals(number)
        try:
            own.spectra[key] = residual_psd(
                residuals, streams.simulated(number), good, streams.rate(number), streams.where(number)
            )
        except DataError as error:
            faults[key] = error.with_traceback(None)  # its frames hold the system, and are held by it
            if not good.any():
                own.spectra[key] = _ANY
        self.progress.advance(float(len(good)))

    def _measure_modes(
        self,
        streams: ResidualStreams,
        numbers: Sequence[int],
        own: MeasuredNoise,
        faults: dict[StreamKey, DataError],
    ) -> None:
        """Measure the detectors of an interval together."""
        spectra: Sequence[TabulatedPsd | DataError]
        try:
            spectra, modes = measure_interval(streams, numbers, self.n_modes)
            observation, _, interval = streams.key(numbers[0])
            own.modes[observation, interval] = modes
        except TooFewSamples as error:  # in all detectors at a time
            spectra = [error.with_traceback(None)] * len(numbers)
        for number, found in zip(numbers, spectra, strict=True):
            key, stream = streams.key(number), streams.stream(number)
            if isinstance(found, TabulatedPsd):
                own.spectra[key] = found
            else:
                faults[key] = found
                if not streams.of_data().residuals(number)[1].any():
                    own.spectra[key] = _ANY
            self.progress.advance(float(stream.stop - stream.start))


def streams_at_once(observations: Sequence[Observation], n_threads: int) -> int:
    """Return the simulated streams that are read at the same time, or one after the other."""
    shared = [one.n_det + len(one.common_noise) for one in observations if one.common_noise]
    # threads that are at one end of an interval or stream, and at the begin of the next
    return _SIMULATIONS * 2 * max(n_threads, *shared, 1)


def measured_at_once(n_threads: int, n_modes: int) -> int:
    """Return how many threads measure: with modes one, as it holds the simulations of all detectors."""
    return 1 if n_modes else n_threads


def stream_bytes(observations: Sequence[Observation], n_simulated: int, n_threads: int, n_modes: int) -> int:
    """Return the bytes of simulated streams, and of those that threads draw and measure."""
    longest = max(stop - start for one in observations for start, stop in one.intervals)
    # frequencies and their power, random lines, and what they make, of twice the length
    drawn = (1 + 1 + 2 + 2) * n_threads
    # residuals in pieces and joined, and simulations
    measured = (2 * RIGHT_HAND_SIDES + _SIMULATIONS) * measured_at_once(n_threads, n_modes)
    return 8 * longest * (n_simulated + drawn + measured)


def _fill_unmeasured(
    found: MeasuredNoise,
    faults: Mapping[StreamKey, DataError],
    last: MeasuredNoise | None,
    observations: Sequence[Observation],
) -> None:
    """Give streams that could not be measured the spectrum of the last round, or of the nearest that could.

    Other weights cut other pixels, so that streams may lose samples from round to round. A stream without a
    good sample adds nothing to the map, whatever its noise.

    Raises
    ------
    DataError
        If none could be measured, or what fails in the first round are not too few good samples.
    """
    if last is not None:
        for key in faults.keys() - last.substitutes.keys():
            found.spectra[key] = last.spectra[key]
            if modes := last.modes.get((key[0], key[2])):
                found.modes.setdefault((key[0], key[2]), modes)
    left = {key: error for key, error in sorted(faults.items()) if key not in found.spectra}
    for error in left.values():
        if not isinstance(error, TooFewSamples):
            raise error
    nearest = NearestStreams(observations, found.spectra)
    sources = {key: nearest.of(key) for key in left}
    measured = dict(found.modes)
    for key, source in sources.items():
        if source is None:
            raise left[key]
        modes = _nearest_modes(measured, key)
        if modes is not None:
            found.modes[key[0], key[2]] = modes
        is_coupled = modes is not None and bool(modes.basis.basis[key[1]].any())
        found.substitutes[key] = source
        found.spectra[key] = found.spectra[source] if is_coupled else found.whole_spectrum(source)


def _nearest_modes(modes: Mapping[tuple[int, int], EstimatedModes], key: StreamKey) -> EstimatedModes | None:
    """Return the modes of a stream's interval, or those of the nearest of its observation where these are."""
    intervals = [interval for observation, interval in sorted(modes) if observation == key[0]]
    if not intervals:
        return None
    return modes[key[0], min(intervals, key=lambda interval: abs(interval - key[2]))]


def largest_change(before: MeasuredNoise, after: MeasuredNoise) -> float:
    """Return the largest mean relative change of all spectra in an octave.

    The mean is what a bias would be; what single spectra change beyond it is below their own scatter.
    """
    measured = [
        (key, new)
        for key, new in after.spectra.items()
        if isinstance(new, EstimatedPsd) and key not in after.substitutes
    ]
    pairs: list[tuple[TabulatedPsd, TabulatedPsd]] = [(before.spectra[key], new) for key, new in measured]
    for key, modes in after.modes.items():
        pairs += zip(before.modes[key].amplitudes, modes.amplitudes)  # noqa: B905 - as many as both have
    if not pairs:
        return 0.0
    changes = np.concatenate([new.values / noise_psd(old, new.frequencies) - 1 for old, new in pairs])
    octaves = np.floor(np.log2(np.concatenate([new.frequencies for _, new in pairs])))
    means = [changes[octaves == octave].mean() for octave in np.unique(octaves)]
    return float(np.abs(means).max())


def _smooth(psd: TabulatedPsd) -> TabulatedPsd:
    if not isinstance(psd, EstimatedPsd):
        return psd
    return replace(psd, values=smooth_power(psd.frequencies, psd.values, psd.scatter))
