"""Memory of a run, predicted before the vectors are allocated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from petacomm.base.host import resident_bytes
from petamap.data.observation import are_made
from petamap.mapmaking.slabs import is_partial, slab_bytes
from petamap.mapmaking.vectors import MAX_WIDTH, width_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from petacomm.mpi import Communicator
    from petacomm.reduction import OwnedRows
    from petamap.data.config import RunConfig
    from petamap.data.observation import Observation
    from petamap.mapmaking.projection import Projection


# astropy's FITS, first imported when maps are written
_FITS_BYTES = 20 << 20
# Libraries and tables of what simulates signals, first loaded when these are made; measured
SIMULATION_BYTES = 8 << 20
# of a gap: where it begins, its key, and its owner
_GAP_INDEX_BYTES = 20


@dataclass(frozen=True)
class MemoryPlan:
    """Predicted resident bytes of this rank.

    Attributes
    ----------
    keep : bool
        Whether pointing is kept.
    base : int
        The process with its libraries, pixel index, reduction plan and sources.
    samples : int
        Bytes that grow with the samples.
    maps : int
        Bytes that grow with the pixels and gaps, at their peak before maps are written.
    n_samp : int
        Samples held.
    preconditioner : int
        Bytes of the preconditioner beside the vectors, at their peak.
    filters : int
        Bytes of the streams that are filtered together.
    beside : int
        Bytes at most beside those of the preconditioner, while it is made and there are no vectors.
    writing : int
        Bytes that grow with the pixels and gaps while maps are written.
    given_back : int
        Bytes of samples that are given back before maps are written.
    skies : int
        Bytes of this rank's part of skies that its node will make, and hold.
    """

    keep: bool
    base: int
    samples: int
    maps: int
    n_samp: int
    preconditioner: int = 0
    filters: int = 0
    beside: int = 0
    writing: int = 0
    given_back: int = 0
    skies: int = 0

    def __add__(self, other: MemoryPlan) -> MemoryPlan:
        """Return the plan with what another system takes beside it."""
        return replace(
            self, samples=self.samples + other.samples, maps=self.maps + other.maps,
            preconditioner=self.preconditioner + other.preconditioner, beside=max(self.beside, other.beside),
            writing=self.writing + other.writing, given_back=self.given_back + other.given_back,
        )  # fmt: skip

    @property
    def total(self) -> int:
        """All bytes."""
        working = max(self.maps, self.beside) + self.filters
        held = self.base + self.skies + self.samples + self.preconditioner
        return held + max(working, self.writing - self.given_back)

    @property
    def bytes_per_sample(self) -> float:
        """Resident bytes for each sample held."""
        return self.samples / max(self.n_samp, 1)

    def describe(self) -> str:
        """Return one line for the user."""
        how = "kept" if self.keep else "recomputed"
        return (
            f"pointing {how}: {self.bytes_per_sample:.2f} bytes a sample, "
            f"{self.total / 1e6:.0f} MB a process in all"
        )


@dataclass(frozen=True)
class Sizes:
    """Sizes from which the memory of a rank's maps follows.

    Attributes
    ----------
    n_pix, n_stokes : int
        Of the full map.
    n_held, n_owned : int
        Pixels that the rank holds, and owns.
    n_gaps : int
        Unknowns of gaps and amplitudes.
    n_ranks, n_threads : int
    n_rhs : int
        Right-hand sides that are read and solved for side by side.
    n_kept : int
        Vectors that recycling keeps beside those of the solver.
    n_ghosts : int
        Pixels that other ranks own, of which the rank keeps the solver's vectors as well.
    n_sent : int
        Rows that the rank sends in an all-reduce; used where it keeps ghosts.
    partial : bool
        Whether files of maps have the observed pixels alone.
    sample_unknowns : bool
        Whether each unknown beside the map is of one sample (`Projection.sample_unknowns`).
    made : bool
        Whether all data are known to be made, so that two threads share the sums of right-hand sides. Of
        several at once, as of realizations, it is not known.
    filtered : bool
        Whether blocks are filtered, so that two threads share the sums of the operator.
    """

    n_pix: int
    n_stokes: int
    n_held: int
    n_owned: int
    n_gaps: int
    n_ranks: int
    n_threads: int
    n_rhs: int = 1
    n_kept: int = 0
    n_ghosts: int = 0
    n_sent: int = 0
    partial: bool = False
    sample_unknowns: bool = True
    made: bool = False
    filtered: bool = False


def sum_copies(n_threads: int, shared: bool) -> int:
    """Return the copies of sums that threads have: one each, or one of two threads that share it."""
    return -(-n_threads // 2) if shared else n_threads


def simulates(observations: Iterable[Observation]) -> bool:
    """Return whether signals are simulated."""
    signals = {type(signal).__module__ for one in observations for signal in one.signals}
    return any(module.startswith("petamap.simulation.") for module in signals)


def map_bytes(sizes: Sizes) -> tuple[int, int]:
    """Return bytes that grow with the pixels and gaps of a rank: at their peak, and while maps are written.

    The peak is that before maps are written.
    """
    threads, n_stokes = sizes.n_threads, sizes.n_stokes
    n, triangle = sizes.n_owned, n_stokes * (n_stokes + 1) // 2
    width, alone = width_for(min(sizes.n_rhs, MAX_WIDTH)), sizes.n_ranks == 1
    # a row of all vectors at once, of pixels at owners and holders, and of gaps
    owned, held = 8 * (n + sizes.n_ghosts) * n_stokes * width, 8 * sizes.n_held * n_stokes * width
    gaps = 8 * sizes.n_gaps * width
    (read, read_gaps), (summed, summed_gaps) = (
        (n_copies, 1 if sizes.sample_unknowns else n_copies)
        for n_copies in (sum_copies(threads, shared) for shared in (sizes.made, sizes.filtered))
    )
    # a single process holds what it owns: no copies, and the keys exist already
    keys, at_holders, at_owners = (0, 0, 0) if alone else (8 * n, held + gaps, 4 * owned + 2 * gaps)
    # rows sent and received, kept between calls: four words a value to owners, one from them; or all to all
    words = 4 * sizes.n_sent if sizes.n_ghosts else (4 + 1) * (sizes.n_held - n)
    messages = 2 * 8 * n_stokes * words * width
    # hits, rcond, covariance; pixels that are dead, or not solved for; recycled spaces; where gaps are, and
    # their weights
    blocks = 8 * (n * (2 + triangle) + sizes.n_ghosts * triangle) + 2 * n
    always = keys + messages + blocks + sizes.n_kept * (owned + gaps) // width
    always += (_GAP_INDEX_BYTES + 8) * sizes.n_gaps
    # two right-hand sides of two words each in every copy, one of gaps, and at the owners; what they make
    reading = 4 * read * held + 2 * read_gaps * gaps + at_owners + 3 * owned + gaps
    # right-hand sides, x, r, p, q or M^-1 r, solutions; binned map; copies at holders; the sums of
    # threads, made in place where there is nothing to add up
    sums = 0 if alone and summed == 1 else summed * held
    sums += 0 if alone and summed_gaps == 1 else summed_gaps * gaps
    solving = 6 * (owned + gaps) + owned // width + at_holders + sums
    # binned map, x; the widest product, and this rank's part in writing it
    slab = slab_bytes(sizes.n_pix, triangle, sizes.n_ranks, n, sizes.partial)
    writing = 2 * (owned + gaps) + at_holders + 8 * n * triangle + slab + _FITS_BYTES
    return always + max(reading, solving), always + writing


def gives_pointing_back(config: RunConfig) -> bool:
    """Return whether a run passes over no samples once it has its map, and needs their pointing no more."""
    products = config.products
    return not (config.splits or products.pixel_covariance or products.sky)


def sky_bytes(observations: Sequence[Observation], comm: Communicator) -> tuple[int, int]:
    """Return the bytes of a rank's part of skies that are to be made, and those beside while one is made.

    Collective: what is held of them is found.
    """
    shared = (getattr(signal, "shared_sky", None) for one in observations for signal in one.signals)
    skies = {id(sky): sky for sky in shared if sky is not None}.values()
    for sky in skies:
        sky.find(comm)
    on_node, costs = comm.node_size(), [sky.costs for sky in skies if not sky.is_made]
    beside = max((one.bytes_to_make(on_node) for one in costs), default=0)
    return sum(one.n_bytes for one in costs) // on_node, beside


def split_bytes(run: MemoryPlan, n_parts: int) -> int:
    """Return what a split takes at most beside a run: maps of all parts and one of all, and their pixels.

    Where pointing is kept, a sample takes 4 bytes in both.
    """
    kept = 2 * 4 * run.n_samp if run.keep else 0
    return (n_parts + 1) * (max(run.maps, run.writing) + run.preconditioner) + kept


def component_bytes(n_rows: int, n_pixels: int, n_components: int, n_stokes: int) -> int:
    """Return what maps of components take of a rank beside those of bands.

    Parameters
    ----------
    n_rows, n_pixels : int
        Rows of maps of bands that the rank owns, and pixels of all components.
    n_components, n_stokes : int
        None take nothing.
    """
    if not n_components:
        return 0
    n, triangle = n_components * n_stokes, n_stokes * (n_stokes + 1) // 2
    # matrices and their inverses; covariance, hits, rcond and dead of rows; weights in bands, and a copy
    blocks = 8 * n_pixels * (n * (n + 1) + n_components * (triangle + 3)) + 2 * 8 * n_rows * triangle
    # vectors of the solver; those of bands are planned as if it had them; what moves between owners
    return blocks + 8 * n_pixels * n * 8 + 2 * 8 * n_rows * n_stokes


def plan_memory(
    projection: Projection,
    pixels: OwnedRows,
    keep: bool,
    n_unknowns: int,
    n_rhs: int = 1,
    n_kept: int = 0,
    gives_back: bool = False,
) -> MemoryPlan:
    """Return the memory that a run will need, once owners of pixels are known. Collective.

    Unknowns are those beside the map, of gaps and amplitudes; `n_rhs` and `n_kept` those of `Sizes`,
    `gives_back` that of `SystemOptions`.
    """
    sizes = Sizes(
        n_pix=projection.pixelization.n_pix,
        n_stokes=projection.stokes.n,
        n_held=pixels.n_held,
        n_owned=pixels.n_owned,
        n_gaps=n_unknowns,
        n_ranks=pixels.comm.size,
        n_threads=projection.n_threads,
        n_rhs=n_rhs,
        n_kept=n_kept,
        n_ghosts=pixels.n_ghosts,
        n_sent=pixels.plan.bytes_per_call(1, 1) if pixels.n_ghosts else 0,
        partial=is_partial(projection.pixelization, int(pixels.comm.sum(pixels.n_owned))),
        sample_unknowns=projection.sample_unknowns,
        made=n_rhs == 1 and are_made([[one.signals for one in projection.observations]]),
        filtered=projection.layout.n_lag > 0,
    )
    pointing = projection.bytes_to_keep if keep else 0
    # the bits of the gaps are allocated already, and so is pointing that was kept when pixels were found
    base = resident_bytes() - projection.local.n_held // 8 - projection.kept_bytes
    if simulates(projection.observations):
        base += SIMULATION_BYTES
    maps, writing = map_bytes(sizes)
    return MemoryPlan(
        keep=keep, base=base, samples=pointing + projection.local.n_held // 8, n_samp=projection.local.n_held,
        maps=maps, writing=writing, given_back=pointing if gives_back else 0,
    )  # fmt: skip
