"""What ranks send, and the sizes of the rank that has most, on which bounds of it depend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

# Bytes of a small collective: counts, flags, a short text.
_SMALL = 48


class Sent(NamedTuple):
    """What a rank sends: messages to single ranks, calls of collectives, and the bytes of both."""

    messages: float = 0.0
    collectives: float = 0.0
    bytes: float = 0.0

    def plus(self, *others: Sent) -> Sent:
        """Return the sum with others."""
        return Sent(*(float(sum(parts)) for parts in zip(self, *others, strict=True)))

    def times(self, number: float) -> Sent:
        """Return what is sent in so many such calls."""
        return Sent(*(number * part for part in self))

    def of_vectors(self, width: int) -> Sent:
        """Return what is sent of so many vectors side by side at most: as many messages, with all of them."""
        return self._replace(bytes=width * self.bytes)

    def tree_messages(self, size: int) -> float:
        """Return the messages with those inside of collectives, made by trees: 2 log2(size) a call at most.

        Parameters
        ----------
        size : int
            Number of ranks.
        """
        return self.messages + 2 * math.ceil(math.log2(size)) * self.collectives if size > 1 else 0.0


def small_collectives(number: float) -> Sent:
    """Return the calls of collectives that agree on errors, sizes and choices."""
    return Sent(0.0, number, number * _SMALL)


class ExchangedRows(NamedTuple):
    """Rows that a rank sends in one exchange, and the ranks that get any."""

    messages: float = 0.0
    rows: float = 0.0


class StreamSizes(NamedTuple):
    """Streams that ranks hold parts of, and those that they model whole; of the rank that has most.

    Attributes
    ----------
    n_held, n_modelled : float
    partners : float
        Ranks that model streams that it holds, and ranks that hold some that it models.
    """

    n_held: float = 0.0
    n_modelled: float = 0.0
    partners: float = 0.0


NO_STREAMS = StreamSizes()


class AmplitudeSizes(NamedTuple):
    """Amplitudes of templates, of the rank that has most.

    Attributes
    ----------
    n_held, n_modelled : float
        Of streams that it holds parts of, and of those that it models whole.
    n_sent : float
        Rows that it would send to all other holders of its amplitudes.
    partners : float
        Ranks that hold any of them.
    most_holders : float
        Ranks that hold one.
    n_all : float
        Of all ranks.
    n_common, n_squares : float
        Those that streams have in common, and the numbers of matrices of sets that these connect.
    per_sample : float
        Functions of a sample that are not zero.
    """

    n_held: float = 0.0
    n_modelled: float = 0.0
    n_sent: float = 0.0
    partners: float = 0.0
    most_holders: float = 0.0
    n_all: float = 0.0
    n_common: float = 0.0
    n_squares: float = 0.0
    per_sample: float = 0.0


class ModelPixels(NamedTuple):
    """Pixels of the model of two levels, of the rank that has most: of what it models, or owns in the run.

    Attributes
    ----------
    n_keys, n_chunks : float
    to_owners, to_ghosts : ExchangedRows
    """

    n_keys: float
    n_chunks: float
    to_owners: ExchangedRows
    to_ghosts: ExchangedRows


class ModelSizes(NamedTuple):
    """What the rank that has most of the model of two levels holds and sends; see `RankSizes`.

    Attributes
    ----------
    pixels : ModelPixels
    n_visits, n_knots : float
        Visits of pixels, 24 bytes each, and knots, 40.
    n_gaps : float
        Unknown samples of the streams that it models.
    """

    pixels: ModelPixels
    n_visits: float
    n_knots: float
    n_gaps: float


class ComponentSizes(NamedTuple):
    """Maps of components, whose rows have owners among those of the maps of bands.

    Attributes
    ----------
    n_bands, n_components : int
    rows : RankSizes
        Of the pixels that a rank owns in any band, as holder, and of those of which it owns all components.
    columns : tuple of tuple of int
        Columns of each product, by what it is of: components, pairs of these, or pixels.
    """

    n_bands: int
    n_components: int
    rows: RankSizes
    columns: tuple[tuple[int, ...], ...]


class AuxiliarySystems(NamedTuple):
    """What a run makes beside its maps and those of splits.

    Attributes
    ----------
    whole : RankSizes, optional
        Of systems by which the noise is estimated: ranks have whole streams.
    noise_rounds : int
        In which it is estimated; the first fits templates alone.
    spectrum_bytes : float
        Of the noise of a stream, as it is sent.
    temperature_rounds : int
        Maps by which the temperature that leaks is found.
    filtered : RankSizes, optional
        Of the system of a filter-and-bin map.
    filtered_maps : int
        1 if that map is made.
    has_matrix, has_covariance, has_sky : bool
        Whether there are its observation matrix, the covariance of pixels, and the map of the sky alone.
    n_waves : int
        Waves of which templates take a part that is told.
    demodulated : RankSizes, optional
        Of the system of a map of demodulated streams.
    n_compared : int
        Files with which maps are compared.
    """

    whole: RankSizes | None = None
    noise_rounds: int = 0
    spectrum_bytes: float = 0.0
    temperature_rounds: int = 0
    filtered: RankSizes | None = None
    filtered_maps: int = 0
    has_matrix: bool = False
    has_covariance: bool = False
    has_sky: bool = False
    n_waves: int = 0
    demodulated: RankSizes | None = None
    n_compared: int = 0


NO_AUXILIARY = AuxiliarySystems()


@dataclass(frozen=True)
class RankSizes:
    """Sizes of the rank that has most, on which bounds depend.

    Attributes
    ----------
    size, n_nodes : int
        Ranks, and their nodes.
    ranks_per_node : int
    n_stokes : int
    n_keys, n_owned, n_chunks : float
        Pixels held and owned, chunks of 64 pixels held.
    n_held : float
        Pixels held by a rank, the mean over ranks.
    n_global : float
        Pixels of all ranks.
    n_pix : int
        Pixels of the full map.
    rows : mapping of str to tuple of ExchangedRows
        Rows of pixels in each phase of an all-reduce, by algorithm.
    pair_rows : float
        Rows that a rank sends to all other holders of its pixels, the mean over ranks.
    n_samples : float
        Samples held.
    n_gaps, n_shared_gaps : float
        Unknown samples held, and those that a neighbour in time holds as well.
    gap_partners : float
        Ranks with which a rank shares unknown samples.
    n_kinds : float
        Kinds of streams that have a band of their own, all ranks.
    n_detectors : float
        Detectors of all observations that a rank has samples of.
    gathered_bytes : float
        What a rank gathers of pixels for the choice of the distribution; 0 where none is chosen.
    product_columns : tuple of int
        Columns of each product of a map.
    partial : bool
        Whether files have the observed pixels alone.
    n_maps : int
        Maps, as those of bands, each with pixels of its own.
    streams : StreamSizes
    amplitudes : AmplitudeSizes, optional
        Of templates.
    binned_only : bool
        Whether there is no solver.
    uniform_binning : bool
        Whether the binned map has weights of its own.
    model : ModelSizes, optional
        Of the two-level preconditioner.
    modelled : ModelPixels, optional
        Its pixels, where those of all ranks are known.
    reductions : tuple of str
        Algorithms of which one sums pixels: one that is given, or those that may be the fastest.
    is_chosen : bool
        Whether the run chooses among them.
    gather_sift : bool
        Whether shared pixels are found by gathering all.
    buffer_keys : int
        Pixels of a communication buffer.
    splits : tuple of RankSizes
        Of the maps of the parts of each split.
    auxiliary : AuxiliarySystems
        Of what is made beside.
    components : ComponentSizes, optional
        If the maps solved for are those of components.
    n_sources : int
        Entries ``[[source]]`` of the configuration.
    n_skies : int
        Simulated skies of which the part is looked for that detectors see.
    """

    size: int
    n_nodes: int
    ranks_per_node: int
    n_stokes: int
    n_keys: float
    n_owned: float
    n_chunks: float
    n_held: float
    n_global: float
    n_pix: int
    rows: Mapping[str, tuple[ExchangedRows, ...]]
    pair_rows: float
    n_samples: float
    n_gaps: float
    n_shared_gaps: float
    gap_partners: float
    n_kinds: float
    n_detectors: float
    gathered_bytes: float
    product_columns: tuple[int, ...]
    partial: bool
    n_maps: int = 1
    streams: StreamSizes = NO_STREAMS
    amplitudes: AmplitudeSizes | None = None
    binned_only: bool = False
    uniform_binning: bool = False
    model: ModelSizes | None = None
    modelled: ModelPixels | None = None
    reductions: tuple[str, ...] = ("owner",)
    is_chosen: bool = False
    gather_sift: bool = False
    buffer_keys: int = 1 << 20
    splits: tuple[RankSizes, ...] = ()
    auxiliary: AuxiliarySystems = NO_AUXILIARY
    components: ComponentSizes | None = None
    n_sources: int = 0
    n_skies: int = 0

    @property
    def n_beside(self) -> float:
        """Unknowns beside the map that a rank holds: of samples, and amplitudes of templates."""
        return self.n_gaps + (self.amplitudes.n_held if self.amplitudes else 0.0)

    @property
    def to_owners(self) -> ExchangedRows:
        """Rows of pixels in a reduction onto owners."""
        return self.rows["owner"][0]

    @property
    def to_ghosts(self) -> ExchangedRows:
        """Rows of pixels in a broadcast from owners."""
        return self.rows["owner"][1]

    def with_cut_row(self) -> RankSizes:
        """Return the sizes with the row that cut samples have beside templates, the same on all ranks."""
        if self.amplitudes is None:
            return self
        gaps, shared = max(self.n_gaps, 1.0), max(self.n_shared_gaps, 1.0)
        return replace(self, n_gaps=gaps, n_shared_gaps=shared, gap_partners=self.size - 1.0)

    def others(self, most: float) -> float:
        """Return how many other ranks get anything of so many things."""
        return min(self.size - 1.0, most)
