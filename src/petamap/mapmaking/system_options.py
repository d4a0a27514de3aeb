"""Options of a run that the set-up of the system of map-making equations needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from petacomm.reduction import AUTO
from petamap.data.parts import Parts
from petamap.mapmaking.distribution import STREAMS, Distribution
from petamap.mapmaking.noise_kernels import ModeLags
from petamap.mapmaking.stream_lags import StreamLags
from petamap.sky.stokes import Stokes

if TYPE_CHECKING:
    from petamap.cuda.device import Device


@dataclass(frozen=True)
class SystemOptions:
    """Options of a run that the set-up of the system needs.

    Attributes
    ----------
    n_lag : int
        Band of the inverse noise; 0 for white noise.
    stream_lags : StreamLags, optional
        Bands of the streams, none longer than `n_lag`; without them, all are as long.
    mode_lags : dict, optional
        Bands of the common modes of each observation and interval; likewise.
    free_ends : bool
        Whether the noise continues beyond the ends of stationary intervals: then `n_lag` unknown samples are
        added there and marginalised as gaps are. Else N^-1 takes it as zero there, as MADmap does.
    flags, preconditioner, rcond_min, rcond_solved, reduction, setup, pointing
        As in the run configuration.
    device : Device, optional
        Applies the operator instead of the processor.
    distribution : Distribution
        Order in which blocks are dealt to ranks.
    buffer : int
        Bytes of a communication buffer.
    memory : int, optional
        Bytes that the process may use.
    uniform_binning : bool
        Whether all samples weigh the same in the binned map.
    n_threads : int
    n_rhs : int
        Right-hand sides that will be read and solved for at once: memory is planned for them.
    n_kept : int
        Vectors that recycling will keep beside those of the solver (`Deflation.n_kept`).
    splits : tuple of int
        Number of parts of each split of the data: whether pointing is kept leaves room for their maps.
    parts : Parts, optional
        Parts of the data that have a map each, as bands have, instead of one map of all data.
    n_components : int
        Components that are mapped instead of the bands: memory is planned for them.
    binned_only : bool
        Whether only binned maps are asked for: N^-1 weighs samples and is not applied, so that there are no
        unknowns of gaps, no templates and no preconditioner worth its set-up.
    read_once : bool
        Whether the data of a binned map are read while the system is set up, in one pass where possible.
    gives_back : bool
        Whether pointing that is kept will be given back before maps are written.
    """

    stokes: Stokes = Stokes.IQU
    n_lag: int = 4096
    stream_lags: StreamLags | None = None
    mode_lags: ModeLags | None = None
    free_ends: bool = False
    flags: str = "exact"
    preconditioner: str = "auto"
    rcond_min: float = 1e-3
    rcond_solved: float = 1e-6
    distribution: Distribution = STREAMS
    reduction: str = AUTO
    setup: str = "rendezvous"
    buffer: int = 64 << 20
    pointing: str = "auto"
    device: Device | None = None
    memory: int | None = None
    uniform_binning: bool = False
    n_threads: int = 1
    n_rhs: int = 1
    n_kept: int = 0
    splits: tuple[int, ...] = ()
    parts: Parts | None = None
    n_components: int = 0
    binned_only: bool = False
    read_once: bool = False
    gives_back: bool = False

    @property
    def gaps(self) -> str:
        """Treatment of gaps: in a binned map they have no unknowns."""
        return "cut" if self.binned_only else self.flags

    @property
    def margin(self) -> int:
        """Unknown samples added at each end of a stationary interval."""
        return self.n_lag if self.free_ends and self.gaps != "cut" else 0
