"""Maps of components and of bands, against dense matrices, in distribution and on several ranks."""

import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_systems import dense_joint, sharing
from mpi import run_ranks
from scipy import stats
from scipy.linalg import block_diag
from small_runs import config, noisy_scans, run_on
from small_systems import Models, Samples, dense, numbered, recorded, spinning
from stopping import StopAfter

from petacomm.base.errors import ConfigError, DataError, Interruption
from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mpi import SerialCommunicator
from petacomm.reduction import OwnedRows, ReductionPlan
from petacomm.sharing import IndexMap
from petamap.data.config import BandOptions, ComponentOptions
from petamap.data.observation import Observation
from petamap.data.parts import PartRuns, Parts
from petamap.data.selection import select_observations
from petamap.data.source import SourceContext
from petamap.mapmaking import checkpoint_pace
from petamap.mapmaking.coadd import read_run_map
from petamap.mapmaking.components import component_maps, set_up_components
from petamap.mapmaking.memory import component_bytes
from petamap.mapmaking.mixing import MixingMatrix
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.right_hand_side import right_hand_sides_of
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.system_options import SystemOptions
from petamap.noise.model import OneOverF
from petamap.noise.psd import noise_psd
from petamap.report.map_sheets import read_sheets
from petamap.report.run_page import write_report
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.sky.stokes import Stokes
from petamap.spectra.run_maps import RunMaps
from petamap.templates.kinds import Baselines

N_PIX, N_LAG = 9, 5
BAND_OF = (0, 0, 1, 1, 2)
FACTORS = np.array([[1.0, 0.3, 4.0], [1.0, 1.0, 1.0], [1.0, 3.1, 0.2]])


def three_bands():
    runs = [PartRuns.constant(k) for k in range(3)]
    return Parts(("low", "mid", "high"), lambda o, d: runs[BAND_OF[d]])


def _unpolarized(efficiency, detector):
    return 0.0 if detector == 4 else efficiency(detector)


def scans(seed=1, unpolarized_band=False, **changes):
    """Return two observations of five detectors in three bands."""
    rng = np.random.default_rng(seed)
    made = [
        recorded(rng, 5, 260, N_PIX, N_LAG, ((0, 150), (150, 260)), **changes),
        recorded(rng, 5, 200, N_PIX, N_LAG, name="two", uid=2, **changes),
    ]
    if unpolarized_band:
        for one in made:
            one.pointing.efficiency = partial(_unpolarized, one.pointing.efficiency)
    return made


def factors_of(n_components, stokes, polarization=1.0):
    factors = np.repeat(FACTORS[:, :n_components, None], len(stokes), axis=2)
    if len(stokes) > 1:
        factors[:, 1:, 1:] *= np.array([1.0, polarization, 1 / polarization])[:, None, None]
    return factors


def system_of(observations, factors, stokes, comm=None, **choices):
    options = SystemOptions(stokes=Stokes(stokes), n_lag=N_LAG, parts=three_bands(), **choices)
    names = ("cmb", "dust", "synchrotron")[: factors.shape[1]]
    return set_up_components(
        observations, numbered(N_PIX), options, factors, names, declared_model,
        comm or SerialCommunicator(), Timers(), SilentProgress(),
    )  # fmt: skip


def solved(system):
    """Return the right-hand side, the binned map and the solution."""
    (of_bands,) = right_hand_sides_of([system.bands])
    rhs, binned = component_maps(system, of_bands)
    return rhs, binned, system.solver().solve(rhs.unknowns, 1e-13, 800)


def bands_of_samples(observations):
    return np.concatenate(
        [
            np.full(stop - start, BAND_OF[detector])
            for one in observations
            for start, stop in one.intervals
            for detector in range(5)
        ]
    )


def dense_components(observations, factors, stokes):
    """Return what the equation of components is made of, by NumPy."""
    made, band = dense(observations, numbered(N_PIX), stokes, N_LAG), bands_of_samples(observations)
    columns = [made.response * np.tile(factors[band, c], (1, N_PIX)) for c in range(factors.shape[1])]
    made.response = np.concatenate(columns, axis=1)
    return made


@pytest.mark.parametrize("preconditioner", ["block-diagonal", "two-level"])
@pytest.mark.parametrize(("stokes", "n_components", "unpolarized"), [("I", 3, False), ("IQU", 2, True)])
def test_maps_are_those_of_dense_matrices(stokes, n_components, unpolarized, preconditioner):
    """With a band that alone says nothing of Q and U, and factors of their own for these."""
    observations = scans(unpolarized_band=unpolarized, flagged=0.05, outside=0.03)
    factors = factors_of(n_components, stokes, 1.3)
    system = system_of(observations, factors, stokes, preconditioner=preconditioner)
    _, binned, solution = solved(system)

    made = dense_components(observations, factors, stokes)
    expected = made.map().reshape(-1, len(stokes))
    np.testing.assert_array_equal(system.keys, np.arange(n_components * N_PIX))
    np.testing.assert_allclose(solution.map.pixels, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    weight = np.diag(made.inverse) * made.good
    normal = (made.response.T * weight) @ made.response
    simple = np.linalg.solve(normal, made.response.T @ (weight * made.data)).reshape(-1, len(stokes))
    np.testing.assert_allclose(binned, simple, rtol=0, atol=1e-10 * np.abs(simple).max())
    covariance = np.linalg.inv(normal).reshape(n_components, N_PIX, len(stokes), n_components, N_PIX, -1)
    for one, other in ((0, 0), (0, 1), (1, 0)):
        pixels = np.arange(N_PIX)
        block = covariance[one, pixels, :, other, pixels]
        found = system.covariance_of(one, other)
        np.testing.assert_allclose(found, block, rtol=0, atol=1e-10 * np.abs(block).max())


@pytest.mark.parametrize("preconditioner", ["block-diagonal", "two-level"])
def test_maps_with_templates_are_those_of_dense_matrices(preconditioner):
    """Offsets of the detectors of one observation; the other one has the means of the maps."""
    observations = scans(flagged=0.03)
    observations[0] = replace(observations[0], templates=(Baselines(),))
    factors = factors_of(2, "I")
    system = system_of(observations, factors, "I", preconditioner=preconditioner)
    _, _, solution = solved(system)
    made = dense_components(observations, factors, "I")
    lengths = [stop - start for start, stop in observations[0].intervals for _ in range(5)]
    columns = block_diag(*(np.ones((n, 1)) for n in lengths))
    columns = np.vstack([columns, np.zeros((len(made.data) - len(columns), columns.shape[1]))])
    made.response = np.hstack([made.response, columns])
    expected = made.map()[: 2 * N_PIX]
    np.testing.assert_allclose(
        solution.map.pixels[:, 0], expected, rtol=0, atol=1e-9 * np.abs(expected).max()
    )


@pytest.mark.parametrize("preconditioner", ["block-diagonal", "two-level"])
def test_noise_that_bands_share_is_weighed(preconditioner):
    observations = scans(seed=6, flagged=0.04)
    observations[0] = sharing(observations[0], np.random.default_rng(6))
    factors = factors_of(2, "I")
    system = system_of(observations, factors, "I", preconditioner=preconditioner)
    _, _, solution = solved(system)
    made, band = dense_joint(observations, "I", N_PIX), bands_of_samples(observations)
    made.response = np.concatenate([made.response * factors[band, c] for c in range(2)], axis=1)
    expected = made.map()
    np.testing.assert_allclose(
        solution.map.pixels[:, 0], expected, rtol=0, atol=1e-8 * np.abs(expected).max()
    )


def with_sky(observations, factors, values, stokes="IQU"):
    """Return observations whose data are a sky of components, (n_components, n_pix, n_stokes), alone."""
    made = dense_components(observations, factors, stokes)
    data, first, found = made.response @ values.ravel(), 0, []
    for one in observations:
        streams = np.zeros((5, one.n_samp))
        for start, stop in one.intervals:
            for detector in range(5):
                streams[detector, start:stop] = data[first : first + stop - start]
                first += stop - start
        found.append(replace(one, signals=(Samples(streams),)))
    return found


def test_components_without_noise_come_back():
    rng = np.random.default_rng(4)
    factors = factors_of(3, "IQU", 1.2)
    values = rng.standard_normal((3, N_PIX, 3))
    observations = with_sky(scans(unpolarized_band=False), factors, values)
    system = system_of(observations, factors, "IQU", rcond_min=1e-6)
    _, binned, solution = solved(system)
    expected = values.reshape(-1, 3)
    np.testing.assert_allclose(solution.map.pixels, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(binned, expected, rtol=0, atol=1e-9)


def test_chi_squared_of_noise_is_drawn_from_its_distribution():
    """m^T A m of maps of noise that is drawn with the very covariance of the model."""
    bare, factors = scans(seed=3), factors_of(2, "IQU")
    root = np.linalg.cholesky(np.linalg.inv(dense(bare, numbered(N_PIX), "IQU", N_LAG).inverse))
    values = []
    for seed in range(24):
        noise, first, made = root @ np.random.default_rng(seed).standard_normal(len(root)), 0, []
        for one in bare:
            streams = np.zeros((5, one.n_samp))
            for start, stop in one.intervals:
                for detector in range(5):
                    streams[detector, start:stop] = noise[first : first + stop - start]
                    first += stop - start
            made.append(replace(one, signals=(Samples(streams),)))
        rhs, _, solution = solved(system_of(made, factors, "IQU"))
        values.append(float((rhs.unknowns.pixels * solution.map.pixels).sum()))
    dof = 2 * N_PIX * 3
    assert 1e-3 < stats.chi2.cdf(sum(values), dof * len(values)) < 1 - 1e-3
    scatter = np.var(values) * len(values) / (2 * dof)
    assert 1e-3 < stats.chi2.cdf(scatter, len(values) - 1) < 1 - 1e-3


# --- the mixing matrix


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 10**6))
def test_mixing_matrix_and_its_transpose_are_adjoint(n_bands, n_components, n_stokes, width, seed):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n_bands, n_components, n_stokes))
    keys = np.flatnonzero(rng.random(n_bands * 20) < 0.6).astype(np.int64)
    mixing = MixingMatrix(factors, OwnedRows(ReductionPlan(IndexMap(SerialCommunicator(), keys))), 20)
    maps = rng.standard_normal((len(mixing.keys), n_stokes, width))
    bands = rng.standard_normal((len(keys), n_stokes, width))
    there, back = mixing.to_bands(maps), mixing.to_components(bands)
    sizes = np.abs(there).sum() * np.abs(bands).max(initial=1) + 1
    assert abs((there * bands).sum() - (maps * back).sum()) < 1e-12 * sizes


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-6, 1e6))
def test_inverses_and_conditions_do_not_depend_on_units(seed, unit):
    rng = np.random.default_rng(seed)
    factors = rng.uniform(0.5, 2.0, (4, 3, 3))
    scaled = factors * np.array([1.0, unit, 1.0])[:, None]
    keys = np.arange(40, dtype=np.int64)
    roots = rng.standard_normal((40, 3, 5))
    rows, columns = np.triu_indices(3)
    weights = (roots @ roots.transpose(0, 2, 1))[:, rows, columns]
    bands = rng.standard_normal((40, 3, 1))
    found, conditions = [], []
    for one in (factors, scaled):
        mixing = MixingMatrix(one, OwnedRows(ReductionPlan(IndexMap(SerialCommunicator(), keys))), 10)
        inverses, rcond = mixing.invert(mixing.weights(weights), 0.0)
        found.append(mixing.to_bands(mixing.multiply(inverses, mixing.to_components(bands))))
        conditions.append(rcond)
    assert found[0].any()
    np.testing.assert_allclose(*conditions, rtol=1e-6)
    np.testing.assert_allclose(*found, rtol=0, atol=1e-6 * np.abs(found[0]).max())


# --- whole runs

BANDS = (
    BandOptions("low", ("d0", "d1"), 90e9), BandOptions("mid", ("d2", "d3"), 150e9),
    BandOptions("high", ("d4", "d5"), 220e9),
)  # fmt: skip
COMPONENTS = (ComponentOptions("cmb", "cmb"), ComponentOptions("dust", "dust", polarization_beta=1.6))


def run_of(out, ranks=None, components=COMPONENTS, stop=None, resume=False, **changes):
    chosen = {"map": {"n_side": 4}, "solver": {"tolerance": 1e-7, "preconditioner": "two-level"}} | changes
    return run_on(
        noisy_scans(3000, 6), out, ranks, resume, stop, bands=BANDS, components=components, **chosen
    )


def bits_of(summary):
    return {product.file: product.sha256 for product in summary.products}


def ranks_agree(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    cases = {2: [(COMPONENTS, "owner"), ((), "auto")], 3: [(COMPONENTS, "pairwise")]}
    for number, (components, reduction) in enumerate(cases[comm.size]):
        chosen = {"comm": {"reduction": reduction, "distribution": "streams"}}
        found = run_of(folder / f"all{number}", comm, components, **chosen)
        if comm.rank == 0:
            assert bits_of(found) == bits_of(
                run_of(folder / f"one{number}", SerialCommunicator(), components)
            )
    if comm.rank == 0:
        shutil.rmtree(folder)


@pytest.mark.parametrize("n_ranks", cases(3, long=(2,)))
def test_the_same_bits_on_any_ranks(n_ranks):
    run_ranks(ranks_agree, n_ranks)


def test_the_same_bits_with_threads_and_recomputed_pointing(tmp_path):
    expected = bits_of(run_of(tmp_path / "one"))
    again = run_of(tmp_path / "two", resources={"pointing": "recompute", "threads": 2})
    assert bits_of(again) == expected


@pytest.mark.parametrize("components", [COMPONENTS, ()])
def test_a_run_stopped_again_and_again_has_the_same_bits(tmp_path, monkeypatch, components):
    monkeypatch.setattr(checkpoint_pace, "_LOOK_SECONDS", 0.0)
    expected, found, n_stops = bits_of(run_of(tmp_path / "whole", components=components)), None, 0
    while found is None:
        try:
            stop = StopAfter(6)
            found = run_of(tmp_path / "stopped", components=components, resume=n_stops > 0, stop=stop)
        except Interruption:
            n_stops += 1
            assert n_stops < 40
    assert n_stops > 2 and bits_of(found) == expected


def test_products_of_components(tmp_path):
    found = run_of(tmp_path, products={"sky": False, "report": False})
    assert {one.of for one in found.products} == {"cmb", "dust", "cmb-dust", ""}
    assert {one.kind for one in found.products if not one.of} == {"hits", "rcond"}
    dust, both = (read_map(tmp_path / f"small_{name}.fits") for name in ("dust_map", "cmb-dust_covariance"))
    own = read_map(tmp_path / "small_dust_covariance.fits")
    assert dust.names == ("I", "Q", "U") and len(both.names) == 9 and len(own.names) == 6
    known = np.isfinite(dust.values).all(axis=0)
    assert known.any()
    np.testing.assert_array_equal(known, np.isfinite(both.values).all(axis=0))


def test_one_of_several_maps_is_named_or_told(tmp_path):
    run_of(tmp_path, products={"report": False})
    maps = RunMaps(tmp_path, "dust")
    assert maps.path.name == "small_dust_map.fits"
    assert sorted(maps.variances) == ["I", "QU"]
    assert maps.hits is not None and maps.hits.sum() > 0
    with pytest.raises(ConfigError, match="a map of each band or component"):
        RunMaps(tmp_path)
    with pytest.raises(ConfigError, match="there is no map of 'tsz'"):
        RunMaps(tmp_path, "tsz")
    with pytest.raises(DataError, match="has maps of cmb, dust, not one of all data"):
        read_run_map(tmp_path)


def test_a_report_shows_the_maps_of_components(tmp_path):
    found = run_of(tmp_path)
    layers = [layer for sheet in read_sheets(found, tmp_path) for layer in sheet.layers]
    names = [layer.product for layer in layers]
    assert names.count("maximum-likelihood map of dust") == 3 and names.count("hits") == 1
    assert "small" in write_report(tmp_path).read_text()


def test_memory_is_planned_for_components():
    """At least the matrices, weights and vectors of the solver that are there at once."""
    n_rows, n_pixels = 3000, 1200
    assert component_bytes(n_rows, n_pixels, 0, 3) == 0
    for n in (1, 2, 3):
        matrices = 8 * n_pixels * 3 * n * (3 * n + 1) // 2
        vectors = 6 * 8 * n_pixels * 3 * n
        least = matrices + vectors + 8 * n_rows * 6
        assert least < component_bytes(n_rows, n_pixels, n, 3) < 4 * least


def test_a_band_has_the_map_that_it_has_alone(tmp_path):
    solver = {"tolerance": 1e-11, "rcond_solved": 1e-3}
    together = run_of(tmp_path / "all", components=(), solver=solver)
    assert together.solver.converged and not together.splits
    context = SourceContext(tmp_path)
    alone = select_observations(noisy_scans(3000, 6), context, observations=(), detectors=("d2", "d3"))
    run_on(alone, tmp_path / "one", map={"n_side": 4}, solver=solver)
    for kind, tolerance in (("hits", 0.0), ("covariance", 1e-12), ("binned", 1e-10), ("map", 1e-6)):
        found = read_map(tmp_path / "all" / f"small_mid_{kind}.fits").values
        expected = read_map(tmp_path / "one" / f"small_{kind}.fits").values
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.nanmax(np.abs(expected)))


@pytest.mark.parametrize("rcond_min", [1e-3, 0.0])
def test_pixels_that_too_few_bands_see_are_cut_and_told(tmp_path, rcond_min):
    made = noisy_scans(3000, 6)
    for one in made:  # the upper bands look elsewhere in the second half
        one.flags[0].values[2:, one.n_samp // 2 :] = True
    found = run_on(
        made, tmp_path, bands=BANDS, components=COMPONENTS, map={"n_side": 4},
        solver={"preconditioner": "block-diagonal", "rcond_min": rcond_min},
    )  # fmt: skip
    assert any("fewer bands see" in text for text in found.warnings)
    hits = read_map(tmp_path / "small_hits.fits").values[0]
    values = read_map(tmp_path / "small_cmb_map.fits").values[0]
    assert 0 < np.count_nonzero((hits > 0) & np.isnan(values)) < np.count_nonzero(hits > 0)


def test_a_component_without_polarization_has_none(tmp_path):
    dust = ComponentOptions("dust", "factors", factors=(0.5, 1.0, 2.0), polarized=False)
    run_of(tmp_path, components=(COMPONENTS[0], dust), products={"report": False})
    values = read_map(tmp_path / "small_dust_map.fits").values
    assert np.isfinite(values[0]).any()
    seen = np.isfinite(values[0])
    assert not np.nan_to_num(values[1:, seen]).any()
    assert np.nan_to_num(read_map(tmp_path / "small_cmb_map.fits").values[1:, seen]).any()


def test_factors_of_one_component_are_those_of_ordinary_maps(tmp_path):
    """One component of factor 1 in all bands is the map of all data."""
    run_of(tmp_path / "cmb", components=COMPONENTS[:1], solver={"tolerance": 1e-11})
    run_on(noisy_scans(3000, 6), tmp_path / "all", map={"n_side": 4}, solver={"tolerance": 1e-11})
    for kind in ("map", "binned", "covariance"):
        found = read_map(tmp_path / "cmb" / f"small_cmb_{kind}.fits").values
        expected = read_map(tmp_path / "all" / f"small_{kind}.fits").values
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.nanmax(np.abs(expected)))
    rcond = [read_map(tmp_path / n / "small_rcond.fits").values for n in ("cmb", "all")]
    np.testing.assert_allclose(*rcond, rtol=1e-9, atol=1e-12)


def two_skies(n_samp=6000):
    """Return an observation of pixels of which the last two detectors see thrice the signal, and noise."""
    models = Models(((OneOverF(1.0, 0.05, 1e-3, -1.0),),))
    bare = Observation(
        name="one", uid=3, n_samp=n_samp, sample_rate=5.0, detectors=("d0", "d1", "d2", "d3"),
        intervals=((0, n_samp),), pointing=spinning(n_samp, 0.21, 4, 5), frame="galactic", noise=models,
    )  # fmt: skip
    sky, seen = 30 * np.random.default_rng(2).standard_normal(12 * 2**2), np.zeros((4, n_samp))
    pixels, angles = np.empty(n_samp, np.int32), np.empty(n_samp, np.uint32)
    for detector in range(4):
        bare.pointing.expand(Healpix(2, nest=True), detector, 0, n_samp, pixels, angles, None)
        seen[detector] = sky[pixels] * (1 if detector < 2 else 3)
    return replace(bare, signals=(Samples(seen), SimulatedNoise(bare, models, 7, 0)))


@pytest.mark.parametrize("with_bands", [True, False])
def test_noise_is_estimated_with_maps_of_bands(with_bands):
    """One map of two skies leaves their difference in the streams, which is taken for noise."""
    bands = (BandOptions("one", ("d0", "d1")), BandOptions("two", ("d2", "d3"))) if with_bands else ()
    chosen = config(bands=bands, map={"n_side": 2, "stokes": "I"}, noise={"kernel": "estimate"})
    setup, observation = RunSetup(chosen, SerialCommunicator(), SilentProgress()), two_skies()
    setup.open(lambda _: [observation])
    setup.set_up()
    found = [setup.noise_estimate.model_of(observation, detector, 0) for detector in range(4)]
    model = observation.noise.noise_model(0, 0)
    ratios = [np.mean(psd.values / noise_psd(model, psd.frequencies)) for psd in found]
    if with_bands:
        np.testing.assert_allclose(ratios, 1.0, rtol=0, atol=0.1)
    else:
        assert min(ratios) > 2
