"""The covariance of all pixels: against dense algebra, with gaps; the same on any ranks; what is refused."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from small_runs import noisy_scans, run_on
from small_systems import as_matrix, compressed, dense, make_system, operator_of

from petacomm.base.errors import ConfigError, ConvergenceError, DataError, ResourceError
from petamap.mapmaking import covariance
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.covariance import CovarianceColumns
from petamap.sky.covariance_file import read_pixel_covariance, write_pixel_covariance
from petamap.sky.healpix import Healpix

SKY = Healpix(2, nest=True)
OFF = dict.fromkeys(("hits", "covariance", "rcond", "residual", "binned"), False)


def scans(flagged=0.1):
    return compressed(np.random.default_rng(3), 3000, flagged=flagged)


def in_ring_order(matrix, system):
    """A of (pixels, stokes) in the system's order as (stokes, pixels) in rings."""
    order = np.argsort(SKY.reordered(system.keys))
    rows = (3 * order + np.arange(3)[:, None]).ravel()
    return matrix[np.ix_(rows, rows)]


def test_it_is_the_inverse_with_gaps_marginalised():
    system = make_system([scans()], SKY, n_lag=8)
    n = system.projection.n_local
    whole = as_matrix(operator_of(system), n, 3, system.shared.gaps.n_owned)
    assert len(whole) > 3 * n + 100
    expected = in_ring_order(np.linalg.inv(whole)[: 3 * n, : 3 * n], system)
    columns = CovarianceColumns(system)
    found = columns.solve(1e-10, 500).values
    assert columns.n == 3 * n >= 48 and np.all(np.diff(columns.pixels) > 0)
    scale = np.sqrt(expected.diagonal())
    np.testing.assert_allclose(
        found / np.outer(scale, scale), expected / np.outer(scale, scale), rtol=0, atol=1e-7
    )
    assert np.array_equal(found, found.T)


def test_it_is_the_covariance_of_good_samples():
    """(P^T C_good^-1 P)^-1, by NumPy from the time domain."""
    one = compressed(np.random.default_rng(3), 700, 2, flagged=0.05)
    system = make_system([one], SKY, n_lag=8, rcond_min=1e-3)
    dead = system.keys[system.statistics.dead]
    alone = dense([one], SKY, n_lag=8, dead=dead)
    noise = np.linalg.inv(alone.inverse)[np.ix_(alone.good, alone.good)]
    good = alone.response[alone.good]
    normal = good.T @ np.linalg.solve(noise, good)
    columns = CovarianceColumns(system)
    found = columns.solve(1e-10, 500).values
    nest = Healpix(2).reordered(columns.pixels)
    rows = (3 * nest + np.arange(3)[:, None]).ravel()
    expected = np.linalg.inv(normal[np.ix_(rows, rows)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def _result(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp()))
    reduction = "pairwise" if comm.size % 2 else "auto"
    changed = {"map": {"n_side": 2}, "solver": {"tolerance": 1e-4}, "comm": {"reduction": reduction}}
    done = run_on(noisy_scans(1500, 2), folder, comm, products=OFF | {"pixel_covariance": True}, **changed)
    found = [product.sha256 for product in done.products if product.kind == "pixel_covariance"]
    if comm.rank == 0:
        print("\nsha256", *found)


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=(2, 5)))
def test_same_bits_on_any_ranks(n_ranks, once=[]):  # noqa: B006
    ended = run_ranks(_result, n_ranks)
    digest = next(line for line in ended.out.splitlines() if line.startswith("sha256"))
    assert len(digest) > 60
    once.append(digest)
    assert set(once) == {digest}


def test_a_run_writes_it(tmp_path):
    on = {"map": {"n_side": 2}, "products": OFF | {"pixel_covariance": True}}
    done = run_on([scans()], tmp_path, noise={"n_lag": 8}, **on)
    (product,) = [product for product in done.products if product.kind == "pixel_covariance"]
    found = read_pixel_covariance(tmp_path / product.file)
    assert found.n_side == 2 and found.stokes == "IQU" and found.unit == product.unit == "K_CMB^2"
    assert found.run_id == done.run_id and np.all(np.linalg.eigvalsh(found.values) > 0)
    with pytest.raises(ConfigError, match="there already"):
        run_on([scans()], tmp_path, noise={"n_lag": 8}, **on)
    part, n = found.submatrix(found.pixels[[3, 7]]), len(found.pixels)
    assert part[1, 2] == found.values[7, n + 3] and part.shape == (6, 6)
    with pytest.raises(DataError, match="does not hold pixel 48"):
        found.submatrix(np.array([found.pixels[3], 48]))


def test_a_damaged_file_is_refused(tmp_path):
    found = tmp_path / "c.fits"
    run_on(
        [scans()], tmp_path, noise={"n_lag": 8}, map={"n_side": 1, "stokes": "I"}, run={"name": "c"},
        products=OFF | {"pixel_covariance": True},
    )  # fmt: skip
    path = tmp_path / "c_pixel_covariance.fits"
    write_pixel_covariance(found, read_pixel_covariance(path))
    raw = bytearray(path.read_bytes())
    raw[2 * 2880 + 100] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match="is no covariance"):
        read_pixel_covariance(path)
    with pytest.raises(DataError, match="no such file"):
        read_pixel_covariance(tmp_path / "none.fits")


def test_columns_that_miss_the_tolerance_by_rounding_are_kept(tmp_path):
    on = {"map": {"n_side": 2}, "products": OFF | {"pixel_covariance": True}, "noise": {"n_lag": 8}}
    solver = {"tolerance": 1e-15, "max_iterations": 60}
    done = run_on([scans()], tmp_path, solver=solver, **on)
    (text,) = [text for text in done.warnings if text.startswith("pixel covariance")]
    assert re.search(r"\d of 48 columns missed the tolerance 1e-15, by a factor of \d", text)
    assert "of pixel" in text
    loose = run_on([scans()], tmp_path / "loose", solver={"tolerance": 1e-10, "max_iterations": 500}, **on)
    found, expected = (
        read_pixel_covariance(tmp_path / folder / "small_pixel_covariance.fits") for folder in ("", "loose")
    )
    np.testing.assert_allclose(
        found.values, expected.values, rtol=0, atol=1e-7 * np.abs(expected.values).max()
    )
    assert not any("pixel covariance" in text for text in loose.warnings)
    with pytest.raises(ConvergenceError, match="columns missed the tolerance 1e-15"):
        run_on([scans()], tmp_path / "strict", solver=solver | {"on_stall": "error"}, **on)
    assert (tmp_path / "strict" / "small_pixel_covariance.fits").exists()


def test_pixels_that_are_not_solved_for_are_left_out(monkeypatch):
    system = make_system([scans()], SKY, n_lag=8)
    columns = CovarianceColumns(system)
    whole = columns.solve(1e-10, 500)
    solve_many = ConjugateGradients.solve_many

    def spoilt(self, rhs, *args, **kwargs):
        found = solve_many(self, rhs, *args, **kwargs)
        if rhs[1].pixels[columns._alive[columns._order[9]], 1]:  # Q of the tenth pixel
            found[1].converged, found[1].true_residual = False, 0.1
        return found

    monkeypatch.setattr(ConjugateGradients, "solve_many", spoilt)
    part = columns.solve(1e-10, 500)
    assert f"1 of 16 pixels are left out, not solved for: Q of pixel {columns.pixels[9]} (ring): 0.1" in (
        part.left_out
    )
    np.testing.assert_array_equal(part.pixels, np.delete(whole.pixels, 9))
    rows = np.delete(np.arange(48), [9, 25, 41])
    np.testing.assert_array_equal(part.values, whole.values[np.ix_(rows, rows)])


def test_what_cannot_be_is_refused(tmp_path, monkeypatch):
    on = {"noise": {"n_lag": 8}, "map": {"n_side": 2}, "products": {"pixel_covariance": True}}
    with pytest.raises(ConfigError, match="maximum-likelihood map"):
        run_on([scans()], tmp_path, **on, solver={"binned_only": True})
    with pytest.raises(ConvergenceError, match="of the covariance: residual"):
        run_on([scans()], tmp_path, **on, solver={"max_iterations": 2, "on_stall": "error"})
    kinds = {path.stem for path in tmp_path.glob("*.fits")}
    assert "small_map" in kinds and "small_pixel_covariance" not in kinds
    monkeypatch.setattr(covariance, "MOST_UNKNOWNS", 10)
    on["products"]["overwrite"] = True
    with pytest.raises(ConfigError, match="are too many for"):
        run_on([scans()], tmp_path, **on)
    monkeypatch.undo()
    monkeypatch.setattr(covariance, "available_bytes", lambda: 10**4)
    with pytest.raises(ResourceError, match="GB"):
        run_on([scans()], tmp_path, **on)
