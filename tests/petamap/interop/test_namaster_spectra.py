"""NaMaster's fields, bins and workspaces: the same pseudo-spectra, couplings and bandpowers as petamap's."""

import healpy as hp
import numpy as np
import pytest

pytest.importorskip("pymaster", reason="no pymaster: make test-interop has one")

import pymaster as nmt

import petamap
from petamap.interop.namaster import (
    bandpowers_of_workspace,
    binning_of_bins,
    coupling_of_workspaces,
    harmonics_of_field,
    namaster_bins,
    namaster_field,
    namaster_workspace,
)
from petamap.spectra.coupling import mode_coupling
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.master import MasterEstimator
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.transforms import weighted_harmonics

N_SIDE = 32
BINNING = Binning.linear(2, 61, 6)
L_MAX = BINNING.l_max


@pytest.fixture(scope="module")
def sky():
    """Return a nested map of I, Q, U, of which a part was not observed, and weights."""
    rng = np.random.default_rng(1)
    l = np.arange(96.0)  # noqa: E741
    spectrum = 1e-9 / (l + 10) ** 2
    alm = np.stack([hp.synalm(spectrum, lmax=95) * one for one in rng.uniform(0.5, 2, 3)])
    pixels = petamap.Healpix(N_SIDE)
    seen = pixels.directions_of(np.arange(pixels.n_pix))[:, 2] > -0.3
    weights = petamap.apodize(seen.astype(float), pixels, np.radians(15))
    values = np.where(seen, hp.alm2map(alm, N_SIDE, lmax=95), np.nan)
    order = petamap.Healpix(N_SIDE, nest=True).reordered(np.arange(pixels.n_pix))
    nested = petamap.SkyMap(
        values[:, order], petamap.Healpix(N_SIDE, nest=True), tuple("IQU"), ("K_CMB",) * 3
    )
    return nested, weights[order]


def fields(sky):
    whole, weights = sky
    return namaster_field(whole["I"], weights, l_max=L_MAX), namaster_field(
        whole["Q", "U"], weights, l_max=L_MAX
    )


def measured(sky):
    """Return petamap's coefficients to the l_max of the bins, iterated as NaMaster does, and the coupling."""
    whole, weights = sky
    found = weighted_harmonics(whole.values, whole.pixelization, weights, l_max=L_MAX, iterations=3)
    return found, mode_coupling(found)


def test_bandpowers_are_the_same(sky):
    harmonics, coupling = measured(sky)
    pseudo = pseudo_spectra(harmonics)
    ours = MasterEstimator(coupling, BINNING, pseudo.names).bandpowers(pseudo)
    temperature, polarization = fields(sky)
    pairs = {"TT": (temperature, temperature), "TE": (temperature, polarization)}
    for first, (one, other) in {**pairs, "EE": (polarization, polarization)}.items():
        workspace = namaster_workspace(one, other, BINNING)
        theirs = bandpowers_of_workspace(
            workspace, workspace.decouple_cell(nmt.compute_coupled_cell(one, other)), BINNING, first
        )
        for name in set(theirs.names) & set(ours.names):
            scale = np.abs(ours["EE"]).max()
            np.testing.assert_allclose(theirs[name], ours[name], rtol=0, atol=2e-6 * scale, err_msg=name)
        assert theirs.windows.shape == (len(theirs.names), BINNING.n, len(theirs.names), L_MAX + 1)


def test_petamaps_coupling_in_a_workspace(sky):
    _, coupling = measured(sky)
    temperature, polarization = fields(sky)
    for one, other in ((temperature, temperature), (temperature, polarization), (polarization, polarization)):
        theirs = namaster_workspace(one, other, BINNING)
        ours = namaster_workspace(one, other, BINNING, coupling)
        scale = np.abs(theirs.get_coupling_matrix()).max()
        np.testing.assert_allclose(
            ours.get_coupling_matrix()[50:, 50:],
            theirs.get_coupling_matrix()[50:, 50:],
            rtol=0,
            atol=1e-6 * scale,
        )
        pseudo = nmt.compute_coupled_cell(one, other)
        np.testing.assert_allclose(ours.decouple_cell(pseudo), theirs.decouple_cell(pseudo), rtol=1e-5)


def test_couplings_of_workspaces_are_petamaps(sky):
    harmonics, coupling = measured(sky)
    temperature, polarization = fields(sky)
    pairs = {"TT": (temperature, temperature), "TE": (temperature, polarization)}
    pairs |= {"ET": (polarization, temperature), "EE": (polarization, polarization)}
    made = {first: namaster_workspace(*pair, BINNING) for first, pair in pairs.items()}
    found = coupling_of_workspaces(**made)
    scale = np.abs(coupling.matrices).max()
    np.testing.assert_allclose(
        found.matrices[:, 2:, 2:],
        coupling.matrices[:, 2 : L_MAX + 1, 2 : L_MAX + 1],
        rtol=0,
        atol=1e-6 * scale,
    )
    pseudo = pseudo_spectra(harmonics)
    again = MasterEstimator(found, BINNING, pseudo.names).bandpowers(pseudo)
    ours = MasterEstimator(coupling, BINNING, pseudo.names).bandpowers(pseudo)
    np.testing.assert_allclose(again["BB"], ours["BB"], rtol=1e-4)
    with pytest.raises(petamap.ConfigError, match="l_max"):
        coupling_of_workspaces()
    with pytest.raises(petamap.ConfigError, match="4 spectra is not of TE, TB"):
        coupling_of_workspaces(TE=made["EE"])


def test_fields_come_in(sky):
    harmonics, _ = measured(sky)
    temperature, polarization = fields(sky)
    ours, theirs = pseudo_spectra(harmonics), pseudo_spectra(harmonics_of_field(polarization))
    np.testing.assert_allclose(theirs["EB"], ours["EB"], rtol=0, atol=1e-6 * np.abs(ours["EE"]).max())
    assert harmonics_of_field(temperature).components == "T"
    assert harmonics_of_field(polarization).l_max == L_MAX


def test_namaster_has_the_same_signs():
    alm = np.zeros((3, hp.Alm.getsize(24)), complex)
    alm[1, hp.Alm.getidx(24, 5, 2)], alm[2, hp.Alm.getidx(24, 7, 3)] = 2 - 1j, 1 + 3j
    sky = petamap.SkyMap.from_healpy(hp.alm2map(alm, N_SIDE, lmax=24)[1:])
    field = namaster_field(sky, np.ones(12 * N_SIDE**2), l_max=24)
    np.testing.assert_allclose(harmonics_of_field(field).alm, alm[1:], rtol=0, atol=1e-4)


def test_bins_back_and_forth():
    for of_d in (True, False):
        again = binning_of_bins(namaster_bins(Binning(np.array([2, 5, 12, 30]), of_d)), of_d)
        assert again.edges.tolist() == [2, 5, 12, 30] and again.of_d == of_d
    gaps = nmt.NmtBin.from_edges([2, 12], [10, 20])
    with pytest.raises(petamap.ConfigError, match="gaps"):
        binning_of_bins(gaps)


def test_faults_are_named(sky):
    whole, weights = sky
    with pytest.raises(petamap.DataError, match="has a weight and no value"):
        namaster_field(whole["I"], np.ones_like(weights))
    with pytest.raises(petamap.ConfigError, match="make no field"):
        namaster_field(whole, weights)
