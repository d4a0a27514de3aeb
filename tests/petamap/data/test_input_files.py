"""Files that sources read: which have checksums, and lists of their SHA-256."""

import gzip
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError
from petamap.cli.main import main
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.toast_write import write_toast
from petamap.data.formats.volume_write import write_volume
from petamap.data.input_files import check_hashes, has_checksums, input_files, unchecked_note, write_hashes
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map

SCAN = """
[run]
name = "scan"
[map]
n_side = 8
[[source]]
kind = "ground"
duration = "10 min"
sample_rate = "5 Hz"
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a volume of TOAST, and a configuration that reads it."""
    observations = open_sources(parse_config(SCAN))
    write_toast(tmp_path / "toast", observations)
    text = SCAN[: SCAN.index("[[source]]")]
    (tmp_path / "read.toml").write_text(f'{text}[[source]]\nkind = "toast"\npath = "toast"\nsignal = ""\n')
    return tmp_path


def configuration(folder):
    text = (folder / "read.toml").read_text()
    return parse_config(text, folder / "read.toml")


def test_which_files_have_checksums(folder):
    (path,) = (folder / "toast").glob("*.h5")
    assert has_checksums(path, "toast")
    with h5py.File(folder / "plain.h5", "w") as file:
        file["detdata/signal"] = np.zeros((2, 100))
    assert not has_checksums(folder / "plain.h5", "toast")
    write_volume(folder / "volume.h5", open_sources(parse_config(SCAN)))
    assert has_checksums(folder / "volume.h5", "volume")
    write_map(
        folder / "map.fits", np.zeros((1, 12)), Healpix(1), names=["I"], unit="K", run_id="", frame="galactic"
    )
    assert has_checksums(folder / "map.fits", "sky-map")
    assert not has_checksums(folder / "map.fits", "table")  # which does not verify them
    (folder / "a.csv").write_text("1 2\n")
    with gzip.open(folder / "a.csv.gz", "wb") as file:
        file.write(b"1 2\n")
    assert not has_checksums(folder / "a.csv", "table") and has_checksums(folder / "a.csv.gz", "table")
    shutil.copy(path, folder / "text.h5")
    with h5py.File(folder / "text.h5", "r+") as file:
        del file["detdata/flags"].attrs["petamap_text_sha256"]
    assert not has_checksums(folder / "text.h5", "toast")
    with h5py.File(folder / "fixed.h5", "w") as file:
        file.attrs["name"], table = np.bytes_("a"), np.zeros(3, "S8, f8")
        file.create_dataset("table", data=table, fletcher32=True)
    assert has_checksums(folder / "fixed.h5", "toast")
    with h5py.File(folder / "fixed.h5", "r+") as file:
        file.attrs["note"] = "a text of variable length"
    assert not has_checksums(folder / "fixed.h5", "toast")
    (folder / "broken.h5").write_bytes(b"no")
    assert not has_checksums(folder / "broken.h5", "toast")


def test_unchecked_files_are_told(folder, capsys):
    assert unchecked_note(configuration(folder)) == ""
    (path,) = (folder / "toast").glob("*.h5")
    with h5py.File(path, "r+") as file:
        times = file["shared/times"][...]
        del file["shared/times"]
        file["shared/times"] = times
    assert main(["check", str(folder / "read.toml")]) == 0
    assert f"checksums  {path} has no checksums: damage may go unseen" in capsys.readouterr().out


def test_of_many_files_some_are_looked_at(folder):
    (path,) = (folder / "toast").glob("*.h5")
    for number in range(24):
        with h5py.File(path.with_name(f"a{number:02}.h5"), "w") as file:
            file["data"] = [1.0]
    told = unchecked_note(configuration(folder))
    assert "a00.h5 and 19 more have no checksums (20 of 25 files were" in told


def test_a_list_of_hashes_is_written_then_compared(folder, capsys):
    words = ["check", str(folder / "read.toml"), "--hash", str(folder / "list.sha256")]
    assert main(words) == 0
    assert "list.sha256, of 1 file" in capsys.readouterr().err
    assert (folder / "list.sha256").read_text().count("  toast/") == 1
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "-c", "list.sha256"], cwd=folder, check=True, timeout=60)
    assert main(words) == 0
    assert "1 file as" in capsys.readouterr().err
    (path,) = (folder / "toast").glob("*.h5")
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    assert main(words) == DataError.exit_code
    assert f"{path}: has changed: {folder}/list.sha256 has another SHA-256 (copy" in capsys.readouterr().err


def test_a_list_within_a_folder_that_is_read_is_none_of_its_files(tmp_path, capsys):
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "one").write_text("no stream")
    text = SCAN[: SCAN.index("[[source]]")]
    (tmp_path / "read.toml").write_text(f'{text}[[source]]\nkind = "table"\npath = "streams"\n')
    words = ["check", str(tmp_path / "read.toml"), "--hash", str(tmp_path / "streams" / "list.sha256")]
    for said in ("wrote", "1 file as"):
        main(words)
        assert said in capsys.readouterr().err


def test_a_listed_file_that_is_gone_is_named(folder, capsys):
    words = ["check", str(folder / "read.toml"), "--hash", str(folder / "list")]
    (path,) = (folder / "toast").glob("*.h5")
    other = Path(shutil.copy(path, path.with_name("other.h5")))
    with h5py.File(other, "r+") as file:
        file.attrs["observation_name"] = "other"
        del file.attrs["petamap_text_sha256"]
    assert main(words) == 0 and (folder / "list").read_text().count("\n") == 2
    capsys.readouterr()
    for gone in (other, path):
        gone.unlink()
        assert main(words) == DataError.exit_code
        assert f"{gone}: is not there, but in {folder}/list (put it back" in capsys.readouterr().err
        gone.write_bytes(b"")


def test_lists_that_do_not_fit(folder):
    listing, files = folder / "list", input_files(configuration(folder))
    write_hashes(listing, [])
    with pytest.raises(DataError, match=r"ground.h5: is not in .*list \(remove"):
        check_hashes(listing, files)
    listing.write_text("nothing\n")
    with pytest.raises(ConfigError, match="list:1: is no line of sha256sum"):
        check_hashes(listing, files)
    files[0].unlink()
    with pytest.raises(DataError, match="cannot be read: No such file"):
        write_hashes(listing, files)
    assert main(["check", str(folder / "scan.toml"), "--hash", "x"]) == 2


def test_without_files(tmp_path, capsys):
    (tmp_path / "scan.toml").write_text(SCAN)
    assert main(["check", str(tmp_path / "scan.toml"), "--hash", str(tmp_path / "list")]) == 2
    assert "no file is read" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "scan.toml")]) == 0
    assert "checksums" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "source",
    ['kind = "madmap1"\ntod = "data.csv"\nfilters = "data.csv"', 'kind = "table"\npath = "data.csv"'],
)
def test_paths_that_are_not_given_name_no_files(source, tmp_path):
    text = f"{SCAN[: SCAN.index('[[source]]')]}[[source]]\n{source}\n"
    for name in ("data.csv", "other.txt"):
        (tmp_path / name).write_text("")
    assert input_files(parse_config(text, tmp_path / "read.toml")) == [tmp_path / "data.csv"]


def test_all_options_that_name_files_count(tmp_path):
    """Those that may be names too, as of focal planes and spectra, and those of sections."""
    names = "plane.toml", "cl.txt", "mask.fits", "reference.fits"
    for name in names:
        (tmp_path / name).write_text("")
    made = parse_config(
        SCAN
        + 'focalplane = "plane.toml"\n[[source]]\nkind = "sky-spectra"\nspectra = "cl.txt"\n'
        + '[products]\ncompare = "reference.fits"\n[spectra]\nmask = "mask.fits"\n',
        tmp_path / "run.toml",
    )
    assert [path.name for path in input_files(made)] == sorted(names)
    assert "cl.txt and 3 more have no checksums: damage" in unchecked_note(made)
