"""Tests of sky signal: scanned maps, Gaussian skies, point sources."""

import dataclasses
from pathlib import Path
from unittest import mock

import healpy
import numpy as np
import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st
from mpi import run_ranks

from petacomm.base.errors import ConfigError, DataError
from petamap.data.observation import Observation, add_signals, share_signals
from petamap.data.sample_filter import FilteredSignal
from petamap.data.source import SourceContext
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.simulation import sky_spectra
from petamap.simulation.point_sources import PointSourcesOptions, PointSourcesSource
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky import Sky, SkySignal
from petamap.simulation.sky_sources import (
    SkyMapOptions,
    SkyMapSource,
    SkySpectraOptions,
    SkySpectraSource,
)
from petamap.simulation.sky_spectra import alm_indices, gaussian_alm, read_spectra, smooth_alm, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.sky.ring_distribution import RingDistribution

CONTEXT = SourceContext(folder=Path(), seed=3, realization=5)
N_SAMP = 20_000
RNG = np.random.default_rng(8)


def pointing(n_samp=N_SAMP):
    """Return a spinning boresight over much of the sky with two detectors, one with leakage."""
    step = 50
    t = np.arange(0, n_samp + 2 * step, step)
    spin, tilt, drift = 2 * np.pi * t / 3000, 0.9, 2 * np.pi * t / 40_000
    about_z = [np.stack((0 * t, 0 * t, np.sin(a / 2), np.cos(a / 2)), axis=1) for a in (drift, spin)]
    about_y = np.array([0, np.sin(tilt / 2), 0, np.cos(tilt / 2)])
    quaternions = product(product(product(about_z[0], about_y), about_z[1]), about_y)
    detectors = [[0, 0, 0, 1], [0.01, 0.02, np.sin(0.3), np.cos(0.3)]]
    return CompressedPointing(
        Boresight(quaternions, n_samp, spacing=step), np.array(detectors), epsilon=[0.0, 0.1]
    )


def product(a, b):
    ax, ay, az, aw = np.moveaxis(np.asarray(a), -1, 0)
    bx, by, bz, bw = np.moveaxis(np.asarray(b), -1, 0)
    return np.stack(
        (
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ),
        axis=-1,
    )


LOOK = pointing()


def observation(**changes):
    fields = {
        "name": "scan",
        "uid": 9,
        "n_samp": N_SAMP,
        "sample_rate": 10.0,
        "detectors": ("a", "b"),
        "pointing": LOOK,
    }
    return Observation(**(fields | changes))


def read(signal, start=0, stop=N_SAMP, detector=1):
    out = np.zeros(stop - start)
    signal.add_signal(detector, start, stop, out)
    return out


def response(detector):
    directions, angles = LOOK.directions(detector, 0, N_SAMP)
    phi = angles * (2 * np.pi / 2**32)
    e = LOOK.efficiency(detector)
    return directions, np.stack((np.ones(N_SAMP), e * np.cos(phi), e * np.sin(phi)))


@pytest.mark.parametrize("interpolate", [False, True])
@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("n_stokes", [1, 3])
def test_scanning_a_map_against_healpy(interpolate, nest, n_stokes):
    n_side = 16
    values = RNG.standard_normal((n_stokes, 12 * n_side**2))
    signal = SkySignal(Sky(Healpix(n_side, nest), lambda: values), LOOK, interpolate)
    directions, weights = response(1)
    theta, phi = healpy.vec2ang(directions)
    if interpolate:
        seen = np.array([healpy.get_interp_val(part, theta, phi, nest=nest) for part in values])
    else:
        seen = values[:, healpy.vec2pix(n_side, *directions.T, nest=nest)]
    expected = np.sum(weights[:n_stokes] * seen, axis=0)
    # an angle that is read along an arc may differ in the last of its 32 bits
    atol = 1e-9 if interpolate else 1e-12 if n_stokes == 1 else 1e-8
    np.testing.assert_allclose(read(signal), expected, rtol=0, atol=atol)


def test_sample_ranges_give_the_same_bits():
    values = RNG.standard_normal((3, 12 * 8**2))
    for interpolate in (False, True):
        signal = SkySignal(Sky(Healpix(8), lambda: values), LOOK, interpolate)
        parts = [read(signal, a, b) for a, b in ((0, 1), (1, 300), (300, 9999), (9999, N_SAMP))]
        assert np.array_equal(np.concatenate(parts), read(signal))


def random_sky(n_side, n_stokes):
    values = RNG.standard_normal((n_stokes, 12 * n_side**2))
    return Sky(Healpix(n_side), lambda: values)


class Ramp:
    """Signal without batches."""

    def add_signal(self, detector, start, stop, out):
        out += 1e-3 * np.arange(start, stop)


def test_batches_give_the_same_bits():
    skies = [
        SkySignal(random_sky(n_side, n_stokes), look, four)
        for n_side, n_stokes, look, four in (
            (8, 3, LOOK, False), (8, 3, LOOK, False), (16, 3, LOOK, False), (8, 1, LOOK, False),
            (8, 3, LOOK, True), (8, 3, pointing(), False), (8, 3, LOOK, True), (8, 3, LOOK, False),
        )
    ]  # fmt: skip
    looks = []
    datasets = [(Ramp(), one, Ramp()) for one in skies[:3]] + [(one, Ramp()) for one in skies[3:]] + [()]
    shared = SkySignal.add_signal_batch

    def watched(found, *others):
        looks.append(len(found))
        shared(found, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SkySignal, "add_signal_batch", staticmethod(watched))
        outs = np.zeros((len(datasets), 9500))
        add_signals(datasets, 1, 300, 9800, list(outs))
    # batches: signals with the same position and the same key
    assert sorted(looks) == [1, 1, 1, 1, 2, 2]
    for signals, together in zip(datasets, outs, strict=True):
        alone = np.zeros(9500)
        for signal in signals:
            signal.add_signal(1, 300, 9800, alone)
        np.testing.assert_array_equal(together, alone)


def test_pixel_without_value():
    values = np.zeros((1, 12 * 8**2))
    pixels = np.empty(N_SAMP, np.int32)
    LOOK.expand(Healpix(8), 1, 0, N_SAMP, pixels, None)
    values[0, pixels[12_345]] = np.nan
    first = int(np.flatnonzero(pixels == pixels[12_345])[0])
    signal = SkySignal(Sky(Healpix(8), lambda: values), LOOK, where="scan")
    with pytest.raises(DataError, match=f"scan, detector 1, sample {first}: looks at a pixel"):
        read(signal)


class RecordedGains:
    """Pointing with gains that vary from sample to sample."""

    has_gains, n_samp, n_det = True, N_SAMP, 1
    gains = RNG.random(N_SAMP).astype(np.float32)

    def intensity(self, detector):
        return 1.0

    def efficiency(self, detector):
        return 0.5

    def expand(self, pixelization, detector, start, stop, pixels, angles, gains=None):
        pixels[:] = np.where(np.arange(start, stop) % 3 == 0, -1, 7)
        if angles is not None:
            angles[:] = 2**30
        gains[:] = self.gains[start:stop]


def test_gains_and_samples_outside_the_map():
    values = np.arange(3)[:, None] + np.zeros((3, 12)) + 1.0
    found = read(SkySignal(Sky(Healpix(1), lambda: values), RecordedGains()), detector=0)
    assert not found[::3].any()
    np.testing.assert_allclose(found[1::3], RecordedGains.gains[1::3] * (1 + 0.5 * 3.0), rtol=1e-7)


def test_units_of_map_files(tmp_path):
    values = RNG.standard_normal((3, 12 * 8**2))
    write_map(
        tmp_path / "sky.fits", values, Healpix(8), names="IQU", unit="mK_CMB", run_id="x", frame="galactic"
    )
    options = SkyMapOptions(map="sky.fits", scale=2.0)
    (found,) = SkyMapSource(options, SourceContext(folder=tmp_path)).extend([observation()])
    direct = SkySignal(Sky(Healpix(8), lambda: 2e-3 * values), LOOK)
    np.testing.assert_allclose(read(found.signals[0]), read(direct), rtol=1e-12, atol=1e-18)


def test_invalid_map_sources(tmp_path):
    values = np.zeros((1, 12))
    write_map(
        tmp_path / "hits.fits", values, Healpix(1), names=["HITS"], unit="", run_id="x", frame="galactic"
    )
    write_map(
        tmp_path / "i.fits", values, Healpix(1), names=["I"], unit="K_CMB", run_id="x", frame="galactic"
    )
    context = SourceContext(folder=tmp_path)

    def extend(name, one, **options):
        return SkyMapSource(SkyMapOptions(map=name, **options), context).extend([one])

    with pytest.raises(DataError, match="HITS"):
        extend("hits.fits", observation())
    with pytest.raises(ConfigError, match="no pointing"):
        extend("i.fits", observation(pointing=None))
    with pytest.raises(ConfigError, match="'K_CMB', scan in 'Jy/beam'"):
        extend("i.fits", observation(unit="Jy/beam"))
    write_map(
        tmp_path / "rj.fits", values, Healpix(1), names=["I"], unit="mK_RJ", run_id="x", frame="galactic"
    )
    with pytest.raises(
        ConfigError, match=r"'mK_RJ', scan in 'K_CMB' .multiply its values by .e\^x - 1"
    ) as caught:
        extend("rj.fits", observation())
    assert "56.79 GHz" in caught.value.mend
    with pytest.raises(ConfigError, match="galactic, the pointing of scan equatorial"):
        extend("i.fits", observation(frame="equatorial"))


def test_the_remedy_for_rayleigh_jeans_is_the_ratio_of_temperatures():
    from astropy import units

    x = 143 / 56.79
    factor = (np.exp(x) - 1) ** 2 / (x**2 * np.exp(x))
    convert = units.thermodynamic_temperature(143 * units.GHz, 2.7255 * units.K)
    per_k = (1 * units.K).to(units.Jy / units.sr, equivalencies=units.brightness_temperature(143 * units.GHz))
    assert factor == pytest.approx(per_k.to_value(units.K, equivalencies=convert), rel=1e-4)


def test_wmap_maps_of_the_package():
    folder = Path(__file__).parents[3] / "src/petamap/examples/planck_lfi"
    options = SkyMapOptions(map="wmap_w_n32.fits", unit="mK_CMB", polarization="COSMO", frame="galactic")
    (found,) = SkyMapSource(options, SourceContext(folder=folder)).extend([observation()])
    reference = healpy.read_map(folder / "wmap_w_n32.fits", field=(0, 1, 2), dtype=np.float64) * 1e-3
    np.testing.assert_allclose(found.signals[0].sky.values.T, reference, rtol=1e-6)
    assert 3e-5 < read(found.signals[0]).std() < 3e-3


def words(seed=1):
    return np.stack([random_stream(Purpose.SKY, seed, 0, detector=k) for k in range(3)])


def test_planck_spectra_of_the_package():
    spectra = read_spectra("planck2018") * 1e12
    l = np.arange(2001.0)  # noqa: E741
    d = l * (l + 1) * spectra[0] / (2 * np.pi)
    assert spectra.shape == (4, 2001)
    assert d.argmax() == 221 and d.max() == pytest.approx(5729.25, rel=1e-5)
    assert spectra[0, 2] == pytest.approx(1065.0374, rel=1e-5)
    assert spectra[3, 2] == pytest.approx(2.7421513, rel=1e-5)


def test_spectra_of_healpy(tmp_path):
    spectra = read_spectra("planck2018")[:, :100] * 1e12
    healpy.write_cl(str(tmp_path / "cl.fits"), spectra, dtype=np.float64)
    np.testing.assert_allclose(read_spectra(tmp_path / "cl.fits"), spectra * 1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("# L TT\n0 1\n1 nan\n", "l = 1"),
        ("# L TT EE BB TE\n2 1 1 1 2\n", "TE"),
        ("# L TT\n0 1\n2 1\n", "count up"),
        ("# L TT\n0 x\n", "no table"),
        ("# L EE\n0 1\n", "no TT"),
        ("# L TT\n0 1 2\n", "columns"),
    ],
)
def test_invalid_spectra(tmp_path, text, word):
    (tmp_path / "dl.txt").write_text(text)
    with pytest.raises(DataError, match=word):
        read_spectra(tmp_path / "dl.txt")


def test_spectra_of_the_coefficients():
    spectra = read_spectra("planck2018")
    l_max = 600
    alm = gaussian_alm(spectra, words(), l_max)
    found = healpy.alm2cl(alm)[[0, 1, 2, 3]]
    band = np.arange(100, l_max)
    for row, got in enumerate(found[:3]):
        ratio = (got[band] / spectra[row, band]).mean()
        assert abs(ratio - 1) < 4 * np.sqrt(np.sum(2 / (2 * band + 1))) / len(band)
    correlation = found[3][band] / np.sqrt(found[0][band] * found[1][band])
    expected = spectra[3, band] / np.sqrt(spectra[0, band] * spectra[1, band])
    assert np.corrcoef(correlation, expected)[0, 1] > 0.95
    assert np.all(alm[:, : l_max + 1].imag == 0)


def test_coefficients_do_not_depend_on_l_max():
    spectra = read_spectra("planck2018")
    few, many = gaussian_alm(spectra, words(), 20), gaussian_alm(spectra, words(), 50)
    m, l = alm_indices(50)  # noqa: E741
    assert np.array_equal(many[:, l <= 20], few)
    assert m[-1] == l[-1] == 50


def test_synthesis_and_beam_against_healpy():
    n_side, l_max, fwhm = 16, 40, 0.05
    alm = gaussian_alm(read_spectra("planck2018"), words(), l_max)
    expected = np.array(healpy.alm2map(alm, n_side, lmax=l_max, fwhm=fwhm, pol=True))
    found = synthesize(smooth_alm(alm, l_max, fwhm), l_max, n_side)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def spectra_source(context=CONTEXT, **options):
    return SkySpectraSource(SkySpectraOptions(n_side=16, **options), context)


def test_sky_is_shared_and_made_once():
    found = spectra_source().extend([observation(), observation(name="next", uid=10)])
    assert found[0].signals[0].sky is found[1].signals[0].sky
    assert np.array_equal(read(found[0].signals[0]), read(found[1].signals[0]))
    assert 5e-5 < read(found[0].signals[0]).std() < 3e-4


def share_skies(comm):
    """Check that the ranks of a node have a sky once, if none had it before."""
    signals = spectra_source().extend([observation()])[0].signals
    alone = [read(signal) for signal in signals]
    (again,) = spectra_source().extend([observation()])
    filtered = FilteredSignal(again.signals[0], (None, None), N_SAMP)
    share_signals([[signals], [(filtered,)]], comm)
    sky = again.signals[0].sky
    assert np.array_equal(read(filtered), alone[0])
    node = comm.node()
    for one, shared in ((signals[0].sky, False), (sky, node.size > 1)):
        node.barrier()
        if node.rank == 0:
            one.values[0, 0] = 77
        node.barrier()
        assert (one.values[0, 0] == 77) == (shared or node.rank == 0)

    def fail():
        raise DataError("no such map")

    broken = Sky(Healpix(1), fail)
    with pytest.raises(DataError, match="no such map"):
        broken.share(comm)
        _ = broken.values


def check_rings(comm):
    """Check that ranks and threads make their rings of a sky as one thread makes all of them."""
    whole, rings = spectra_source().make(), RingDistribution(16, comm)
    for n_threads in 1, 2, 3:
        source = spectra_source(dataclasses.replace(CONTEXT, n_threads=n_threads))
        found = np.full((3, 12 * 16**2), np.nan)
        for part in source.make_rings(rings):
            found[part.columns, rings.pixels_of(part.rings)] = part.values
        assert np.array_equal(found[:, rings.pixels], whole[:, rings.pixels])


@pytest.mark.parametrize("n_ranks", cases(2, long=[1, 5]))
def test_rings_of_a_sky_have_its_bits(n_ranks):
    run_ranks(check_rings, n_ranks)


@given(l_max=st.integers(0, 60), at_once=st.integers(1, 4000), data=st.data())
def test_coefficients_of_orders_are_those_of_all(l_max, at_once, data):
    spectra = np.ones((4, l_max + 1)) * [[2.0], [1.0], [0.5], [0.3]]
    orders = np.array(data.draw(st.sets(st.integers(0, l_max)).map(sorted)), np.int64)
    whole, (m, _) = gaussian_alm(spectra, words(), l_max), alm_indices(l_max)
    with mock.patch.object(sky_spectra, "_AT_ONCE", at_once):
        found = gaussian_alm(spectra, words(), l_max, orders)
    assert np.array_equal(found, whole[:, np.isin(m, orders)])


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_ranks_of_a_node_share_a_sky(n_ranks, monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(share_skies, n_ranks)


def test_realizations():
    later = SourceContext(folder=Path(), seed=3, realization=6)
    assert not np.array_equal(spectra_source().make(), spectra_source(later).make())
    fixed = spectra_source(fixed=True).make()
    assert np.array_equal(fixed, spectra_source(later, fixed=True).make())


def test_l_max_beyond_the_spectra():
    with pytest.raises(ConfigError, match="end at 2000"):
        spectra_source(l_max=2001)


def test_point_sources_against_the_distance():
    directions, _ = response(1)
    (lon1, lat1), (lon2, lat2) = np.transpose(healpy.vec2ang(directions[[5000, 17_000]], lonlat=True))
    options = PointSourcesOptions(
        sources=(f"{lon1} deg, {lat1 + 1} deg, 1 mK, 3 deg", f"{lon2} deg, {lat2} deg, -0.5, 90 arcmin"),
        scale=2.0,
    )
    (found,) = PointSourcesSource(options, CONTEXT).extend([observation()])
    expected = np.zeros(N_SAMP)
    for lon, lat, amplitude, fwhm in ((lon1, lat1 + 1, 2e-3, 3.0), (lon2, lat2, -1.0, 1.5)):
        centre = healpy.ang2vec(lon, lat, lonlat=True)
        distance = 2 * np.arcsin(np.linalg.norm(directions - centre, axis=1) / 2)
        expected += amplitude * np.exp(-4 * np.log(2) * 2 * (1 - np.cos(distance)) / np.radians(fwhm) ** 2)
    seen = read(found.signals[0])
    assert np.abs(expected).max() > 0.3
    np.testing.assert_allclose(seen, expected, rtol=1e-9, atol=1e-15)
    assert np.array_equal(np.concatenate([read(found.signals[0], 0, 77), read(found.signals[0], 77)]), seen)


@pytest.mark.parametrize(
    "text",
    ["1 deg, 2 deg, 1 mK", "1 deg, 95 deg, 1 mK, 1 deg", "1 deg, 2 deg, 1 mK, 0 deg", "1 m, 2 deg, 1, 1 deg"],
)
def test_invalid_point_sources(text):
    with pytest.raises(ConfigError):
        PointSourcesSource(PointSourcesOptions(sources=(text,)), CONTEXT)


def test_only_chosen_detectors_see_a_sky():
    made = observation()
    (some,) = spectra_source(detectors=(made.detectors[0],)).extend([made])
    (every,) = spectra_source().extend([made])
    seen = read(some.signals[0], detector=0)
    assert seen.any() and np.array_equal(seen, read(every.signals[0], detector=0))
    assert not read(some.signals[0], detector=1).any()
    with pytest.raises(ConfigError, match="no detector 'x'"):
        spectra_source(detectors=("x",)).extend([made])
