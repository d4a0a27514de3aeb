"""Tests of focal planes: files, published values of Planck, conventions of angles."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError
from petamap.pointing import focalplane, quaternion

RIMO = Path(__file__).parents[3] / "../shared/data/planck_lfi_wmap/LFI_RIMO_R4.00.fits"


def test_built_in_instrument_against_the_rimo():
    if not RIMO.is_file():
        pytest.skip("the RIMO file is not available")
    published, built_in = focalplane.read_rimo(RIMO), focalplane.load_focalplane("planck-lfi")
    assert built_in.names == published.names and len(built_in.names) == 22
    for given, expected in zip(built_in.detectors, published.detectors, strict=True):
        assert dataclasses.astuple(given)[1:] == pytest.approx(dataclasses.astuple(expected)[1:], rel=1e-13)


def xml_of(plane):
    """Return a focal plane in XML, all keys of each detector in their usual units."""
    rows = []
    for one in plane.detectors:
        values = {
            key: repr(getattr(one, key)) if kind is None else f"{getattr(one, key)!r} {UNITS[kind[0]]}"
            for key, kind in focalplane._KEYS.items()
        }
        keys = "".join(f"<{key}>{value}</{key}>" for key, value in values.items())
        rows.append(f"<detector><name>{one.name}</name>{keys}</detector>")
    return f"<focalplane><name>{plane.name}</name>{''.join(rows)}</focalplane>"


UNITS = {"angle": "rad", "noise": "K s^0.5", "frequency": "Hz"}


def test_xml_says_what_toml_says(tmp_path):
    built_in, path = focalplane.load_focalplane("planck-lfi"), tmp_path / "plane.xml"
    path.write_text(xml_of(built_in), encoding="utf-8")
    found = focalplane.load_focalplane(path)
    assert found.name == built_in.name and found.names == built_in.names
    for given, expected in zip(found.detectors, built_in.detectors, strict=True):
        assert dataclasses.astuple(given)[1:] == pytest.approx(dataclasses.astuple(expected)[1:], rel=1e-13)


@pytest.mark.parametrize(
    "text, message",
    [
        ("<focalplane><detector>", "not XML"),
        ("<petamap/>", "the root is <petamap>"),
        ("<!DOCTYPE a><focalplane/>", "DOCTYPE"),
        ("<focalplane><detector><name>a</name><psy>1 deg</psy></detector></focalplane>", "psi"),
        ("<focalplane><detector><name>a</name><psi>1</psi></detector></focalplane>", "unit"),
        (
            "<focalplane><defaults><alpha>steep</alpha></defaults></focalplane>",
            "alpha = 'steep' is not a number",
        ),
        ("<focalplane><detector><name>a</name><name>b</name></detector></focalplane>", "no single value"),
        ("<focalplane><detector><name><b/></name></detector></focalplane>", "no single value"),
        ("<focalplane><name>a</name><name>b</name></focalplane>", "given twice"),
        ("<focalplane><detector><psi>1 deg</psi></detector></focalplane>", "has no name"),
    ],
)
def test_faults_of_xml_are_told(tmp_path, text, message):
    path = tmp_path / "plane.xml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"plane\.xml") as caught:
        focalplane.load_focalplane(path)
    assert message in str(caught.value)


def test_selections_of_the_built_in_instrument():
    lfi = focalplane.load_focalplane("planck-lfi")
    assert lfi.select(("LFI27", "LFI28")).names == ("LFI27S", "LFI27M", "LFI28S", "LFI28M")
    assert lfi.select(("LFI24M", "LFI18S")).names == ("LFI18S", "LFI24M")
    mean_30 = lfi.select(("LFI27", "LFI28")).values("fknee").mean()
    assert mean_30 == pytest.approx(0.1141, abs=5e-5)  # the published mean of the 30 GHz radiometers
    # the two arms of a horn have the same line of sight and are orthogonal to half a degree
    sight = quaternion.rotate(lfi.quaternions, [0, 0, 1])
    np.testing.assert_allclose(sight[::2], sight[1::2])
    for side, main in zip(lfi.detectors[::2], lfi.detectors[1::2], strict=True):
        assert np.degrees(main.psi - side.psi) == pytest.approx(90, abs=0.51)


def test_polarization_angle_is_parallel_transported():
    detector = focalplane.Detector("a", theta=0.2, phi=2.0, psi=0.7)
    (q,) = focalplane.FocalPlane("one", (detector,)).quaternions
    direction = quaternion.rotate(q, [0, 0, 1])
    expected = [np.sin(0.2) * np.cos(2.0), np.sin(0.2) * np.sin(2.0), np.cos(0.2)]
    np.testing.assert_allclose(direction, expected, rtol=0, atol=1e-15)
    # transport X rotated by psi along the great circle: rotate about the axis normal to it
    transport = quaternion.from_half_rotation_vector(0.5 * 0.2 * np.array([-np.sin(2.0), np.cos(2.0), 0]))
    axis = quaternion.rotate(transport, [np.cos(0.7), np.sin(0.7), 0])
    np.testing.assert_allclose(quaternion.rotate(q, [1, 0, 0]), axis, rtol=0, atol=1e-15)
    z, w = q[2:]
    assert 2 * np.arctan2(z, w) == pytest.approx(0.7)


def test_toml(tmp_path):
    text = """
        name = "two"
        [defaults]
        fmin = "0.01 mHz"
        [[detector]]
        name = "a"
        theta = "90 deg"
        epsilon = 0.5
        [[detector]]
        name = "b"
        fwhm = "60 arcmin"
        net = "3 uK s^0.5"
        fmin = "2 Hz"
        alpha = -1.5
        """
    (tmp_path / "plane.toml").write_text(text)
    plane = focalplane.load_focalplane("plane.toml", tmp_path)
    assert plane.name == "two"
    a, b = plane.detectors
    expected = focalplane.Detector("a", theta=np.pi / 2, epsilon=0.5, fmin=1e-5)
    assert dataclasses.astuple(a)[1:] == pytest.approx(dataclasses.astuple(expected)[1:])
    expected = focalplane.Detector("b", fwhm=np.pi / 180, net=3e-6, fmin=2.0, alpha=-1.5)
    assert dataclasses.astuple(b)[1:] == pytest.approx(dataclasses.astuple(expected)[1:])


@pytest.mark.parametrize("n_det", [1, 2, 3, 14, 38, 1000])
def test_hexagonal_grid(n_det):
    plane = focalplane.hexagonal(n_det, 0.01)
    directions = quaternion.rotate(plane.quaternions, [0, 0, 1.0])[::2]
    distances = quaternion.angle_between(directions[:, None], directions[None]) + 10 * np.eye(len(directions))
    if len(directions) > 1:
        # each pair's nearest neighbour is one spacing away, up to the curvature of the sky
        np.testing.assert_allclose(distances.min(axis=1), 0.01, rtol=0.05)
    assert len(plane.names) == n_det


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[detector]]\nname = "a"\nfwmh = "1 deg"', "fwhm"),
        ('[[detector]]\nname = "a"\nfwhm = "1 dog"', "unknown angle unit"),
        ('[[detector]]\nname = "a"\nfwhm = 3', "no unit"),
        ('[[detector]]\nname = "a"\nepsilon = 2', "above 1"),
        ('[[detector]]\nname = "a"\nnet = "nan K s^0.5"', "makes no sense"),
        ('[[detector]]\nname = "a"\n[[detector]]\nname = "a"', "two detectors"),
        ("[[detector]]\nepsilon = 0.1", "no name"),
        ('name = "x"', "no detectors"),
        ("[[detector", r"bad\.toml:1: not TOML"),
        ("detector = " + 9999 * "[", "nested deeper"),
        ('[[detector]]\nname = "a"\nepsilon = ' + 5000 * "9", r"bad\.toml:3: .* longer than"),
    ],
)
def test_invalid_files(tmp_path, text, message):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        focalplane.read_focalplane_toml(tmp_path / "bad.toml")


def test_unknown_names():
    with pytest.raises(ConfigError, match="no focal plane"):
        focalplane.load_focalplane("planck-hfj")
    with pytest.raises(ConfigError, match="did you mean 'LFI18S'"):
        focalplane.load_focalplane("planck-lfi").select(("LFI18X",))


def test_invalid_rimo(tmp_path):
    (tmp_path / "x.fits").write_bytes(b"nothing")
    with pytest.raises(DataError, match="no reduced instrument model"):
        focalplane.load_focalplane("x.fits", tmp_path)
