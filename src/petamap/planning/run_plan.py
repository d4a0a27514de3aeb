"""Plan of a run on a machine: predicted pixels, messages, memory and reduction times of its ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

from petacomm.base.display import Displayed
from petacomm.topology import Machine
from petamap.mapmaking.bands import StreamBands
from petamap.planning.cut_pixels import UnusedSamples
from petamap.planning.preconditioner_forecast import PreconditionerForecast
from petamap.planning.run_prediction import RunPrediction
from petamap.planning.thinned_scan import Thinning
from petamap.simulation.sky_costs import SkyCosts


@dataclass(frozen=True, repr=False)
class RunPlan(Displayed):
    """Predictions of a run on a machine, made by `plan`.

    Attributes
    ----------
    machine : Machine
    cores : int
        Number of cores of the run.
    n_samp, n_pix : int
        Number of samples of all detectors; number of pixels of the full map.
    n_stokes : int
        Number of values per pixel.
    fraction : float
        Fraction of the sky in the sample.
    bands : StreamBands
        Bands of the inverse noise of the streams.
    preconditioner : PreconditionerForecast
    predictions : tuple of RunPrediction
    max_iterations : int
        Of the solver; none for binned maps alone.
    thinning : Thinning, optional
        What was looked at of a scan that is too large to be looked at.
    noise_rounds : int
        Rounds at most in which the noise is estimated before, which no time includes; 0 where it is declared.
    unused : UnusedSamples
        Pixels that will be cut and samples that make no map, as far as the scan tells; of a scan that is
        thinned out, as given.
    unbounded : tuple of str
        Parts of the run that send more than the bounds of its phases say.
    skies : tuple of SkyCosts
        What skies take that signals see: each node holds them.
    n_maps : int
        Maps, as those of frequency bands, whose pixels are told apart.
    rank_limit : float
        Bytes that a rank may take, of `resources.memory`; 0 where they are not given.
    """

    machine: Machine
    cores: int
    n_samp: int
    n_pix: int
    n_stokes: int
    fraction: float
    bands: StreamBands
    preconditioner: PreconditionerForecast
    predictions: tuple[RunPrediction, ...] = field(repr=False)
    max_iterations: int
    thinning: Thinning | None = None
    noise_rounds: int = 0
    unused: UnusedSamples = field(default_factory=UnusedSamples)
    unbounded: tuple[str, ...] = ()
    skies: tuple[SkyCosts, ...] = ()
    n_maps: int = 1
    rank_limit: float = 0.0

    def _facts(self) -> dict[str, object]:
        best = self.best
        return {
            "machine": self.machine.name,
            "cores": self.cores,
            "n_samp": f"{self.n_samp:,}",
            "n_pix": f"{self.n_pix:,}",
            "fastest": f"{best.best} with data {best.distribution.name}",
            "threads_of_a_rank": best.threads,
            "seconds_of_a_reduction": f"{best.seconds[best.best]:.3g}",
            "memory_of_a_rank": f"{best.memory / 1e9:.3g} GB",
            "predictions": len(self.predictions),
        }

    @property
    def best(self) -> RunPrediction:
        """Prediction with the fastest iterations, of those that the memory of nodes has room for, if any.

        They differ by a reduction, and by unpaired samples.
        """
        fitting = [one for one in self.predictions if self.fits(one)] or self.predictions
        return min(fitting, key=lambda one: one.seconds[one.best] + one.unpaired_seconds)

    def fits(self, prediction: RunPrediction) -> bool:
        """Return whether ranks, and their node, have room, as far as memory is known.

        Parameters
        ----------
        prediction : RunPrediction

        Returns
        -------
        bool
        """
        of_ranks = 0 < self.rank_limit < prediction.memory
        return not (of_ranks or 0 < self.machine.node_memory < prediction.node_memory)

    @property
    def least_memory(self) -> RunPrediction:
        """Prediction with the least memory of a node."""
        return min(self.predictions, key=lambda one: one.node_memory)
