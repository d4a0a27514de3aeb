"""Signals of templates: T a, of amplitudes that are drawn or were solved for."""

from __future__ import annotations

from dataclasses import dataclass, field

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator
from petamap.data.formats.amplitudes import AmplitudeTable
from petamap.data.observation import Observation, share_signals
from petamap.data.template import DetectorTemplate, Template, TemplateTerm


@dataclass(frozen=True, eq=False)
class TemplateSignal:
    """Signal T a of a template (implements `Signal`).

    Attributes
    ----------
    observation : Observation
    template : Template
    """

    observation: Observation
    template: Template
    _terms: dict[tuple[int, int], TemplateTerm] = field(default_factory=dict, repr=False, kw_only=True)

    def share(self, comm: Communicator) -> None:
        """Make once on each node what ranks can share of a signal that the template knows. Collective."""
        if (known := getattr(self.template, "signal", None)) is not None:
            share_signals([[[known]]], comm)

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,), in its unit."""
        for interval, (first, last) in enumerate(self.observation.intervals):
            begin, end = max(start, first), min(stop, last)
            if begin >= end or not self._concerns(detector, first, last):
                continue
            term = self._term(detector, interval)
            amplitudes = self.amplitudes(term, detector, interval)
            out[begin - start : end - start] += term.matrix(begin - first, end - first) @ amplitudes

    def amplitudes(self, term: TemplateTerm, detector: int, interval: int) -> FloatArray:
        """Return the amplitudes of a term, (n,)."""
        raise NotImplementedError

    def _concerns(self, detector: int, start: int, stop: int) -> bool:
        concerns = getattr(self.template, "concerns", None)
        return concerns is None or concerns(detector, start, stop)

    def _term(self, detector: int, interval: int) -> TemplateTerm:
        key = detector if isinstance(self.template, DetectorTemplate) else -1, interval
        if key not in self._terms:
            start, stop = self.observation.intervals[interval]
            self._terms[key] = (
                self.template.detector_term(self.observation, detector, start, stop)
                if isinstance(self.template, DetectorTemplate)
                else self.template.term(self.observation, start, stop)
            )
        return self._terms[key]


@dataclass(frozen=True, eq=False)
class SolvedTemplate(TemplateSignal):
    """Signal of the amplitudes of a finished run, times a factor.

    Attributes
    ----------
    table : AmplitudeTable
    where : str
        Its file, for messages.
    factor : float
        -1 subtracts it from the data.
    """

    table: AmplitudeTable
    where: str
    factor: float = -1.0

    def check(self) -> None:
        """Raise an error unless the run had all amplitudes of the template; no sample is read.

        Raises
        ------
        ConfigError
            See `amplitudes`.
        """
        for interval, (start, stop) in enumerate(self.observation.intervals):
            term = self.template.term(self.observation, start, stop)
            for detector in range(self.observation.n_det):
                if self._concerns(detector, start, stop):
                    self.amplitudes(term, detector, interval)

    def amplitudes(self, term: TemplateTerm, detector: int, interval: int) -> FloatArray:
        """Return the amplitudes of a stream.

        Raises
        ------
        ConfigError
            If the run had none of this stream, or other functions.
        """
        one, name = self.observation, self.template.name
        found = self.table.of(one.name, one.detectors[detector], name, interval)
        n = 0 if found is None else len(found)
        if found is None or n != term.n_amplitudes:
            raise ConfigError(
                f"has {n} amplitudes of {name}, not {term.n_amplitudes}, for observation {one.name}, "
                f"detector {one.detectors[detector]}, interval {interval}",
                where=self.where,
                mend="give the template the options that it had in that run, and the run the same intervals",
            )
        return self.factor * term.divisor * found
