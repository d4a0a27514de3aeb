"""Map files that all ranks write together: the bytes of one process, whole or absent, on any ranks."""

import hashlib
import resource
import shutil
import tempfile
import tracemalloc
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import healpy
import numpy as np
import pytest
from astropy.io import fits
from cases import cases
from mpi import run_ranks

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petacomm.mpi import SerialCommunicator
from petamap.mapmaking import slabs
from petamap.mapmaking.products import MapWriter, product_cards
from petamap.mapmaking.slabs import Slabs, is_partial, slab_bounds, slab_bytes
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.map_conventions import UNSEEN
from petamap.sky.map_digest import SLAB, map_sha256
from petamap.sky.map_file import read_map, write_map
from petamap.sky.numbered import ImageLayout, NumberedPixels

FLAT = FlatPatch.box((266.4, -29.0), (3.0, 2.0), 0.1)
LAYOUT = ImageLayout((30, 40), np.random.default_rng(0).permutation(1200)[:777], FLAT.wcs_cards())
TARGETS = (
    (Healpix(8, nest=True), "ring"),
    (Healpix(8, nest=True), "nest"),
    (Healpix(1, nest=True), "ring"),
    (CarPatch.full_sky(6.0), "ring"),
    (FLAT, "ring"),
    (NumberedPixels(777), "ring"),
    (NumberedPixels(777, LAYOUT), "ring"),
)
KINDS = (
    ("map", ["I", "Q", "U"], "K_CMB"),
    ("hits", ["HITS"], ""),
    ("covariance", ["II", "IQ", "IU", "QQ", "QU", "UU"], "K_CMB^2"),
)


def whole_map(pixelization, n_columns, seed=3, patch=False):
    """Return the same map on all ranks, (n_columns, n_pix), and which pixels are held by any rank."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n_columns, pixelization.n_pix))
    values[:, rng.random(pixelization.n_pix) < 0.1] = np.nan
    held = rng.random(pixelization.n_pix) < 0.8
    if patch:
        held &= np.arange(pixelization.n_pix) % 3 == 0
        held[: pixelization.n_pix // 2] = False
    values[:, ~held] = np.nan
    return values, held


def system_of(comm, pixelization, held):
    """Return a system whose first rank owns nothing where there are others."""
    n = pixelization.n_pix
    owner = np.random.default_rng(5).integers(min(1, comm.size - 1), comm.size, n)
    keys = np.flatnonzero(held & (owner == comm.rank))
    projection = SimpleNamespace(pixelization=pixelization)
    return SimpleNamespace(comm=comm, keys=keys, projection=projection)


def map_writer(system, *arguments):
    return MapWriter(system.comm, system.projection.pixelization, system.keys, *arguments)


def rows_of(system, values):
    """Return the rows that a rank owns."""
    return values[:, system.keys].T.copy()


def in_file(pixelization, ordering, values):
    """Return the pixelization of the file and the map in its order."""
    if not isinstance(pixelization, Healpix) or ordering == "nest":
        return pixelization, values
    ring = Healpix(pixelization.n_side)
    return ring, values[:, healpy.ring2nest(ring.n_side, np.arange(ring.n_pix))]


def shared_folder(comm):
    return Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))


def same_bytes(comm):
    folder = shared_folder(comm)
    for pixelization, ordering in TARGETS:
        frame = None if isinstance(pixelization, NumberedPixels) else "galactic"
        for kind, names, unit in KINDS:
            values, held = whole_map(pixelization, len(names))
            system = system_of(comm, pixelization, held)
            writer = map_writer(system, "galactic", "test-1", ordering)
            with mock.patch.object(slabs, "STREAMED_ROWS", 100):
                product = writer.write(kind, folder / "map.fits", kind, rows_of(system, values), names, unit)
            if comm.rank != 0:
                assert product is None
                continue
            expected, ordered = in_file(pixelization, ordering, values)
            write_map(
                folder / "one.fits", ordered, expected, names=names, unit=unit, run_id="test-1", frame=frame,
                cards=product_cards(kind),
            )  # fmt: skip
            assert (folder / "map.fits").read_bytes() == (folder / "one.fits").read_bytes()
            assert product.sha256 == map_sha256(ordered)
            assert (product.file, product.kind, product.unit) == ("map.fits", kind, unit)
            assert product.stokes == ("IQU" if kind == "map" else "")
            assert sorted(path.name for path in folder.iterdir()) == ["map.fits", "one.fits"]
    comm.barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)


def patches(comm):
    """Check the files of maps of less than half of the sky, and of their half difference."""
    folder = shared_folder(comm)
    for n_side, ordering in ((1, "ring"), (32, "nest"), (64, "ring")):
        pixelization = Healpix(n_side, nest=True)
        values, held = whole_map(pixelization, 3, patch=True)
        others, held_there = whole_map(pixelization, 3, seed=4, patch=True)
        systems = [system_of(comm, pixelization, one) for one in (held, held_there)]
        writers = [map_writer(system, "galactic", "test-1", ordering) for system in systems]
        rows = [rows_of(systems[0], values), rows_of(systems[1], others)]
        null = writers[0].write_null(
            folder / "null.fits", "null", rows[0], writers[1], rows[1], names=["I", "Q", "U"], unit="K_CMB"
        )
        product = writers[0].write("map", folder / "map.fits", "map", rows[0], ["I", "Q", "U"], "K_CMB")
        largest = writers[0].compare(folder / "map.fits", rows[0])
        if comm.rank == 0:
            assert product.sha256 == map_sha256(in_file(pixelization, ordering, values)[1])
            assert null.sha256 == map_sha256(in_file(pixelization, ordering, (values - others) / 2)[1])
            assert largest == (0.0, 0.0)
            for name, expected in (("map", values), ("null", (values - others) / 2)):
                _check_patch(folder / f"{name}.fits", pixelization, ordering, held, expected)
    comm.barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)


def _check_patch(path, pixelization, ordering, held, expected):
    assert path.stat().st_size <= 5 * 2880 + held.sum() * 28
    in_order, ordered = in_file(pixelization, ordering, expected)
    found = read_map(path)
    assert found.pixelization == in_order
    np.testing.assert_array_equal(found.values, ordered)
    read = healpy.read_map(path, field=None, nest=True, dtype=np.float64)
    np.testing.assert_array_equal(read, np.where(np.isnan(expected), UNSEEN, expected))
    with warnings.catch_warnings(), fits.open(path, checksum=True) as hdus:
        warnings.simplefilter("error")
        assert hdus[1].header["INDXSCHM"] == "EXPLICIT"
        pixels = hdus[1].data["PIXEL"]
        assert np.array_equal(pixels, np.flatnonzero(in_file(pixelization, ordering, held[None])[1][0]))
    print("BYTES", hashlib.sha256(path.read_bytes()).hexdigest())


def a_rank_fails(comm):
    folder = shared_folder(comm)
    pixelization = Healpix(64, nest=True)
    values, held = whole_map(pixelization, 3)
    system = system_of(comm, pixelization, held)
    writer = map_writer(system, "galactic", "test-1", "ring")
    more = ("map", ["I", "Q", "U"], "K_CMB")

    def write(path, factor):
        writer.write("map", path, "map", factor * rows_of(system, values), *more[1:])

    write(folder / "map.fits", 1.0)
    before = (folder / "map.fits").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for failing in range(comm.size):
        if comm.rank == failing:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        with pytest.raises(ResourceError, match="File too large") as caught:
            write(folder / "map.fits", 2.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.where == str(folder / "map.fits")
        comm.barrier()
        assert (folder / "map.fits").read_bytes() == before
        assert [path.name for path in folder.iterdir()] == ["map.fits"]
        comm.barrier()
    with pytest.raises(ResourceError, match="cannot be written"):
        write(folder / "map.fits" / "map.fits", 1.0)
    with pytest.raises(ConfigError, match="unknown frame 'lunar'"):
        map_writer(system, "lunar", "test-1", "ring").write(
            "map", folder / "map.fits", "map", rows_of(system, values), *more[1:]
        )
    comm.barrier()
    assert (folder / "map.fits").read_bytes() == before
    comm.barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)


def compares(comm):
    folder = shared_folder(comm)
    found = []
    for pixelization, ordering in TARGETS:
        values, held = whole_map(pixelization, 3)
        system = system_of(comm, pixelization, held)
        error = np.random.default_rng(8).standard_normal(values.shape)
        expected, ordered = in_file(pixelization, "ring", values + error)
        frame = None if isinstance(pixelization, NumberedPixels) else "galactic"
        if comm.rank == 0:
            more = {"names": ["I", "Q", "U"], "unit": "K_CMB", "run_id": "r", "frame": frame}
            write_map(folder / "reference.fits", ordered, expected, **more)
        comm.barrier()
        writer = map_writer(system, "galactic", "test-1", ordering)
        with mock.patch.object(slabs, "STREAMED_ROWS", 100):
            compared = writer.compare(folder / "reference.fits", rows_of(system, values))
        assert (compared is None) == (comm.rank != 0)
        if compared is not None:
            difference = (values - (values + error))[np.isfinite(values)]
            assert compared[0] == np.abs(difference).max()
            assert compared[1] == pytest.approx(np.sqrt(np.mean(difference**2)), rel=1e-14)
            found.append(compared)
    _refuses(comm, folder)
    comm.barrier()
    if comm.rank == 0:
        shutil.rmtree(folder)
        print([(largest.hex(), rms.hex()) for largest, rms in found])


def _refuses(comm, folder):
    pixelization = Healpix(2, nest=True)
    system = system_of(comm, pixelization, np.ones(48, bool))
    writer = map_writer(system, "galactic", "test-1", "ring")
    rows = np.ones((len(system.keys), 1))
    options = {"names": ["I"], "unit": "K", "run_id": "r", "frame": "galactic"}
    if comm.rank == 0:
        write_map(folder / "other.fits", np.ones(12), Healpix(1), **options)
        write_map(folder / "empty.fits", np.full(48, np.nan), Healpix(2), **options)
    comm.barrier()
    for name, kind, words in (
        ("other.fits", ConfigError, "other pixels"),
        ("empty.fits", ConfigError, "no pixel in common"),
        ("none.fits", DataError, "no such file"),
    ):
        with pytest.raises(kind, match=words):
            writer.compare(folder / name, rows)
    with pytest.raises(ConfigError, match="other pixels or components"):
        writer.compare(folder / "empty.fits", np.ones((len(rows), 3)))


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=(2, 5)))
def test_the_bytes_of_one_process(n_ranks):
    run_ranks(same_bytes, n_ranks)


def test_patches_are_written_by_themselves_and_the_same_on_any_ranks():
    said = [run_ranks(patches, n_ranks).out for n_ranks in (1, 3)]
    assert said[0] == said[1] and said[0].count("BYTES") == 6


def test_slabs_of_patches_are_as_high_on_each_rank():
    rows = np.arange(7 * SLAB, 15 * SLAB)
    comm = SimpleNamespace(
        size=4, rank=0, allreduce=lambda counts, _: counts, alltoallv=lambda sent, n: (sent[: n[0]], n[:1])
    )
    made = Slabs(comm, 40 * SLAB, rows, partial=True)
    assert np.array_equal(np.diff(np.searchsorted(rows, made.bounds)), [2 * SLAB] * 4)
    assert is_partial(Healpix(16), 1535) and not is_partial(Healpix(16), 1536)
    assert not is_partial(FLAT, 1)


@pytest.mark.parametrize("n_ranks", cases(3, long=(1,)))
def test_a_failing_rank_leaves_what_was_there(n_ranks):
    run_ranks(a_rank_fails, n_ranks)


def test_differences_do_not_depend_on_ranks():
    said = {run_ranks(compares, n_ranks).out for n_ranks in (1, 3)}
    assert len(said) == 1 and "0x" in said.pop()


@pytest.mark.parametrize("ordering", ["ring", "nest"])
def test_others_read_it(tmp_path, ordering):
    pixelization = Healpix(16, nest=True)
    values, held = whole_map(pixelization, 3)
    system = system_of(SerialCommunicator(), pixelization, held)
    writer = map_writer(system, "galactic", "test-1", ordering)
    writer.write("map", tmp_path / "map.fits", "map", rows_of(system, values), ["I", "Q", "U"], "K_CMB")
    read = healpy.read_map(tmp_path / "map.fits", field=None, nest=True, dtype=np.float64)
    np.testing.assert_array_equal(read, np.where(np.isnan(values), UNSEEN, values))
    _, ordered = in_file(pixelization, ordering, values)
    np.testing.assert_array_equal(read_map(tmp_path / "map.fits").values, ordered)
    with warnings.catch_warnings(), fits.open(tmp_path / "map.fits", checksum=True) as hdus:
        warnings.simplefilter("error")
        assert all(hdu.verify_checksum() == 1 and hdu.verify_datasum() == 1 for hdu in hdus)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("n_rows", [1, 64, 65, 3072, 12 * 8192**2])
def test_slabs_are_aligned_and_cover_all_rows(n_rows, size):
    bounds = slab_bounds(n_rows, size)
    heights = np.diff(bounds)
    assert bounds[0] == 0 and bounds[-1] == n_rows and len(heights) == size and (heights >= 0).all()
    assert all(bound % SLAB == 0 or bound == n_rows for bound in bounds)
    assert heights.max() < n_rows / size + SLAB


@pytest.mark.parametrize("ordering", ["ring", "nest"])
@pytest.mark.parametrize(
    ("names", "n_side", "n_seen"),
    [
        (["HITS"], 256, None),
        (["I", "Q", "U"], 256, None),
        (["A"] * 6, 128, None),
        (["I", "Q", "U"], 4096, 10**5),
    ],
)
def test_the_memory_that_was_predicted(tmp_path, ordering, names, n_side, n_seen):
    pixelization = Healpix(n_side, nest=True)
    n_seen = pixelization.n_pix if n_seen is None else n_seen
    projection = SimpleNamespace(pixelization=pixelization)
    system = SimpleNamespace(comm=SerialCommunicator(), keys=np.arange(n_seen), projection=projection)
    rows = np.ones((n_seen, len(names)))
    names = [f"{name}{i}" for i, name in enumerate(names)]
    map_writer(system, "galactic", "r", ordering).write("hits", tmp_path / "m", "", rows, names, "")
    writer = map_writer(system, "galactic", "r", ordering)  # the libraries are there now
    tracemalloc.start()
    writer.write("hits", tmp_path / "map.fits", "", rows, names, "")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    partial = is_partial(pixelization, n_seen)
    predicted = slab_bytes(pixelization.n_pix, len(names), 1, n_seen, partial)
    assert 0.6 * predicted < peak < predicted
