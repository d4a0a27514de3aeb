"""The table of docs/conventions.md: each test would fail for the other sign of U, order or side.

The sky of the tests is one B mode and no E: what is wrong by a sign of U comes out as its negative.
"""

import re
from pathlib import Path

import healpy as hp
import numpy as np
import pytest
from astropy.io import fits

import petamap
from petamap.sky.harmonics import analyse, synthesise
from petamap.sky.map_conventions import UNSEEN

N_SIDE, L_MAX = 16, 24
PEERS = Path(__file__).parents[1] / "interop"
PAGE = Path(__file__).parents[3] / "docs" / "conventions.md"


def harmonics():
    """Return a_lm of T, E and B in healpy's order: E has (l, m) = (5, 2), B (7, 3)."""
    alm = np.zeros((3, hp.Alm.getsize(L_MAX)), complex)
    alm[0, hp.Alm.getidx(L_MAX, 4, 1)] = 1 + 1j
    alm[1, hp.Alm.getidx(L_MAX, 5, 2)] = 2 - 1j
    alm[2, hp.Alm.getidx(L_MAX, 7, 3)] = 1 + 3j
    return alm


@pytest.fixture(scope="module")
def healpy_map():
    return np.asarray(hp.alm2map(harmonics(), N_SIDE, lmax=L_MAX))


def test_table_and_tests_agree():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.endswith("` |")]
    named = [row.split("`")[-2] for row in rows]
    assert len(named) >= 14
    tests = {name for name in globals() if name.startswith("test_")}
    peers = {
        name
        for path in PEERS.glob("test_*.py")
        for name in re.findall(
            r"^def (test_\w+_has_the_same_signs\w*)\(", path.read_text("utf-8"), re.MULTILINE
        )
    }
    assert len(peers) >= 6 and set(named) == (tests | peers) - {"test_table_and_tests_agree"}


def test_response_grows_from_south_to_east():
    """A detector whose polarization axis lies between south and east sees +U, between north and east -U."""
    for towards, u in (((0, 1, -1), 1.0), ((0, 1, 1), -1.0)):
        z = np.array([1.0, 0.0, 0.0])  # looks at longitude 0, latitude 0: east is +y, south is -z
        x = np.array(towards) / np.sqrt(2)
        turn = quaternion_of(np.stack([x, np.cross(z, x), z], axis=1))
        boresight = petamap.Boresight(np.tile(turn, (8, 1)), 8)
        _, angles = petamap.CompressedPointing(boresight, [[0.0, 0.0, 0.0, 1.0]]).directions(0, 0, 8)
        angle = angles * (2 * np.pi / 2**32)
        np.testing.assert_allclose(np.cos(angle), 0, rtol=0, atol=1e-9)
        np.testing.assert_allclose(np.sin(angle), u, rtol=0, atol=1e-9)


def quaternion_of(matrix):
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(matrix).as_quat()


def test_healpy_has_the_same_signs(healpy_map):
    alm = analyse(healpy_map[1:], N_SIDE, L_MAX, 2)
    np.testing.assert_allclose(alm, harmonics()[1:], rtol=0, atol=1e-5)
    back = petamap.SkyMap.from_healpy(healpy_map).to_healpy()
    np.testing.assert_array_equal(back, healpy_map)


def test_healpy_reads_files_with_the_same_signs(healpy_map, tmp_path):
    path = tmp_path / "map.fits"
    sky = petamap.Healpix(N_SIDE)
    petamap.write_map(path, healpy_map, sky, names="IQU", unit="K_CMB", run_id="a", frame="galactic")
    assert fits.getheader(path, 1)["POLCCONV"] == "COSMO"
    np.testing.assert_array_equal(hp.read_map(path, field=(0, 1, 2), dtype=np.float64), healpy_map)


def test_files_in_iau_are_turned(healpy_map, tmp_path):
    path = tmp_path / "iau.fits"
    iau = healpy_map * [[1], [1], [-1]]
    hp.write_map(path, iau, extra_header=[("POLCCONV", "IAU")], dtype=np.float64, coord="C", column_units="K")
    found = petamap.read_map(path)
    assert found.polarization == "COSMO"
    np.testing.assert_array_equal(found.to_healpy(), healpy_map)


def test_nested_order_is_healpys():
    nested = np.arange(12.0 * N_SIDE**2)
    one = petamap.SkyMap.from_healpy(nested, nest=True)
    np.testing.assert_array_equal(one.reordered().values[0], hp.reorder(nested, n2r=True))
    directions = one.pixelization.directions_of(np.arange(one.pixelization.n_pix))
    np.testing.assert_allclose(
        directions, np.transpose(hp.pix2vec(N_SIDE, nested.astype(int), nest=True)), atol=1e-15
    )


def test_unseen_is_healpys():
    assert UNSEEN == hp.UNSEEN
    assert np.isnan(petamap.SkyMap.from_healpy(np.full(12, hp.UNSEEN)).values).all()


def test_ducc_has_the_same_signs(healpy_map):
    np.testing.assert_allclose(
        synthesise(harmonics()[1:], N_SIDE, L_MAX, 2), healpy_map[1:], rtol=0, atol=2e-14
    )


def on_patch():
    """Return a CAR patch, and I, Q, U of the harmonics at its pixels, by ducc0."""
    import ducc0

    patch = petamap.CarPatch.box((30.0, -20.0), (40.0, 30.0), 1.0)
    theta, phi = hp.vec2ang(patch.directions_of(np.arange(patch.n_pix)))
    loc = np.column_stack([theta, phi % (2 * np.pi)])
    values = [
        ducc0.sht.synthesis_general(alm=harmonics()[rows], loc=loc, spin=spin, lmax=L_MAX, epsilon=1e-10)
        for rows, spin in ((slice(0, 1), 0), (slice(1, 3), 2))
    ]
    return petamap.SkyMap(np.concatenate(values), patch, tuple("IQU"), ("K_CMB",) * 3, "equatorial", "COSMO")


def test_pixell_has_the_same_signs_in_memory():
    curvedsky = pytest.importorskip("pixell.curvedsky")
    one = on_patch()
    image = one.to_enmap()
    made = curvedsky.alm2map(harmonics(), image.copy(), ainfo=curvedsky.alm_info(lmax=L_MAX))
    np.testing.assert_allclose(made, image, rtol=0, atol=1e-10)
    assert np.abs(image[2]).max() > 0.1


def test_pixell_reads_files_with_the_same_signs(tmp_path):
    """Of files of petamap, and petamap of files of pixell, which have the order of rows and columns too."""
    enmap = pytest.importorskip("pixell.enmap")
    one = on_patch()
    path = tmp_path / "petamap.fits"
    petamap.write_map(
        path, one.values, one.pixelization, names=one.names, unit="K_CMB", run_id="a", frame="equatorial"
    )
    np.testing.assert_array_equal(enmap.read_map(str(path)), one.to_enmap())
    enmap.write_map(str(tmp_path / "pixell.fits"), one.to_enmap())
    found = petamap.read_map(tmp_path / "pixell.fits", unit="K_CMB", polarization="COSMO")
    np.testing.assert_array_equal(found.values, one.values)
    assert found.pixelization == one.pixelization
