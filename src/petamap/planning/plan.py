"""Predictions of a run on a machine, without running it."""

from __future__ import annotations

from collections.abc import Sequence

from petacomm.base.arguments import require_integer
from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress
from petacomm.base.threads import available_threads
from petacomm.cli.shown_progress import shown_progress
from petacomm.topology import Machine, load_machine
from petamap.data.config import RunConfig, require_configuration
from petamap.mapmaking.distribution import Distribution
from petamap.planning.planner import Planner
from petamap.planning.run_plan import RunPlan

_LEAST_SAMPLE = 1e-9  # part of the sky: a pixel of the finest
# Of more time samples, the scan is thinned out.
MOST_SCANNED = 1e11


def plan(
    config: RunConfig,
    cores: int,
    machine: Machine | str,
    *,
    sample: float | None = None,
    seed: int = 1,
    n_threads: int | None = None,
    progress: bool | Progress = True,
    distributions: Sequence[Distribution] | None = None,
    threads: Sequence[int] | None = None,
    n_rhs: int = 1,
    flagged: float = 0.0,
    most_scanned: float = MOST_SCANNED,
) -> RunPlan:
    """Return predictions of a run on a machine, without running it.

    Parameters
    ----------
    config : RunConfig
        The run; its pointing is expanded, no signal is read or simulated.
    cores : int
        Number of cores of the machine that are used, one or several per rank.
    machine : Machine or str
        Or its name or file, as for `petacomm.load_machine`.
    sample : float, optional
        Fraction of the sky that is sampled, 1 for all of it; by default 6000 regions, or all for a small run.
        Without it, simulated scans of more than `most_scanned` samples on HEALPix pixels are thinned out.
    seed : int
        Seed of the sample.
    n_threads : int, optional
        Number of threads of the computation.
    progress : bool or Progress
        True: bars, where stdout is a terminal or a notebook; or a listener of one's own.
    distributions : sequence of Distribution, optional
        Distributions of the data that are compared; by default all `possible_distributions`.
    threads : sequence of int, optional
        Cores of a rank that are compared; by default one, those of a socket and those of a node.
    n_rhs : int
        Data sets that are mapped at once, as realizations of a Monte Carlo are.
    flagged : float
        Part of the samples that is flagged, or in pixels that are cut, of scans that are thinned out: of
        others it is foreseen.
    most_scanned : float
        Samples beyond which a scan is thinned out, which is quicker and less exact.

    Returns
    -------
    RunPlan
        Memory, volumes and seconds by distribution, algorithm and ranks per node.

    Raises
    ------
    ConfigError
        For a wrong configuration, cores that the machine lacks, or more ranks than blocks of data.
    DataError
        If a file of the sources is wrong.

    Examples
    --------
    >>> import petacomm, petamap
    >>> config = petamap.parse_config('''
    ... [run]
    ... name = "night"
    ... [map]
    ... n_side = 16
    ... [noise]
    ... n_lag = 64
    ... [[source]]
    ... kind = "satellite"
    ... duration = "6 h"
    ... sample_rate = "5 Hz"
    ... [[source]]
    ... kind = "noise"
    ... net = "60 uK s^0.5"
    ... ''')
    >>> run_plan = petamap.plan(config, 8, petacomm.load_machine("perlmutter"))
    >>> len(run_plan.predictions) > 0
    True
    """
    require_configuration(config)
    if isinstance(machine, str):
        machine = load_machine(machine)
    if not isinstance(machine, Machine):
        mend = 'give its name, as "perlmutter", or petacomm.load_machine(...)'
        raise ConfigError(f"{machine!r:.50} is no machine", mend=mend)
    available = machine.nodes * machine.cores
    if not 1 <= cores <= available:
        raise ConfigError(
            f"{cores} ranks on {machine.name}, which has {available} cores", mend=f"take 1 to {available}"
        )
    if sample is not None and not _LEAST_SAMPLE <= sample <= 1:
        raise ConfigError(f"a sample of {sample:g} of the sky", mend="give a part of it, 1 for all")
    if n_threads is not None:
        require_integer(n_threads, "n_threads", 0, 2**16)
    require_integer(seed, "seed", 0)
    require_integer(n_rhs, "n_rhs", 1, 2**16)
    if not 0 <= flagged <= 1:
        raise ConfigError(f"a part of {flagged:g} of the samples is flagged", mend="give 0 to 1")
    for distribution in distributions or ():
        if not isinstance(distribution, Distribution):
            raise ConfigError(f"{distribution!r:.50} is no distribution", mend="see possible_distributions")
    for one in threads or ():
        require_integer(one, "threads", 1, 2**16)
    n_threads = n_threads or available_threads()
    choices = threads or sorted({1, min(machine.cores_per_socket, cores), min(machine.cores, cores)})
    with shown_progress(progress, 0) as shown:
        planner = Planner(
            config, cores, machine, sample, seed, n_threads, choices, shown, n_rhs, flagged, most_scanned
        )
        return planner.plan(distributions)
