"""Filter-and-bin maps and their observation matrix: against dense algebra, and on any number of ranks."""

import dataclasses

import numpy as np
import pytest
from mpi import check_same_on_ranks
from scipy import sparse
from scipy.linalg import block_diag
from small_runs import noisy_scans, run_on
from small_systems import WHITE, Samples, compressed, dense, full_map, make_system, numbered, recorded

from petacomm.base.errors import ConfigError, DataError
from petamap.mapmaking import filter_and_bin
from petamap.mapmaking.filter_and_bin import FilterAndBin
from petamap.mapmaking.right_hand_side import binned_map, right_hand_side
from petamap.sky.healpix import Healpix
from petamap.sky.observation_matrix_file import read_observation_matrix
from petamap.templates.kinds import Baselines, Columns

INTERVALS = ((0, 140), (150, 300))


def made(seed, signal=None):
    """Return observations with templates, one without; their signals are replaced by those of `signal`."""
    rng = np.random.default_rng(seed)
    one = recorded(rng, 2, 300, 6, 5, INTERVALS, flagged=0.1, outside=0.05)
    templates = Baselines(6.0), Columns(rng.standard_normal((2, 300)))
    one = dataclasses.replace(one, templates=templates)
    return [one, recorded(rng, 1, 200, 6, 5, name="other", uid=2)]


def dense_parts(observations):
    """Return P, T, weights, good samples and data."""
    parts = dense(observations, numbered(6), "IQU", 5)
    columns, weights = [], []
    for one in observations:
        for interval, (start, stop) in enumerate(one.intervals):
            terms = [each.term(one, start, stop) for each in one.templates]
            matrices = [term.matrix(0, stop - start).toarray() for term in terms]
            for detector in range(one.n_det):
                columns.append(np.hstack(matrices or [np.zeros((stop - start, 0))]))
                lags = one.noise.noise_model(detector, interval).lags
                weights.append(np.full(stop - start, lags[0]))
    return parts.response, block_diag(*columns), np.concatenate(weights), parts.good, parts.data


def dense_filter(observations):
    """Return P^T W P, and P^T W F: those of good samples alone."""
    response, templates, weights, good, _ = dense_parts(observations)
    weighted = response.T * (weights * good)
    of_templates = templates.T * (weights * good)
    fit = np.linalg.lstsq(of_templates @ templates, of_templates, rcond=1e-12)[0]
    return weighted @ response, weighted - weighted @ templates @ fit


def test_equals_dense_algebra():
    observations = made(3)
    system = make_system(observations, numbered(6), **WHITE)
    found = full_map(system, FilterAndBin(system).map_of_data())
    normal, filtering = dense_filter(observations)
    expected = np.linalg.solve(normal, filtering @ dense_parts(observations)[4]).reshape(6, 3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_observation_matrix_equals_dense_algebra():
    observations = made(4)
    system = make_system(observations, numbered(6), **WHITE)
    filtering = FilterAndBin(system)
    columns = filtering.columns()
    filtering.fill(columns)
    rows, numbers, values = columns.triplets()
    found = sparse.csc_matrix((values, (rows, numbers)), (18, 18)).toarray()
    normal, with_filter = dense_filter(observations)
    expected = np.linalg.solve(normal, with_filter @ dense_parts(observations)[0])
    # the dense response has all Stokes parameters of a pixel side by side
    order = np.arange(18).reshape(6, 3).T.ravel()
    np.testing.assert_allclose(found, expected[np.ix_(order, order)], rtol=0, atol=1e-8)


def test_filtered_products_equal_dense_algebra():
    observations = made(7)
    system = make_system(observations, numbered(6), **WHITE)
    maps = [np.random.default_rng(k).standard_normal((6, 3)) for k in range(3)]
    seen, left = FilterAndBin(system).filtered([one[system.keys] for one in maps])
    normal, with_filter = dense_filter(observations)
    of_maps = with_filter @ dense_parts(observations)[0]
    for one, of_one, rest in zip(maps, seen, left, strict=True):
        for matrix, found in (normal, of_one), (of_maps, rest):
            expected = (matrix @ one.ravel()).reshape(6, 3)[system.keys]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def test_without_templates_it_is_the_binned_map():
    observations = [dataclasses.replace(one, templates=()) for one in made(5)]
    system = make_system(observations, numbered(6), **WHITE)
    expected = binned_map(system, right_hand_side(system))
    np.testing.assert_allclose(FilterAndBin(system).map_of_data(), expected, rtol=1e-12)


def test_templates_that_are_alike_do_no_harm():
    observations = made(6)
    twice = dataclasses.replace(observations[0], templates=2 * observations[0].templates[:1])
    once = dataclasses.replace(observations[0], templates=observations[0].templates[:1])
    maps = []
    for one in (once, twice):
        system = make_system([one, observations[1]], numbered(6), **WHITE)
        maps.append(FilterAndBin(system).map_of_data())
    np.testing.assert_allclose(maps[1], maps[0], rtol=0, atol=1e-8 * np.abs(maps[0]).max())


def _bits(comm):
    one = compressed(np.random.default_rng(8), n_samp=3000, n_det=3, flagged=0.05, speed=0.01)
    one = dataclasses.replace(one, templates=(Baselines(20.0),))
    system = make_system([one], Healpix(4, nest=True), comm, **WHITE)
    parts = comm.allgather((system.keys, FilterAndBin(system).map_of_data()))
    keys, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return values[np.argsort(keys)].tobytes()


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(_bits, n_ranks)


def test_products_of_a_run(tmp_path):
    """The matrix times a sky is the filtered map of that sky."""
    observations = [dataclasses.replace(one, templates=(Baselines(30.0),)) for one in noisy_scans()]
    chosen = {"map": {"n_side": 2}, "products": {"filtered": True, "observation_matrix": True}}
    summary = run_on(observations, tmp_path / "a", **chosen)
    kinds = [product.kind for product in summary.products]
    assert {"filtered", "observation_matrix", "map", "binned"} <= set(kinds)
    files = {product.kind: tmp_path / "a" / product.file for product in summary.products}
    matrix = read_observation_matrix(files["observation_matrix"])
    assert matrix.shape == (3 * 48, 3 * 48)
    with pytest.raises(DataError, match="no observation matrix"):
        read_observation_matrix(files["map"])
    sky = np.random.default_rng(1).standard_normal((3, 48))
    noiseless = []
    for one in observations:
        system = make_system([one], Healpix(2, nest=True), **WHITE)
        values = np.zeros((one.n_det, one.n_samp))
        for detector in range(one.n_det):
            pixels, angles = np.empty(one.n_samp, np.int32), np.empty(one.n_samp, np.uint32)
            one.pointing.expand(system.projection.pixelization, detector, 0, one.n_samp, pixels, angles)
            phi, efficiency = angles * (2 * np.pi / 2**32), one.pointing.efficiency(detector)
            values[detector] = sky[0, pixels] + efficiency * (
                np.cos(phi) * sky[1, pixels] + np.sin(phi) * sky[2, pixels]
            )
        noiseless.append(dataclasses.replace(one, signals=(Samples(values),)))
    system = make_system(noiseless, Healpix(2, nest=True), **WHITE)
    seen = full_map(system, FilterAndBin(system).map_of_data()).T.ravel()
    solved = np.isfinite(seen)
    np.testing.assert_allclose((matrix @ sky.ravel())[solved], seen[solved], rtol=0, atol=1e-6)


def test_matrix_without_pixels(tmp_path):
    """One detector sees each pixel at one angle: none is solved for."""
    one = recorded(np.random.default_rng(2), 1, 8, 48, 5)
    products = {"filtered": True, "observation_matrix": True}
    summary = run_on([one], tmp_path, map={"pixelization": "numbered"}, noise={"n_lag": 5}, products=products)
    assert summary.totals.pixels_cut == summary.totals.pixels_observed > 0
    assert any('map.stokes = "I" needs one' in text for text in summary.warnings)
    matrix = read_observation_matrix(tmp_path / "small_observation_matrix.fits")
    assert matrix.shape == (3 * 48, 3 * 48) and matrix.nnz == 0


def test_too_many_pixels_are_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(filter_and_bin, "MOST_UNKNOWNS", 10)
    with pytest.raises(ConfigError, match=r"pixels are too many for .* a map of at most 3\)"):
        run_on(noisy_scans(), tmp_path, map={"n_side": 2}, products={"observation_matrix": True})
    assert not list(tmp_path.glob("*.fits"))
