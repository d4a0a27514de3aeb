"""Tests that the bytes of the file do not depend on ranks, groups, batches and threads."""

import hashlib
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from cases import cases
from montecarlo_runs import TINY, arrays, configured, made, same
from mpi import check_same_on_ranks, run_ranks

from petacomm.mpi import SerialCommunicator
from petamap.montecarlo import mapper, rank_groups
from petamap.montecarlo.reader import read_results
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map

ALWAYS = ("montecarlo.realizations=20", "montecarlo.vectors=6", "source.0.duration=3 h")
AUTO, PAIRS = ("auto", "auto"), ("pairwise", "time-major")
# batch, groups, threads, pointing, reduction and distribution
WAYS = {
    1: [(0, 0, 1, "keep", AUTO), (3, 0, 2, "recompute", AUTO), (1, 0, 1, "keep", PAIRS)],
    2: [(0, 1, 1, "keep", PAIRS), (3, 2, 1, "keep", AUTO)],
    3: [(7, 1, 1, "keep", AUTO), (2, 2, 1, "recompute", PAIRS)],
    5: [(4, 2, 1, "keep", PAIRS), (3, 5, 1, "keep", AUTO)],
}


def _digests(comm):
    """Return the digest of the file for each configuration with this number of ranks, on rank 0."""
    found = []
    for batch, groups, threads, pointing, (reduction, distribution) in WAYS[comm.size]:
        out = Path(comm.bcast(tempfile.mkdtemp()))
        made(
            out, *ALWAYS, f"montecarlo.batch={batch}", f"montecarlo.groups={groups}",
            f"resources.threads={threads}", f"resources.pointing={pointing}",
            f"comm.reduction={reduction}", f"comm.distribution={distribution}", comm=comm,
        )  # fmt: skip
        found.append(hashlib.sha256((out / "tiny_mc.h5").read_bytes()).hexdigest())
    return found


def print_digests(comm):
    found = _digests(comm)
    if comm.rank == 0:
        print("FOUND", *found)


# made of parts of maps alike: fit of the dipole, apodized and band-limited masks, pure B, sums of parts
PLAIN = ("montecarlo.realizations=3", "source.0.duration=3 h", "map.n_side=8")
FEW_PIXELS = "source.0.opening=10 deg", "source.0.precession_angle=20 deg"
CHOSEN = {
    "plain": PLAIN,
    "pure": (*PLAIN, "spectra.apodize=40 deg", "spectra.purify=B", "spectra.keep_dipole=true"),
    "together": (*PLAIN, "spectra.apodize=30 deg", "spectra.weights=hits", "montecarlo.parts=together"),
    "kept": (*PLAIN, "montecarlo.maps=true", "montecarlo.fixed=add"),
    "few": (*PLAIN, *FEW_PIXELS, "montecarlo.maps=true", "montecarlo.fixed=add", "spectra.apodize=20 deg"),
}


WITH_DIPOLE = TINY + '[[source]]\nkind = "dipole"\n'


def no_room_for_whole_maps():
    def needed(config, system, batch, n_training, distributed):
        return 0.0 if distributed else 1e18

    return mock.patch.object(rank_groups, "_bytes_at_once", needed)


def digests_of_parts(comm, names=tuple(CHOSEN)):
    """Return the digests of files whose maps are whole on one process, and have no room on one of several."""
    found = []
    for name in names:
        settings, out = CHOSEN[name], Path(comm.bcast(tempfile.mkdtemp()))
        for more in ((), ("montecarlo.realizations=4",)):  # the file is read, and has the same weights
            with no_room_for_whole_maps():
                summary = made(out, *settings, *more, "montecarlo.groups=1", comm=comm, text=WITH_DIPOLE)
            assert ("spectra of each on all its ranks" in summary.montecarlo.why) == (comm.size > 1)
        found.append(hashlib.sha256((out / "tiny_mc.h5").read_bytes()).hexdigest())
    return found


def digests_of_some_parts(comm):
    return digests_of_parts(comm, ("pure", "few"))


def test_spectra_of_parts_of_maps():
    check_same_on_ranks(digests_of_some_parts, 2)


@pytest.mark.long
@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_spectra_of_parts_of_maps_in_all_ways(n_ranks):
    check_same_on_ranks(digests_of_parts, n_ranks)


def test_groups_have_parts_of_maps_of_their_own():
    check_same_on_ranks(digests_in_groups, 4)


def digests_in_groups(comm):
    """Return the digest of a file that groups of several processes have made, with a mask."""
    out = Path(comm.bcast(tempfile.mkdtemp()))
    mask = out / "mask.fits"
    if comm.rank == 0:
        half = np.arange(768) > 300
        write_map(
            mask,
            half.astype(float),
            Healpix(8),
            names=["mask"],
            unit="",
            run_id="test",
            frame=configured().map.frame,
        )
    comm.barrier()
    chosen = (*PLAIN, f"spectra.mask={mask}", "spectra.apodize=30 deg", "montecarlo.groups=2")
    with no_room_for_whole_maps():
        summary = made(out, *chosen, comm=comm)
    assert ("spectra of each on all its ranks" in summary.montecarlo.why) == (comm.size > 1)
    comm.barrier()
    found = arrays(out)
    return [found[name].tobytes() for name in ("weights", "pseudo/both", "hash")]


@pytest.fixture(scope="module")
def alone():
    found = _digests(SerialCommunicator())
    assert len(set(found)) == 1
    return found[0]


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_ranks_groups_and_batches(alone, n_ranks):
    ended = run_ranks(print_digests, n_ranks)
    line = next(line for line in ended.out.splitlines() if line.startswith("FOUND"))
    assert set(line.split()[1:]) == {alone}


@pytest.mark.parametrize("chosen", CHOSEN)
def test_maps_of_few_pixels_have_the_bits_of_whole_maps(chosen, tmp_path):
    few = (*CHOSEN[chosen], *FEW_PIXELS)
    asked, partial = [], mapper.is_partial

    def watched(*arguments):
        asked.append(partial(*arguments))
        return asked[-1]

    with mock.patch.object(mapper, "is_partial", watched):
        made(tmp_path / "few", *few, text=WITH_DIPOLE)
    with mock.patch.object(mapper, "is_partial", lambda *_: False):
        made(tmp_path / "whole", *few, text=WITH_DIPOLE)
    assert asked == ([] if chosen == "pure" else [True])
    found, whole = (arrays(tmp_path / name) for name in ("few", "whole"))
    assert 0 < np.count_nonzero(whole["weights"]) < whole["weights"].size / 2
    if chosen != "pure":  # the file names the pixels that it has
        pixels = found.pop("pixels")
        outside = np.setdiff1d(np.arange(768), pixels)
        assert 0 < len(pixels) < 384 and not whole["weights"][:, outside].any()
        for name in whole:
            if name == "weights" or name.startswith("maps/") or name == "fixed/map":
                assert name == "weights" or np.isnan(whole[name][..., outside]).all()
                whole[name] = whole[name][..., pixels]
        found, whole = (
            {name: one[name] for name in one if "checksums" not in name} for one in (found, whole)
        )
    assert found.keys() == whole.keys()
    assert all(same(found[name], whole[name]) for name in found)
    weights = [read_results(tmp_path / name).realizations.weights for name in ("few", "whole")]
    assert same(*weights)
