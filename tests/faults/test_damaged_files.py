"""Bits that flip in files with checksums, and files cut short: refused, or without an effect."""

import pickle
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import cases
from changed_files import write_anew
from montecarlo_runs import TINY
from parsers import made_image, made_instrument_model, made_object_maps, made_recording

import petamap
from petacomm.mapping.openatom.maps import ObjectMaps
from petacomm.mpi import SerialCommunicator
from petacomm.recording import load_recording
from petamap.cli.main import main
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.amplitudes import read_amplitudes
from petamap.data.formats.madmap1 import read_image_layout
from petamap.data.formats.toast_write import write_toast
from petamap.data.formats.volume_write import write_volume
from petamap.data.product_file import read_product
from petamap.data.run_summary import Summary
from petamap.mapmaking.checkpoint_file import KeyedRows, read_head, read_rows, write_rows
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.run import run_montecarlo
from petamap.pointing.focalplane import read_rimo
from petamap.sky.covariance_file import PixelCovariance, read_pixel_covariance, write_pixel_covariance
from petamap.sky.observation_matrix_file import read_observation_matrix
from petamap.sky.spectrum_file import read_spectrum_file, write_spectrum_file
from petamap.spectra.bandpower_files import read_bandpowers

SCAN = """
[run]
name = "scan"
[map]
n_side = 4
[solver]
rcond_min = 1e-3
[[source]]
kind = "ground"
duration = "10 min"
sample_rate = "10 Hz"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
[[source]]
kind = "polynomials"
order = 1
"""
KEYS = {"pixels": np.arange(5, 900, 3), "gaps": np.arange(7)}  # of a checkpoint
_HEADERS = 40_000  # bytes of a large file in which every second flip is: its headers


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with files of all formats."""
    folder = tmp_path_factory.mktemp("made")
    observations = open_sources(parse_config(SCAN[: SCAN.index('[[source]]\nkind = "poly')]))[:1]
    write_toast(folder / "toast", observations)
    write_volume(folder / "volume" / "scan.h5", observations)
    petamap.run(parse_config(SCAN, overrides=["products.observation_matrix=true"]), out=folder / "run")
    pixels = np.arange(40, 44)
    covariance = PixelCovariance(np.arange(144.0).reshape(12, 12), pixels, 4, "IQU", "K_CMB^2", "0123")
    write_pixel_covariance(folder / "covariance" / "c.fits", covariance)
    theory = petamap.Spectra(np.random.default_rng(1).random((2, 300)), ("TT", "EE"), "K_CMB^2")
    write_spectrum_file(folder / "theory" / "theory.fits", theory)
    kinds = {kind: KeyedRows(keys, [np.sin(keys)[:, None]] * 3) for kind, keys in KEYS.items()}
    write_rows(folder / "run.checkpoint" / "map.checkpoint", SerialCommunicator(), {"note": "x"}, kinds)
    made_recording().save(folder / "recording" / "graph.npz")
    made_object_maps().save(folder / "openatom" / "maps.npz")
    (folder / "others").mkdir()
    (folder / "others" / "rimo.fits").write_bytes(made_instrument_model(True))
    (folder / "others" / "layout.fits").write_bytes(made_image(True))
    config = parse_config(TINY, overrides=["montecarlo.realizations=4", "source.0.duration=3 h"])
    run_montecarlo(config, out=folder / "mc")
    petamap.run(parse_config(TINY), out=folder / "tiny")
    assert main(["spectra", str(folder / "tiny"), "--out", str(folder / "spectra" / "cl.fits")]) == 0
    return folder


def read_volume(kind: str) -> Callable[[Path], Any]:
    """Return what reads the maps and the noise of a volume."""
    text = f'{SCAN[: SCAN.index("[[source]]")]}binned_only = true\n[[source]]\nkind = "{kind}"\n'

    def read(path: Path) -> Any:
        found = petamap.run(parse_config(f'{text}path = "{path}"\n'))
        return [one.values.tobytes() for one in found.products.values()], found.summary.noise

    return read


def product_of(kind: str) -> Callable[[Path], Any]:
    """Return what reads the product of a kind of the run in the folder of a file."""

    def read(path: Path) -> Any:
        summary = Summary.read(path.parent)
        product = next(one for one in summary.products if one.kind == kind)
        found = read_product(path.parent, summary, product)
        return found.values.tobytes(), found.names, found.units, found.frame

    return read


def pickled(found: Any) -> bytes:
    """Return all of an object, its arrays too, for comparisons."""
    return pickle.dumps(found)


def matrix(path: Path) -> Any:
    found = read_observation_matrix(path)
    return found.indptr.tobytes(), found.indices.tobytes(), found.data.tobytes(), found.shape


def checkpoint(path: Path) -> Any:
    head = read_head(path, "begin anew")
    rows = read_rows(path, SerialCommunicator(), head, KEYS, "begin anew")
    return head, {kind: found.tobytes() for kind, found in rows.items()}


def recording(path: Path) -> Any:
    found = load_recording(path)
    groups = [(group.name, group.ranks.tobytes(), group.inter) for group in found.groups]
    rows = found.direct.tobytes(), found.collectives.tobytes()
    return found.n_ranks, found.library, groups, rows, found.outside


# name -> the file, and what reads it
FORMATS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "map": ("run/scan_map.fits", product_of("map")),
    "covariance": ("run/scan_covariance.fits", product_of("covariance")),
    "hits": ("run/scan_hits.fits", product_of("hits")),
    "pixel covariance": ("covariance/c.fits", lambda path: pickled(read_pixel_covariance(path))),
    "observation matrix": ("run/scan_observation_matrix.fits", matrix),
    "amplitudes": ("run/scan_amplitudes.fits", lambda path: pickled(read_amplitudes(path))),
    "summary": ("run/summary.json", lambda path: Summary.read(path.parent)),
    "theory": ("theory/theory.fits", lambda path: pickled(read_spectrum_file(path))),
    "bandpowers": ("spectra/cl.fits", lambda path: pickled(read_bandpowers(path))),
    "checkpoint": ("run.checkpoint/map.checkpoint", checkpoint),
    "recording": ("recording/graph.npz", recording),
    "object maps": ("openatom/maps.npz", lambda path: pickled(vars(ObjectMaps.load(path, 64)))),
    "instrument model": ("others/rimo.fits", lambda path: read_rimo(path).detectors),
    "image layout": ("others/layout.fits", lambda path: pickled(vars(read_image_layout(path)))),
    "Monte Carlo": ("mc/tiny_mc.h5", lambda path: pickled(read_results(path))),
    "volume": ("volume/scan.h5", read_volume("volume")),
    "TOAST volume": ("toast/ground.h5", read_volume("toast")),
}
# HDF5 knows files that are open by their names: each try has one of its own.
_OWN_NAMES = ("volume", "TOAST volume", "Monte Carlo")


@pytest.fixture
def tries(request, made, tmp_path, outcomes):
    """Return what reads the file of a format with another content, and counts what comes of it."""
    name = request.getfixturevalue("name")
    file, read = FORMATS[name]
    folder = tmp_path / "files"
    shutil.copytree((made / file).parent, folder)
    path = folder / Path(file).name
    content = path.read_bytes()
    expected = read(path)
    numbers = iter(range(10**9))

    def attempt(changed: bytes, fault: str) -> None:
        place = path.with_name(f"{next(numbers)}{path.suffix}") if name in _OWN_NAMES else path
        write_anew(place, changed)
        outcomes.tried(fault, lambda: read(place), expected, str(place))
        if place != path:
            place.unlink()

    return content, attempt


@pytest.mark.parametrize("n_tries", cases(25, long=(300,)))
@pytest.mark.parametrize("name", FORMATS)
def test_flips(name, n_tries, tries, outcomes):
    content, attempt = tries
    chance = random.Random(name)
    for number in range(n_tries):
        place = chance.randrange(min(len(content), _HEADERS if number % 2 else len(content)))
        changed, bit = bytearray(content), chance.randrange(8)
        changed[place] ^= 1 << bit
        attempt(bytes(changed), f"bit {bit} of byte {place}")
    assert not outcomes.bad
    assert outcomes.counts["typed"] > n_tries // 4


def in_heaps(content: bytes) -> list[int]:
    """Return the places of all bytes of the global heaps of an HDF5 file, of which it has no checksums."""
    found: list[int] = []
    for heap in re.finditer(rb"GCOL\x01\0\0\0", content):
        length = int.from_bytes(content[heap.end() : heap.end() + 8], "little")
        found += range(heap.start(), heap.start() + length)
    return found


@pytest.mark.parametrize("n_tries", cases(100, long=(2000,)))
@pytest.mark.parametrize("name", ["TOAST volume"])
def test_flips_of_texts(name, n_tries, tries, outcomes):
    content, attempt = tries
    chance = random.Random(name)
    digits = [found.end() - 1 for found in re.finditer(rb'": 0', content)]  # flags of whole detectors
    places = [place for place in in_heaps(content) if content[place]]
    for place in digits + chance.choices(places, k=n_tries // 2 - len(digits)):
        for bit in chance.sample(range(8), 2):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            attempt(bytes(changed), f"bit {bit} of byte {place}")
    assert len(digits) == 2 and not outcomes.bad
    assert outcomes.counts["typed"] > n_tries // 4


@pytest.mark.parametrize("n_tries", cases(15, long=(200,)))
@pytest.mark.parametrize("name", FORMATS)
def test_truncations(name, n_tries, tries, outcomes):
    content, attempt = tries
    chance = random.Random(name)
    lengths = [0, 1, len(content) - 1, len(content) - 2]
    lengths += [chance.randrange(len(content)) for _ in range(n_tries - len(lengths))]
    for length in lengths:
        attempt(content[:length], f"{length} of {len(content)} bytes")
    assert not outcomes.bad
