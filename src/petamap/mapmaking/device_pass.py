"""The samples of a rank on a device: what runs of `resources.backend = "cuda"` hand to `petamap.cuda`."""

from __future__ import annotations

from petacomm.base.errors import ConfigError
from petacomm.mpi import Communicator, agree_on_errors
from petamap.cuda.device import CupyDevice, Device
from petamap.cuda.normal_pass import NormalPass
from petamap.cuda.sample_tables import CompressedSamples, KeptSamples
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection

CUDA = "cuda"


def open_device(backend: str, comm: Communicator) -> Device | None:
    """Return the device of this rank; none where the processor does all. Collective.

    The ranks of a node take its devices in turn.
    """
    if backend != CUDA:
        return None
    number = comm.node().rank
    with agree_on_errors(comm):
        return CupyDevice(number)


def can_expand_on_device(projection: Projection) -> bool:
    """Return whether a device can expand the pointing, so that nothing needs to be kept."""
    return (
        projection.can_expand
        and projection.sky is projection.pixelization  # no parts of the data
        and CompressedSamples.supports(projection.sky.grid)
    )


def device_pass(
    device: Device, projection: Projection, noise: InverseNoise, comm: Communicator
) -> NormalPass:
    """Return P^T N^-1 P of a rank's samples on a device. Collective.

    Raises
    ------
    ConfigError
        If there is what devices do not have: templates, or noise that detectors share.
    ResourceError
        If the device has too little memory.
    """
    with agree_on_errors(comm):
        return _normal_pass(device, projection, noise)


def _normal_pass(device: Device, projection: Projection, noise: InverseNoise) -> NormalPass:
    for reason, what in (
        (projection.amplitudes, "templates"),
        (noise.joint.groups, "noise that detectors share"),
    ):
        if reason:
            raise ConfigError(
                f'resources.backend = "cuda" does not know {what}', mend='set resources.backend = "cpu"'
            )
    kept, gaps, local = projection.kept, projection.gaps, projection.local
    samples: KeptSamples | CompressedSamples
    if kept is not None:
        angles = kept.angles
        if projection.psi is not None:
            angles = projection.psi.angles_of_all(projection.pieces(), local.n_held)
        samples = KeptSamples(kept.pixels, angles, kept.gains)
    else:
        samples = CompressedSamples(
            projection.pointing_arguments, projection.sky.grid, projection.keys(), projection.stream_table,
            gaps.bits if gaps else None, gaps.length,
        )  # fmt: skip
    layout = projection.layout
    return NormalPass(
        device, local.blocks, layout.turns(local), projection.responses, samples, projection.first_slots,
        noise.lags, noise.transform, projection.stokes.n, projection.n_local, gaps.n,
    )  # fmt: skip
