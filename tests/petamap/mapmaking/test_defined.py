"""What cannot be mapped has a defined result and a warning, or one error that names the sample."""

import dataclasses
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import launch, run_ranks
from small_runs import one_detector, run_on
from small_systems import Bad, Models, Samples, dense, recorded

from petacomm.base.errors import ConfigError, DataError
from petamap.noise.model import InverseLags, OneOverF, TabulatedPsd
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.map_file import read_map
from petamap.sky.numbered import NumberedPixels

NUMBERED = {"map": {"pixelization": "numbered"}, "noise": {"n_lag": 5}}
INTENSITY = {"map": {"pixelization": "numbered", "stokes": "I"}, "noise": {"n_lag": 5}}


def read(out, kind="map"):
    """Return a product, (n_columns, n_pix), nan where nothing is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_map(out / f"small_{kind}.fits").values


def made_of(rng=0, n_det=2, n_samp=300, n_pix=4, **changes):
    return recorded(np.random.default_rng(rng), n_det, n_samp, n_pix, 5, **changes)


@pytest.mark.parametrize("ends", ["free", "zero"])
@pytest.mark.parametrize("flags", ["exact", "levels", "cut"])
@pytest.mark.parametrize("pointing", ["flagged", "outside"])
def test_nothing_to_map(tmp_path, flags, pointing, ends):
    made = made_of()
    if pointing == "flagged":
        made = dataclasses.replace(made, flags=(Bad(np.ones((2, 300), bool)),))
    else:
        made = dataclasses.replace(
            made, pointing=RecordedPixels(np.full((2, 300), -1, np.int32), NumberedPixels(4))
        )
    chosen = {**NUMBERED, "noise": {"n_lag": 5, "ends": ends}, "solver": {"flags": flags}}
    summary = run_on([made], tmp_path, **chosen)
    assert "no pixel can be solved for: the maps are empty" in summary.warnings
    assert any(text.startswith("no sample makes the map") for text in summary.warnings)
    assert summary.totals.samples_used == 0 and summary.totals.samples_flagged == 600
    assert summary.solver.converged and summary.solver.iterations == 0
    for kind in ("map", "binned", "residual", "covariance", "rcond"):
        assert np.isnan(read(tmp_path, kind)).all()


@pytest.mark.parametrize("ends", ["free", "zero"])
@pytest.mark.parametrize("kernel", ["model", "white"])
def test_one_sample(tmp_path, kernel, ends):
    made = one_detector([3.25], [2])
    chosen = {**INTENSITY, "noise": {"kernel": kernel, "n_lag": 5, "ends": ends}}
    summary = run_on([made], tmp_path, **chosen)
    np.testing.assert_allclose(read(tmp_path), [[np.nan, np.nan, 3.25, np.nan]], rtol=1e-12)
    np.testing.assert_array_equal(read(tmp_path, "binned"), [[np.nan, np.nan, 3.25, np.nan]])
    np.testing.assert_array_equal(read(tmp_path, "hits")[0, 2], 1)
    assert any("one sample" in warning for warning in summary.warnings)


def test_one_sample_of_three_unknowns_is_cut(tmp_path):
    summary = run_on([one_detector([3.25], [2])], tmp_path, **NUMBERED)
    assert np.isnan(read(tmp_path)).all()
    assert summary.totals.pixels_cut == summary.totals.pixels_observed == 1


def test_a_detector_that_is_flagged_throughout_adds_nothing(tmp_path):
    made = made_of(3)
    bad = np.zeros((2, 300), bool)
    bad[1] = True
    alone = dataclasses.replace(
        made, detectors=("d0",), flags=(),
        pointing=RecordedPixels(
            made.pointing._pixels(0, 0, 300)[None], NumberedPixels(4),
            angles=made.pointing._angles(0, 0, 300)[None],
            efficiencies=[made.pointing.efficiency(0)],
        ),
    )  # fmt: skip
    run_on([dataclasses.replace(made, flags=(Bad(bad),))], tmp_path / "two", **NUMBERED)
    run_on([alone], tmp_path / "one", **NUMBERED)
    np.testing.assert_allclose(read(tmp_path / "two"), read(tmp_path / "one"), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(read(tmp_path / "two", "hits"), read(tmp_path / "one", "hits"))


def test_pixels_hit_once_are_cut_for_three_unknowns(tmp_path):
    made = made_of(4, n_pix=6)
    pixels = np.stack([made.pointing._pixels(d, 0, 300) % 4 for d in range(2)])
    angles = np.stack([made.pointing._angles(d, 0, 300) for d in range(2)])
    pixels[0, 100], pixels[1, 200], pixels[1, 201] = 4, 5, 5
    made = dataclasses.replace(made, pointing=RecordedPixels(pixels, NumberedPixels(6), angles=angles))
    summary = run_on([made], tmp_path, **NUMBERED)
    assert np.isnan(read(tmp_path)[:, 4:]).all() and np.isfinite(read(tmp_path)[:, :4]).all()
    assert np.isnan(read(tmp_path, "covariance")[:, 4:]).all()
    np.testing.assert_array_equal(read(tmp_path, "hits")[0, 4:], [1, 2])
    assert summary.totals.pixels_cut == 2 and summary.totals.samples_flagged == 3
    assert any(warning.startswith("2 of 6 pixels are cut") for warning in summary.warnings)
    run_on([made], tmp_path / "zero", **{**NUMBERED, "noise": {"n_lag": 5, "ends": "zero"}})
    expected = dense([made], NumberedPixels(6), "IQU", 5, dead=(4, 5)).map().reshape(6, 3).T
    np.testing.assert_allclose(read(tmp_path / "zero")[:, :4], expected[:, :4], rtol=0, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kernel", ["model", "white"])
def test_a_sample_that_is_no_number_is_refused_by_name(tmp_path, value, kernel):
    made = made_of()
    made.signals[0].values[1, 222] = value
    with pytest.raises(DataError, match=f"is {value}") as caught:
        run_on([made], tmp_path, **{**NUMBERED, "noise": {"kernel": kernel, "n_lag": 5}})
    assert caught.value.where == "observation made, detector d1, sample 222"
    assert not list(tmp_path.iterdir())


def test_a_flagged_sample_may_be_anything(tmp_path):
    made = made_of()
    made.signals[0].values[1, 222] = np.nan
    bad = np.zeros((2, 300), bool)
    bad[1, 222] = True
    run_on([dataclasses.replace(made, flags=(Bad(bad),))], tmp_path, **NUMBERED)
    assert np.isfinite(read(tmp_path)).all()


@pytest.mark.parametrize(
    "model",
    [
        TabulatedPsd(np.array([0.1, 1.0, 5.0]), np.array([1.0, 0.0, 1.0])),
        TabulatedPsd(np.array([0.1, 1.0, 5.0]), np.array([1.0, np.nan, 1.0])),
        OneOverF(0.0),
        InverseLags(np.zeros(3)),
        InverseLags(np.array([1.0, np.inf])),
        InverseLags(np.array([1e-300])),
        InverseLags(np.array([1e300])),
    ],
)
@pytest.mark.parametrize("kernel", ["model", "white"])
def test_noise_that_is_none_is_refused_by_name(tmp_path, model, kernel):
    good = InverseLags(np.array([1.0, 0.1]))
    made = dataclasses.replace(made_of(), noise=Models(((good,), (model,))))
    with pytest.raises(DataError) as caught:
        run_on([made], tmp_path, **{**NUMBERED, "noise": {"kernel": kernel, "n_lag": 5}})
    assert "made" in caught.value.where and "d1" in caught.value.where


def test_no_noise_and_no_pointing_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="gives the noise"):
        run_on([dataclasses.replace(made_of(), noise=None)], tmp_path, **NUMBERED)
    with pytest.raises(ConfigError, match="gives the pointing"):
        run_on([dataclasses.replace(made_of(), pointing=None)], tmp_path, **NUMBERED)


def test_recorded_pixels_cannot_be_recomputed(tmp_path):
    with pytest.raises(ConfigError, match="recorded pixels"):
        run_on([made_of()], tmp_path, **NUMBERED, resources={"pointing": "recompute"})


def test_intervals_shorter_than_the_band(tmp_path):
    intervals = tuple((start, start + 1 + start % 4) for start in range(0, 300, 5))
    made = made_of(5, intervals=intervals)
    run_on([made], tmp_path, map={"pixelization": "numbered"}, noise={"n_lag": 5, "ends": "zero"})
    expected = dense([made], NumberedPixels(4), "IQU", 5).map().reshape(4, 3).T
    np.testing.assert_allclose(read(tmp_path), expected, rtol=0, atol=1e-7)
    summary = run_on([made], tmp_path / "free", **NUMBERED)
    assert summary.solver.converged and np.isfinite(read(tmp_path / "free")).all()
    assert summary.totals.samples_used == 2 * sum(b - a for a, b in intervals)


def test_no_solution_in_the_iterations_allowed_is_said(tmp_path):
    from petacomm.base.errors import ConvergenceError
    from petamap.data.run_summary import Summary

    short = {"tolerance": 1e-12, "max_iterations": 2}
    summary = run_on([made_of()], tmp_path, **NUMBERED, solver=short)
    assert not summary.solver.converged and any("not converged" in text for text in summary.warnings)
    with pytest.raises(ConvergenceError):
        run_on([made_of()], tmp_path / "b", **NUMBERED, solver=short | {"on_stall": "error"})
    assert not Summary.read(tmp_path / "b").solver.converged
    assert np.isfinite(read(tmp_path / "b")).all()


# --- one rank that fails ends all of them


def _spoilt(rank_of_sample):
    made = made_of(n_samp=9000)
    if rank_of_sample is not None:
        made.signals[0].values[1, rank_of_sample] = np.nan
    return made


def late_sample_is_not_finite(comm):
    run_on([_spoilt(8999)], comm.bcast(tempfile.mkdtemp()), comm, **NUMBERED)


def noise_of_the_last_detector_is_none(comm):
    made = dataclasses.replace(
        made_of(n_samp=9000), noise=Models(((InverseLags(np.ones(1)),), (OneOverF(-1.0),)))
    )
    run_on([made], comm.bcast(tempfile.mkdtemp()), comm, **NUMBERED)


def folder_cannot_be_made(comm):
    run_on([made_of()], "/proc/petamap/none", comm, **NUMBERED)


def pixel_outside_on_one_rank(comm):
    made = made_of(n_samp=9000)
    pixels = np.stack([made.pointing._pixels(d, 0, 9000) for d in range(2)])
    pixels[1, 8990] = 77
    made = dataclasses.replace(made, pointing=RecordedPixels(pixels, NumberedPixels(4)))
    run_on([made], comm.bcast(tempfile.mkdtemp()), comm, **NUMBERED)


FAULTS = {
    late_sample_is_not_finite: (3, "observation made, detector d1, sample 8999"),
    noise_of_the_last_detector_is_none: (3, "detector d1"),
    folder_cannot_be_made: (5, "/proc/petamap"),
    pixel_outside_on_one_rank: (3, "sample 8990"),
}


@pytest.mark.parametrize(
    ("function", "n_ranks"),
    cases(*((fault, 3) for fault in FAULTS), long=[(fault, 1) for fault in FAULTS]),
)
def test_one_message_ends_all_ranks(function, n_ranks):
    ended, (code, words) = launch(function, n_ranks), FAULTS[function]
    lines = [line for line in ended.err.splitlines() if line.startswith("petamap: error")]
    assert len(lines) == 1 and words in lines[0], ended.err
    assert "Traceback" not in ended.err and "RuntimeWarning" not in ended.err
    assert ended.code == code
    assert ended.seconds < 30  # a hang, not a slow machine


def nothing_to_map_on_ranks(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp()))
    for number, made in enumerate([one_detector([3.25], [2]), made_of(n_samp=3)]):
        summary = run_on([made], folder / str(number), comm, **INTENSITY)
        assert summary.solver.converged
    flagged = dataclasses.replace(made_of(), flags=(Bad(np.ones((2, 300), bool)),))
    for flags in ("exact", "cut"):
        summary = run_on([flagged], folder / flags, comm, **INTENSITY, solver={"flags": flags})
        assert summary.totals.samples_used == 0
    silent = dataclasses.replace(made_of(), signals=(Samples(np.zeros((2, 300))),))
    assert run_on([silent], folder / "silent", comm, **INTENSITY).solver.iterations == 0
    if comm.rank == 0:
        assert not np.nan_to_num(read(folder / "silent")).any()
        np.testing.assert_allclose(read(folder / "0"), [[np.nan, np.nan, 3.25, np.nan]])


def test_more_ranks_than_blocks():
    run_ranks(nothing_to_map_on_ranks, 3)
