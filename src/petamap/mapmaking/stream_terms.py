"""Terms of the templates of streams: their functions, priors, and the keys of their amplitudes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeGuard
from weakref import WeakValueDictionary

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.base.weak_method import weak_method
from petamap.data.observation import Observation
from petamap.data.template import DetectorTemplate, Sharing, Template, TemplateTerm
from petamap.mapmaking.noise_kernels import ModelOf, declared_model
from petamap.mapmaking.template_memory import StreamFunctions
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.autoregressive import AutoregressiveProcess
from petamap.noise.model import noise_key

# Sets of amplitudes that predict the next one under a prior.
_ORDER = 128
# Intervals whose functions are held while streams are gone through in order.
_CACHED = 4


# Name of a template, how it is shared, and what is equal for streams with the same amplitudes.
_GroupKey = tuple[str, Sharing, Hashable]


def _is_of_detector(template: Template) -> TypeGuard[DetectorTemplate]:
    """Return whether functions are each detector's own; a protocol's own check takes as long as a stream."""
    return hasattr(template, "detector_term")


class StreamTerms:
    """Terms of the templates of each stream.

    Parameters
    ----------
    observations : sequence of Observation
    layout : TimeLayout
    model_of : ModelOf
        The noise, of which priors may be.
    """

    def __init__(
        self, observations: Sequence[Observation], layout: TimeLayout, model_of: ModelOf = declared_model
    ) -> None:
        self.observations, self.layout, self._model_of = observations, layout, model_of
        self._terms = lru_cache(_CACHED)(weak_method(self._make))
        self._processes: dict[Hashable, AutoregressiveProcess] = {}
        # those of detectors' own that somebody holds, as a rank does of its streams
        self._held: WeakValueDictionary[tuple[int, ...], TemplateTerm] = WeakValueDictionary()

    def of(self, stream: int) -> tuple[TemplateTerm, ...]:
        """Return the terms of a stream: of those of its interval, the same objects while they are held."""
        one, templates = self.layout.streams[stream], self._observation(stream).templates
        terms = self._terms(one.observation, one.interval)
        return tuple(
            self._of_detector(template, (one.observation, one.interval, one.detector, number))
            if _is_of_detector(template := templates[number])
            else terms[number]
            for number in self._numbers(stream)
        )

    def _of_detector(self, template: DetectorTemplate, key: tuple[int, int, int, int]) -> TemplateTerm:
        term = self._held.get(key)
        if term is None:
            observation = self.observations[key[0]]
            start, stop = observation.intervals[key[1]]
            term = self._held[key] = template.detector_term(observation, key[2], start, stop)
        return term

    def functions(self, stream: int) -> StreamFunctions:
        """Return the functions of a stream, in numbers."""
        one = self.layout.streams[stream]
        own = [_is_of_detector(template) for template in self.templates(stream)]
        observation = self._observation(stream)
        n_sharing = observation.n_det if observation.common_noise else 0
        return StreamFunctions.of([*zip(self.of(stream), own, strict=True)], one.stop - one.start, n_sharing)

    def templates(self, stream: int) -> tuple[Template, ...]:
        """Return the templates that a stream has, in the order of its terms."""
        templates = self._observation(stream).templates
        return tuple(templates[number] for number in self._numbers(stream))

    def _numbers(self, stream: int) -> list[int]:
        """Return the numbers of the templates that a stream has, among those of its observation."""
        one, observation = self.layout.streams[stream], self._observation(stream)
        interval = observation.intervals[one.interval]
        return [
            number
            for number, template in enumerate(observation.templates)
            if not hasattr(template, "concerns") or template.concerns(one.detector, *interval)
        ]

    def _make(self, number: int, interval: int) -> tuple[TemplateTerm, ...]:
        observation = self.observations[number]
        start, stop = observation.intervals[interval]
        return tuple(template.term(observation, start, stop) for template in observation.templates)

    def priors(self, stream: int, order: int = _ORDER) -> list[AutoregressiveProcess | None]:
        """Return what is known beforehand of the amplitudes of each term of a stream, in the signal's unit.

        Of a process, at most `order` values predict the next one.

        Raises
        ------
        ConfigError
            If it is to be the noise, and the noise is correlated beside.
        """
        return [
            None if term.prior is None else self._process(stream, term, order) for term in self.of(stream)
        ]

    def _process(self, stream: int, term: TemplateTerm, order: int) -> AutoregressiveProcess:
        assert term.prior is not None
        one, model = self.layout.streams[stream], None
        observation = self.observations[one.observation]
        if term.prior.of_noise:
            if self.layout.n_lag:
                raise ConfigError(
                    "baselines have the correlated noise as their prior, and the noise has it too",
                    where=f"observation {observation.name}",
                    mend='set noise.kernel = "white", or leave the prior away',
                )
            model = self._model_of(observation, one.detector, one.interval)
        key = (
            term.prior, None if model is None else noise_key(model), observation.sample_rate,
            term.n_sets, int(term.edges[-1] - term.edges[0]), order,
        )  # fmt: skip
        if key not in self._processes:
            self._processes[key] = term.prior.process(term, model, observation.sample_rate, order)
        return self._processes[key]

    def keys(self, stream: int, n: int) -> Int64Array:
        """Return the keys of n amplitudes of a stream, which come after those of all samples."""
        streams = self.layout.streams
        one = streams[stream]
        if n > one.stop - one.start:
            raise ConfigError(
                f"{n} amplitudes of templates for {one.stop - one.start} samples",
                where=f"observation {self.observations[one.observation].name}",
                mend="take longer cells, or fewer functions",
            )
        return streams.n_keys + streams.key(stream) + np.arange(n, dtype=np.int64)

    # --- amplitudes that several streams have in common

    def group(self, stream: int, number: int) -> list[int]:
        """Return the streams that have the amplitudes of a stream's term of that number, increasing."""
        template = self.templates(stream)[number]
        if (sharing := _sharing(template)) is None:
            return [stream]
        return self._groups[self._group_key(stream, template.name, sharing)]

    def largest_common_sets(self) -> tuple[int, int]:
        """Return the most amplitudes in common that streams connect, and the squares' sum over such sets.

        Streams connect what they have in common with others; detectors that share noise do so together.
        """
        from scipy import sparse
        from scipy.sparse.csgraph import connected_components

        groups = [(key, streams) for key, streams in self._groups.items() if len(streams) > 1]
        if not groups:
            return 0, 0
        sizes, hubs, edges = [], dict[Hashable, int](), []
        for number, ((name, *_), streams) in enumerate(groups):
            names = [template.name for template in self.templates(streams[0])]
            sizes.append(self.counts(streams[0])[names.index(name)])
            for stream in streams:
                one = self.layout.streams[stream]
                joint = self._observation(stream).common_noise
                hub: Hashable = (one.observation, one.interval) if joint else stream
                edges.append((number, len(groups) + hubs.setdefault(hub, len(hubs))))
        n, (rows, columns) = len(groups) + len(hubs), np.array(edges).T
        graph: Any = sparse.coo_matrix((np.ones(len(rows)), (rows, columns)), (n, n))
        together = np.bincount(connected_components(graph, False)[1][: len(groups)], sizes)
        return int(together.max()), int((together**2).sum())

    def shared_keys(self, stream: int) -> list[Int64Array]:
        """Return the keys of the amplitudes of each term: of a shared one, those of its first stream.

        Raises
        ------
        ConfigError
            If there are too many, or streams with the same amplitudes have other numbers of them.
        """
        own = self._ranges(stream)
        for number, n_amplitudes in enumerate(self.counts(stream)):
            first = self.group(stream, number)[0]
            if first != stream:
                names = [template.name for template in self.templates(first)]
                own[number] = self._ranges(first)[names.index(self.templates(stream)[number].name)]
                if len(own[number]) != n_amplitudes:
                    raise ConfigError(
                        f"{n_amplitudes} amplitudes that are the same as {len(own[number])} others",
                        where=f"observation {self._observation(stream).name}",
                        mend="give all observations that share a template the same functions",
                    )
        return own

    def _ranges(self, stream: int) -> list[Int64Array]:
        """Return the keys that the amplitudes of each term have if they are not shared."""
        counts = self.counts(stream)
        return np.split(self.keys(stream, sum(counts)), np.cumsum(counts)[:-1]) if counts else []

    def counts(self, stream: int) -> list[int]:
        """Return the number of amplitudes of each term of a stream, which need no functions."""
        one = self.layout.streams[stream]
        terms = self._terms(one.observation, one.interval)
        return [terms[number].n_amplitudes for number in self._numbers(stream)]

    def sharing_keys(self, stream: int) -> list[Hashable]:
        """Return what is equal for terms that have the same amplitudes, of each term of a stream."""
        keys: list[Hashable] = []
        for number, template in enumerate(self.templates(stream)):
            sharing = _sharing(template)
            shared = None if sharing is None else self._group_key(stream, template.name, sharing)
            keys.append((stream, number) if shared is None else shared)
        return keys

    @cached_property
    def _groups(self) -> dict[_GroupKey, list[int]]:
        groups: dict[_GroupKey, list[int]] = {}
        streams = self.layout.streams
        sharing_some = [any(_sharing(t) is not None for t in one.templates) for one in self.observations]
        rows = np.flatnonzero(np.array(sharing_some, np.bool_)[streams.observation])
        for stream in (s for row in rows for s in range(*streams.first[row : row + 2].tolist())):
            for template in self.templates(stream):
                if (sharing := _sharing(template)) is not None:
                    groups.setdefault(self._group_key(stream, template.name, sharing), []).append(stream)
        return groups

    def _group_key(self, stream: int, name: str, sharing: Sharing) -> _GroupKey:
        one = self.layout.streams[stream]
        return name, sharing, sharing.key(self._observation(stream), one.detector, one.interval)

    def _observation(self, stream: int) -> Observation:
        return self.observations[self.layout.streams[stream].observation]


class SelectedTerms:
    """Some of the terms of each stream, with the same methods as `StreamTerms`.

    Parameters
    ----------
    terms : StreamTerms
    chosen : callable
        Says of a template whether its terms are among them.
    """

    def __init__(self, terms: StreamTerms, chosen: Callable[[Template], bool]) -> None:
        self.observations, self.layout, self._terms = terms.observations, terms.layout, terms
        self._chosen = chosen

    def _of(self, stream: int) -> list[int]:
        templates = enumerate(self._terms.templates(stream))
        return [number for number, template in templates if self._chosen(template)]

    def of(self, stream: int) -> tuple[TemplateTerm, ...]:
        """Return the terms of a stream."""
        terms = self._terms.of(stream)
        return tuple(terms[number] for number in self._of(stream))

    def templates(self, stream: int) -> tuple[Template, ...]:
        """Return the templates that a stream has, in the order of its terms."""
        templates = self._terms.templates(stream)
        return tuple(templates[number] for number in self._of(stream))

    def priors(self, stream: int, order: int = _ORDER) -> list[AutoregressiveProcess | None]:
        """Return what is known beforehand of the amplitudes of each term of a stream."""
        priors = self._terms.priors(stream, order)
        return [priors[number] for number in self._of(stream)]

    def group(self, stream: int, number: int) -> list[int]:
        """Return the streams that have the amplitudes of a stream's term of that number, increasing."""
        return self._terms.group(stream, self._of(stream)[number])

    def shared_keys(self, stream: int) -> list[Int64Array]:
        """Return the keys of the amplitudes of each term."""
        keys = self._terms.shared_keys(stream)
        return [keys[number] for number in self._of(stream)]


def is_common(template: Template) -> bool:
    """Return whether streams have amplitudes of a template in common, which no stream alone has a model of.

    Known signals of the sky have one, since pixels tell them.
    """
    return _sharing(template) is not None and not getattr(template, "of_sky", False)


def _sharing(template: Template) -> Sharing | None:
    return getattr(template, "sharing", None)
