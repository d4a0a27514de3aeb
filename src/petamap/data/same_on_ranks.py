"""Check that all ranks were given the same configuration and observations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from petacomm.base.errors import ConfigError
from petacomm.mpi import Communicator, agree
from petamap.data.config import RunConfig, to_toml
from petamap.data.observation import Observation
from petamap.sky.pixelization import Pixelization


def require_same_on_ranks(
    comm: Communicator,
    config: RunConfig,
    observations: Sequence[Observation],
    pixelization: Pixelization | None,
) -> None:
    """Raise a ConfigError on all ranks if one was given something else than rank 0. Collective.

    Compared are the configuration, but for its threads, and what observations say of themselves, not samples.
    """
    if comm.size == 1:
        return
    alike = replace(config, resources=replace(config.resources, threads=0))
    told = [to_toml(alike), repr(pixelization and pixelization.describe())]
    told += [repr(_told(one)) for one in observations]
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()
    error = None
    if comm.bcast(digest) != digest:
        error = ConfigError(
            "was given another configuration, or other observations, than rank 0", where=f"rank {comm.rank}",
            mend="give the same to all ranks, of which each reads its part",
        )  # fmt: skip
    agree(comm, error)


def _told(one: Observation) -> tuple[object, ...]:
    return (
        one.name, one.uid, one.n_samp, one.sample_rate, one.detectors, one.start_time, one.intervals,
        one.frame, one.unit, len(one.signals), len(one.flags), [template.name for template in one.templates],
    )  # fmt: skip
