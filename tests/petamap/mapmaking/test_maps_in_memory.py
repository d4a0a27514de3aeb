"""Products of a run without a folder: those that its files would have, to the bit, and no file."""

from dataclasses import replace

import numpy as np
import pytest
from mpi import run_ranks
from small_runs import config, noisy_scans, run_on, sha_of

from petacomm.base.errors import ConfigError, DataError
from petamap.data.config import SplitOptions, parse_config
from petamap.mapmaking.maps_in_memory import Maps
from petamap.mapmaking.run import run
from petamap.sky.covariance_file import read_pixel_covariance
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.sky.observation_matrix_file import read_observation_matrix
from petamap.templates.kinds import Baselines

ALL = {"filtered": True, "observation_matrix": True}
CHOICES = {
    "splits": (SplitOptions("halves", "time"),), "map": {"n_side": 2, "ordering": "ring"}, "products": ALL,
    "run": {"name": "small_run"},
}  # fmt: skip


def scans():
    return [one.__class__(**{**vars(one), "templates": (Baselines(),)}) for one in noisy_scans(1500, 2)]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return maps in memory and the folder of the same run, and the folder the first one ran in."""
    bare, out = tmp_path_factory.mktemp("bare"), tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(bare)
        found = run_on(scans(), None, **CHOICES)
    return found, run_on(scans(), out, **CHOICES), out, bare


def test_all_products_are_there_and_no_file(both):
    maps, _, out, bare = both
    assert isinstance(maps, Maps)
    assert not list(bare.iterdir())
    files = {path.name for path in out.glob("*.fits")}
    assert {f"small_run_{name}.fits" for name in maps} == files
    assert {"halves_1-2_null", "halves_1_map", "filtered"} <= set(maps)
    assert len(files) > 12


def test_maps_have_the_bits_of_files(both):
    maps, _, out, _ = both
    for name, product in maps.products.items():
        if not hasattr(product, "names"):
            continue
        there = read_map(out / f"small_run_{name}.fits")
        np.testing.assert_array_equal(product.values, there.values, err_msg=name)
        for part in ("pixelization", "names", "units", "frame", "polarization"):
            assert getattr(product, part) == getattr(there, part), (name, part)


def test_products_that_are_no_maps_are_those_of_files(both):
    maps, _, out, _ = both
    matrix = read_observation_matrix(out / "small_run_observation_matrix.fits")
    assert (maps["observation_matrix"] != matrix).nnz == 0
    assert maps["amplitudes"].templates == ["offsets"] * 8


def test_the_covariance_of_pixels_is_that_of_the_file(tmp_path):
    chosen = {"map": {"n_side": 1}, "products": {"pixel_covariance": True}}
    maps = run_on(noisy_scans(1500, 2), None, **chosen)
    run_on(noisy_scans(1500, 2), tmp_path, **chosen)
    there = read_pixel_covariance(tmp_path / "small_pixel_covariance.fits")
    np.testing.assert_array_equal(maps["pixel_covariance"].values, there.values)


def test_summaries_are_alike(both):
    maps, summary, _, _ = both
    mine, theirs = ({p.name: p.sha256 for p in one.products} for one in (maps.summary, summary))
    assert mine == theirs
    assert maps.summary.splits[0].parts == summary.splits[0].parts
    assert all(product.file == "" for product in maps.summary.products)


def test_attributes_name_the_usual_products(both):
    maps = both[0]
    assert maps.sky is maps["map"] and maps.hits is maps["hits"] and maps.rcond is maps["rcond"]
    assert maps.covariance.names == ("II", "IQ", "IU", "QQ", "QU", "UU")
    np.testing.assert_array_equal(maps.residual.values, maps.binned.values - maps.sky.values)
    text, html = repr(maps), maps._repr_html_()
    assert len(text.splitlines()) == 2 and "converged in" in text and "halves" in html
    with pytest.raises(ConfigError, match=r"no product 'hist'.*hits"):
        maps["hist"]


def test_a_binned_run_has_the_binned_map_for_its_sky():
    maps = run_on(noisy_scans(1500, 2), None, solver={"binned_only": True})
    assert maps.sky is maps["binned"]
    with pytest.raises(ConfigError, match="no 'residual'"):
        maps.residual  # noqa: B018


def test_a_pixelization_takes_the_place_of_the_configured_one():
    given = run(config(), observations=noisy_scans(1500, 2), pixelization=Healpix(4, nest=True))
    assert given.sky.pixelization == Healpix(4, nest=True)
    configured = run_on(noisy_scans(1500, 2), None, map={"n_side": 4})
    np.testing.assert_array_equal(given.sky.values, configured.sky.values)


def test_a_configuration_needs_no_source_beside_observations():
    text = "[map]\nn_side = 4\nordering = 'nest'\n"
    given = run(parse_config(text), observations=noisy_scans(1500, 2)[0])  # one without a list
    configured = run(config(), observations=noisy_scans(1500, 2)[:1], pixelization=Healpix(4, nest=True))
    np.testing.assert_array_equal(given.hits.values, configured.hits.values)
    with pytest.raises(ConfigError, match=r"there is no source.*observations="):
        run(parse_config(text))
    with pytest.raises(ConfigError, match=r"observation 0 is a ndarray .*array_observation"):
        run(parse_config(text), observations=[np.zeros(3)])
    with pytest.raises(ConfigError, match=r'config: is a str, .*load_config\("run.toml"\)'):
        run("run.toml")


def test_what_needs_a_folder_is_refused():
    for changes in ({"resources": {"time_limit": 60.0}}, {"resume": True}):
        with pytest.raises(ConfigError, match="saves nothing to go on from"):
            run_on(noisy_scans(1500, 2), None, **changes)


def on_ranks(comm):
    maps = run_on(noisy_scans(1500, 2), None, comm)
    alone = run_on(noisy_scans(1500, 2), None) if comm.size == 1 else None
    assert alone is None
    if comm.rank == 0:
        print(sha_of(maps.summary), maps.sky.values.shape)
        return
    assert not len(maps)
    with pytest.raises(DataError, match="rank 0"):
        maps.sky  # noqa: B018


def test_rank_0_has_the_maps():
    maps = run_on(noisy_scans(1500, 2), None)
    out = run_ranks(on_ranks, 3).out
    assert out.strip() == f"{sha_of(maps.summary)} {maps.sky.values.shape}"


def test_data_without_a_signal_are_warned_of():
    silent = [replace(one, signals=()) for one in noisy_scans(n_samp=600)]
    maps = run(config(), observations=silent)
    assert "no source gives a signal or noise" in " ".join(maps.summary.warnings)
