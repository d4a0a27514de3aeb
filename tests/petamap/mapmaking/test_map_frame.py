"""Frames that maps name: those of the sky as configured, of offsets and of numbered pixels none."""

from dataclasses import replace

import numpy as np
import pytest
from astropy.io import fits
from astropy.wcs import WCS
from montecarlo_runs import TINY
from small_runs import noisy_scans

from petacomm.base.errors import ConfigError
from petamap.cli.configure import describe_config
from petamap.data.config import MapOptions, parse_config
from petamap.data.run_summary import Summary
from petamap.mapmaking import setup
from petamap.mapmaking.coadd import coadd
from petamap.mapmaking.coadd_files import write_coadd
from petamap.mapmaking.run import run
from petamap.mapmaking.target import in_frame, map_frame
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.run import run_montecarlo
from petamap.sky.map_file import read_map

RUN = """
[run]
name = "{name}"
[map]
{pixels}
[noise]
kernel = "white"
[solver]
rcond_min = 1e-6
[resources]
threads = 1
[products]
report = false
"""
SPLIT = 'filtered = true\n[[split]]\nname = "halves"\nby = "time"\n[[source]]\nkind = "offsets"\n'
PIXELS = {
    "healpix": "n_side = 2",
    "car": 'pixelization = "car"\nresolution = "10 deg"',
    "flat": 'pixelization = "flat"\nresolution = "10 deg"\nwidth = "100 deg"\nheight = "100 deg"',
}


def scans(frame):
    return [replace(one, frame=frame) for one in noisy_scans()]


def test_only_offsets_have_no_frame():
    options = MapOptions(frame="ecliptic")
    known, offsets = scans("ecliptic"), scans("offset")
    assert map_frame(options, known) == map_frame(options, [*known, *offsets]) == "ecliptic"
    assert map_frame(options, []) == "ecliptic" and map_frame(options, offsets) is None
    assert map_frame(options, [replace(known[0], pointing=None, frame=None), *offsets]) is None


def test_offsets_are_not_mapped_with_places_on_the_sky():
    known, offsets = scans("galactic"), scans("offset")
    with pytest.raises(
        ConfigError, match=f"observation {offsets[0].name}: its pointing is offsets, that of "
    ):
        in_frame([*known, *offsets], "galactic")
    assert in_frame(offsets, "galactic") == offsets
    assert in_frame([replace(known[0], pointing=None), *offsets], "galactic")[1:] == offsets


@pytest.mark.parametrize("pixels", PIXELS.values(), ids=PIXELS)
def test_files_of_offsets_name_no_frame(tmp_path, pixels):
    config = parse_config(RUN.format(name="a", pixels=pixels) + SPLIT)
    for frame in ("offset", "galactic"):
        run(config, observations=scans(frame), out=tmp_path / frame)
    products = Summary.read(tmp_path / "offset").products
    files = [product.file for product in products if product.kind != "amplitudes"]
    assert len(files) > 5 and "a_filtered.fits" in files
    for name in files:
        header = fits.getheader(tmp_path / "offset" / name, -1)
        found, known = (read_map(tmp_path / frame / name) for frame in ("offset", "galactic"))
        assert "COORDSYS" not in header and found.frame is None and known.frame == "galactic"
        assert np.array_equal(found.values, known.values, equal_nan=True)
        assert found.pixelization == known.pixelization
        if "resolution" in pixels:
            assert header["CTYPE1"][:4] == "XLON" and WCS(header).has_celestial


def test_a_coadd_of_offsets_has_no_frame(tmp_path):
    for name, one in zip("ab", scans("offset"), strict=True):
        config = parse_config(RUN.format(name=name, pixels=PIXELS["healpix"]))
        run(config, observations=[one], out=tmp_path / name)
    write_coadd(*coadd([tmp_path / "a", tmp_path / "b"]), tmp_path / "sum")
    assert read_map(tmp_path / "sum" / "coadd_map.fits").frame is None


def test_a_monte_carlo_of_offsets_names_no_frame(tmp_path, monkeypatch):
    given = setup.prepare_observations
    monkeypatch.setattr(
        setup, "prepare_observations",
        lambda *arguments: [replace(one, frame="offset") for one in given(*arguments)],
    )  # fmt: skip
    run_montecarlo(parse_config(TINY, overrides=["montecarlo.realizations=1"]), out=tmp_path)
    assert read_results(tmp_path).frame == ""


def said_of_map(text, observations):
    table = describe_config(parse_config(text), observations)
    return next(line for line in table.splitlines() if line.startswith("map "))


def test_the_check_says_the_frame():
    text = '[map]\nn_side = 2\nstokes = "I"\n'
    for frame, word in (("galactic", "galactic"), ("offset", "offsets")):
        assert said_of_map(text, scans(frame)).endswith(f"nest, I, {word}")
    bare = [replace(one, pointing=None, frame=None) for one in noisy_scans()]
    assert said_of_map('[map]\npixelization = "numbered"\nstokes = "I"\n', bare).endswith(" numbered, I")
