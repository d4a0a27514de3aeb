"""The files of a run: whole or absent, never replaced unasked, and as the summary says."""

import dataclasses
import json
import os
import resource
import warnings
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from mpi import launch
from small_runs import config, noisy_scans, one_detector, recorded_with_gains, run_on, sha_of
from small_systems import Samples, compressed

from petacomm.base.errors import ConfigError, ResourceError
from petamap.data.run_summary import Summary, summary_schema
from petamap.sky.map_digest import map_sha256
from petamap.sky.map_file import read_map, write_map

KINDS = {"hits", "covariance", "rcond", "binned", "map", "residual"}
SHORT = {"solver": {"max_iterations": 3}}


def read(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_map(path)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("done")
    return out, run_on(noisy_scans(), out, **SHORT, map={"ordering": "ring"})


def test_summary_is_valid_and_tells_what_is_there(done):
    out, summary = done
    document = json.loads((out / "summary.json").read_text())
    jsonschema.validate(document, summary_schema())
    assert Summary.read(out) == summary
    assert {product.kind for product in summary.products} == KINDS
    written = {path.name for path in out.iterdir()}
    assert written == {product.file for product in summary.products} | {"summary.json"}
    for product in summary.products:
        assert map_sha256(read(out / product.file).values) == product.sha256


def test_residual_is_what_the_maps_differ_by(done):
    out, _ = done
    maps = {kind: read(out / f"small_{kind}.fits").values for kind in KINDS}
    np.testing.assert_array_equal(maps["residual"], maps["binned"] - maps["map"])
    np.testing.assert_array_equal(np.isnan(maps["map"]), np.isnan(maps["binned"]))
    totals = done[1].totals
    assert np.nansum(maps["hits"]) == totals.samples_used
    assert np.count_nonzero(maps["hits"] > 0) == totals.pixels_observed
    assert totals.samples_used + totals.samples_flagged == totals.samples


def test_nested_and_ring_files_hold_the_same_sky(done, tmp_path):
    import healpy

    run_on(noisy_scans(), tmp_path, **SHORT, map={"ordering": "nest"})
    ring, nest = (read(out / "small_map.fits") for out in (done[0], tmp_path))
    assert (ring.pixelization.nest, nest.pixelization.nest) == (False, True)
    expected = nest.values[:, healpy.ring2nest(8, np.arange(768))]
    np.testing.assert_array_equal(ring.values, expected)


def test_units_and_frame_are_written(done):
    from astropy.io import fits

    with fits.open(done[0] / "small_map.fits") as file:
        assert "NOISE" not in file[1].header
    with fits.open(done[0] / "small_covariance.fits") as file:
        assert file[1].header["NOISE"] == "white" and "white part" in file[1].header.comments["NOISE"]
        header = file[1].header
    # less than half of the sky: pixels first
    assert header["TTYPE1"].strip() == "PIXEL" and header["INDXSCHM"].strip() == "EXPLICIT"
    assert header["TUNIT2"].strip() in ("K_CMB^2", "K_CMB2") and header["COORDSYS"].strip() in (
        "G",
        "GALACTIC",
    )
    assert [header[f"TTYPE{i}"].strip() for i in range(2, 8)] == ["II", "IQ", "IU", "QQ", "QU", "UU"]
    assert header["ORDERING"].strip() == "RING"


def test_products_that_are_there_are_kept_unless_told(tmp_path):
    made = recorded_with_gains(600)
    chosen = {"map": {"pixelization": "numbered"}, "noise": {"n_lag": 5}, **SHORT}
    first = run_on(made, tmp_path, **chosen)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = [dataclasses.replace(made[0], signals=(Samples(made[0].signals[0].values * 2),))]
    with pytest.raises(ConfigError, match="there already") as caught:
        run_on(other, tmp_path, **chosen)
    assert "small_" in caught.value.where and caught.value.mend
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    second = run_on(other, tmp_path, **chosen, products={"overwrite": True})
    assert sha_of(second) != sha_of(first) and sha_of(second, "hits") == sha_of(first, "hits")
    np.testing.assert_array_equal(
        read(tmp_path / "small_map.fits").values.ravel()[:5],
        2 * np.frombuffer(read_map_bytes(before, tmp_path), ">f8")[:5],
    )


def read_map_bytes(before, folder):
    """Return the pixels of the first map as big-endian doubles."""
    path = folder / "first.fits"
    path.write_bytes(before["small_map.fits"])
    values = read(path).values.astype(">f8").tobytes()
    path.unlink()
    return values


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    made = noisy_scans(600)
    run_on(made, tmp_path, **SHORT, map={"n_side": 16})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(ResourceError, match="cannot be written"):
            run_on(made, tmp_path, **SHORT, map={"n_side": 16}, products={"overwrite": True})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_products_chosen_are_the_ones_written(tmp_path):
    off = dict.fromkeys(("hits", "covariance", "rcond", "residual", "binned"), False)
    summary = run_on(noisy_scans(600), tmp_path, **SHORT, products=off)
    assert [product.kind for product in summary.products] == ["map"]
    summary = run_on(noisy_scans(600), tmp_path / "b", solver={"binned_only": True})
    assert {product.kind for product in summary.products} == KINDS - {"map", "residual"}
    assert summary.solver is None


def test_comparison_with_a_map(tmp_path):
    made = noisy_scans(900)
    run_on(made, tmp_path / "a", solver={"tolerance": 1e-10})
    reference = str(tmp_path / "a" / "small_map.fits")
    for number, ordering in enumerate(("nest", "ring")):
        summary = run_on(
            made, tmp_path / f"b{number}", solver={"tolerance": 1e-10}, map={"ordering": ordering},
            products={"compare": reference, "compare_limit": 1e-9},
        )  # fmt: skip
        assert summary.comparisons[0].max_abs == summary.comparisons[0].rms == 0
    with pytest.raises(ConfigError, match="other pixels"):
        run_on(made, tmp_path / "c", map={"n_side": 4}, products={"compare": reference})
    assert not list((tmp_path / "c").iterdir())  # told before there was a map
    found = read(tmp_path / "a" / "small_map.fits")
    nowhere = str(tmp_path / "nowhere.fits")
    header = {"names": found.names, "unit": "K_CMB", "run_id": "", "frame": found.frame}
    write_map(nowhere, np.full_like(found.values, np.nan), found.pixelization, **header)
    summary = run_on(made, tmp_path / "d", products={"compare": nowhere, "compare_binned": reference})
    assert [one.name for one in summary.comparisons] == ["binned map"]
    told = f"the map is not compared: {nowhere}: has no pixel in common with the map"
    assert summary.warnings.count(told) == 1 and (tmp_path / "d" / "small_map.fits").exists()


def test_pixelizations_of_a_patch(tmp_path):
    made = [compressed(np.random.default_rng(1), 400, 4, n_lag=5, speed=0.001)]
    for kind in ("car", "flat"):
        chosen = {"pixelization": kind, "resolution": 0.03}
        summary = run_on(made, tmp_path / kind, map=chosen, noise={"n_lag": 5})
        assert summary.totals.samples_used > 0 and summary.totals.samples_flagged < 1600
        hits = read(tmp_path / kind / "small_hits.fits").values
        assert np.nansum(hits) == 1600  # the box holds all samples
    n_side = config(map={"pixelization": "car", "resolution": 0.03}).map.n_side
    assert n_side is None


def old_file_stays(comm):
    out = Path(os.environ["PETAMAP_TEST_OUT"])
    made = one_detector(np.arange(9.0), np.arange(9) % 4)
    run_on([made], out, comm, map={"pixelization": "numbered", "stokes": "I"}, noise={"n_lag": 5})


def test_all_ranks_refuse_to_overwrite(tmp_path, monkeypatch):
    monkeypatch.setenv("PETAMAP_TEST_OUT", str(tmp_path))
    assert launch(old_file_stays, 1).code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ended = launch(old_file_stays, 3)
    assert ended.code == 2 and ended.err.count("is there already") == 1, ended.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
