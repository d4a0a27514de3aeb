"""Options of the pixels of a map: what each pixelization needs, heeds and refuses."""

import pytest

from petacomm.base.errors import ConfigError
from petamap.data.config import load_config

SOURCE = '[[source]]\nkind = "dipole"\n'


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a configuration."""

    def written(text):
        (tmp_path / "run.toml").write_text(text)
        return tmp_path / "run.toml"

    return written


def error_of(path):
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value).replace(f"{path.parent}/", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1: map.n_side is missing; pixelization healpix needs it (write e.g. n_side = 256)"),
        ("[map]\nn_side = 96", "2: map.n_side must be a power of two, not 96 (64 or 128)"),
        ('[map]\npixelization = "car"', "1: map.resolution is missing; pixelization car needs it (write"),
        ('[map]\npixelization = "flat"\nresolution = 0', "3: map.resolution must be above 0"),
        (
            '[map]\npixelization = "car"\nresolution = "1 deg"\nn_side = 64',
            "4: map.n_side is of healpix, and map.pixelization is car (pixels have map.resolution; "
            'remove n_side, or write pixelization = "healpix")',
        ),
        (
            '[map]\npixelization = "numbered"\nn_side = 64',
            "3: map.n_side is of healpix, and map.pixelization is numbered (remove n_side, or write "
            'pixelization = "healpix")',
        ),
        (
            '[map]\nn_side = 64\nwidth = "3 deg"',
            "3: map.width is of car and flat, and map.pixelization is healpix (remove width, or write "
            'pixelization = "car" or "flat")',
        ),
    ],
)
def test_inconsistent_map_options(write, text, expected):
    assert error_of(write(text + "\n" + SOURCE)).startswith(f"run.toml:{expected}")


def test_another_pixelization_takes_the_place_of_what_files_say_of_pixels(write):
    base = write('[map]\nn_side = 64\nframe = "ecliptic"\n' + SOURCE)
    changed = load_config(base, ["map.pixelization=car", "map.resolution=1 deg"]).map
    assert changed.n_side is None and changed.frame == "ecliptic"
    main = base.with_name("main.toml")
    main.write_text(f'include = ["{base.name}"]\n[map]\npixelization = "flat"\nresolution = "1 deg"\n')
    config = load_config(main)
    assert config.map.n_side is None and config.map.frame == "ecliptic"
    assert load_config(main, ["map.pixelization=healpix", "map.n_side=32"]).map.resolution is None
    assert load_config(base, ["map.pixelization=healpix"]).map.n_side == 64
    for file, words in ((main, ["map.n_side=32"]), (base, ["map.n_side=4", "map.pixelization=numbered"])):
        with pytest.raises(ConfigError, match=r"command line: map.n_side is of healpix"):
            load_config(file, words)


def test_numbered_map(write):
    assert load_config(write('[map]\npixelization = "numbered"\n' + SOURCE)).map.n_side is None
