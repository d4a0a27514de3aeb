"""Where the map lies: coordinates, and pixels as sources number them."""

from dataclasses import replace

import healpy
import numpy as np
import pytest
from small_runs import run_on
from small_systems import Samples, compressed, recorded

from petacomm.base.errors import ConfigError, UserError
from petamap.data.config import MapOptions
from petamap.mapmaking.target import in_frame, target_pixelization
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.healpix import Healpix

DEGREE = np.pi / 180


def scan(coordinates="equatorial", **changes):
    """Return a scan of the sky in given coordinates."""
    made = compressed(np.random.default_rng(0), **changes)
    return replace(made, frame=coordinates)


def polarization(vectors, angles):
    """Return the axis of each sample's polarization in space: a from the southward meridian to the east."""
    a = angles.astype(np.float64) * (np.pi / 2**32)
    theta, phi = healpy.vec2ang(vectors)
    south = np.stack([np.cos(theta) * np.cos(phi), np.cos(theta) * np.sin(phi), -np.sin(theta)], axis=1)
    east = np.stack([-np.sin(phi), np.cos(phi), np.zeros_like(phi)], axis=1)
    return np.cos(a)[:, None] * south + np.sin(a)[:, None] * east


@pytest.mark.parametrize(
    ("given", "wanted", "letters"), [("equatorial", "galactic", "CG"), ("ecliptic", "equatorial", "EC")]
)
def test_pointing_turns_into_the_frame_of_the_map(given, wanted, letters):
    """Directions turn as healpy's, and the axis of polarization turns with the sky."""
    before = scan(given)
    (after,) = in_frame([before], wanted)
    # healpy rounds its constants otherwise: 0.03 arcsec apart
    turn = healpy.Rotator(coord=list(letters)).mat
    old, old_angles = before.pointing.directions(1, 0, 500)
    new, new_angles = after.pointing.directions(1, 0, 500)
    assert np.abs(new - old @ turn.T).max() < 1e-6
    aligned = np.sum(polarization(new, new_angles) * (polarization(old, old_angles) @ turn.T), axis=1)
    assert np.abs(aligned).min() > 1 - 1e-9
    assert np.abs(new - old).max() > 0.1


def test_pointing_in_the_frame_of_the_map_is_left_alone():
    one = scan("galactic")
    assert in_frame([one], "galactic") == [one]


def test_offsets_from_a_source_are_mapped_as_they_are():
    one = scan("offset")
    assert in_frame([one], "galactic") == in_frame([one], "equatorial") == [one]


def test_an_unknown_frame_is_not_taken_for_that_of_the_map():
    with pytest.raises(ConfigError, match="observation made: nobody says in which frame"):
        in_frame([replace(scan(), frame=None)], "galactic")


def test_recorded_pixels_cannot_be_turned():
    made = replace(recorded(np.random.default_rng(0)), frame="galactic")
    with pytest.raises(
        ConfigError, match=r'observation made: its pixels are galactic.*map.frame = "galactic"'
    ):
        in_frame([made], "equatorial")


@pytest.mark.parametrize("order", ["ring", "nest"])
@pytest.mark.parametrize("given", [Healpix(4), Healpix(4, nest=True)])
def test_maps_of_recorded_pixels_have_the_order_asked_for(tmp_path, given, order):
    numbers = np.arange(192)[None].repeat(3, axis=1)
    made = replace(
        recorded(np.random.default_rng(0), 1, numbers.size, 192, 0), frame="galactic",
        pointing=RecordedPixels(numbers, given), signals=(Samples(numbers.astype(float)),),
    )  # fmt: skip
    run_on([made], tmp_path, map={"n_side": 4, "stokes": "I", "ordering": order}, noise={"kernel": "white"})
    read = healpy.read_map(tmp_path / "small_map.fits", nest=given.nest)
    np.testing.assert_allclose(read, np.arange(192), rtol=0, atol=1e-6)


def test_healpix_is_solved_in_nested_order():
    assert target_pixelization(MapOptions(n_side=16, ordering="ring"), [scan()]) == Healpix(16, nest=True)


def test_sources_that_number_different_pixels_or_none_are_refused():
    twelve, thirteen = (recorded(np.random.default_rng(0), n_pix=n) for n in (12, 13))
    options = MapOptions(pixelization="numbered")
    assert target_pixelization(options, [twelve, twelve]).n_pix == 12
    with pytest.raises(ConfigError, match="different pixels"):
        target_pixelization(options, [twelve, thirteen])
    with pytest.raises(ConfigError, match="not all sources number"):
        target_pixelization(options, [twelve, scan()])


def test_an_image_of_too_many_pixels_is_refused_before_memory_is_taken():
    options = MapOptions(pixelization="car", resolution=1e-4 * DEGREE)
    with pytest.raises(ConfigError, match=r"pixels .*map.width and map.height"):
        target_pixelization(options, [scan(n_samp=400, speed=5e-4)])


def test_a_folder_that_cannot_be_written_is_found_before_the_data_are_read(tmp_path):
    class Untouched:
        def add_signal(self, detector, start, stop, out):
            raise AssertionError("the data were read")

    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    one = replace(scan(n_samp=400, speed=5e-4), signals=(Untouched(),))
    with pytest.raises(UserError, match="file"):
        run_on([one], blocked / "out")
    assert blocked.read_text() == "in the way"
