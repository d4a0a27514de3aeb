"""The file of a Monte Carlo: in place, whole rows, and what happens when it cannot be written."""

import resource
from contextlib import contextmanager

import h5py
import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petamap.montecarlo.store import DONE, FAILED, TO_DO, Layout, Store, existing, lay_out, opened


def layout(n=4, run_id="one", first=0, **more):
    rows = {"pseudo/sky": ((2, 5), np.float64), "hash": ((1,), "S64"), "error": ((), "S240")}
    return Layout(
        numbers=np.arange(first, first + n),
        rows=rows,
        whole={"weights": np.full((2, n), 0.5)} | more,
        later={"fixed/map": ((3,), np.float64), "fixed/status": ((1,), np.uint8)},
        attributes={"run_id": run_id, "names": ("TT", "EE"), "l_max": 4},
        groups={"choices": {"pure": "", "width": 10}},
    )


def row(number):
    return {"pseudo/sky": np.full((2, 5), float(number)), "hash": np.array([b"ab%d" % number])}


@contextmanager
def no_file_above(n_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_is_written_is_read_by_others(tmp_path):
    path = tmp_path / "a.h5"
    lay_out(path, layout())
    with Store(path) as store:
        assert (
            store.attributes["names"] == ("TT", "EE") and store.attributes["format"] == "petamap-montecarlo"
        )
        store.write(2, row(2))
        store.fail(1, "no luck")
        store.write_once({"fixed/map": np.arange(3.0)})
        assert store.status.tolist() == [TO_DO, FAILED, DONE, TO_DO]
        with pytest.raises(ValueError, match="a row has 80 bytes, not 40"):
            store.write(3, {"pseudo/sky": np.zeros(5)})
    with h5py.File(path) as file:
        spectra = file["pseudo/sky"][...]
        assert np.isnan(spectra[[0, 1, 3]]).all() and (spectra[2] == 2).all()
        assert file["hash"][2, 0] == b"ab2" and file["error"][1] == b"no luck"
        assert file["fixed/map"][...].tolist() == [0, 1, 2] and file["choices"].attrs["width"] == 10
        assert all(file[name].id.get_offset() is not None for name in ("pseudo/sky", "status"))


def test_the_bytes_depend_on_what_is_written_alone(tmp_path):
    for name, order in (("a", (0, 1, 2, 3)), ("b", (3, 1, 0, 2))):
        lay_out(tmp_path / name, layout())
        with Store(tmp_path / name) as store:
            for number in order:
                store.write(number, row(number))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_grows_and_keeps_what_is_finished(tmp_path):
    path = tmp_path / "a.h5"
    small = layout(2, first=5, weights=np.ones((2, 9)))
    with opened(path, small, force=False) as store:
        store.write(6, row(6))
        store.write_once({"fixed/map": np.ones(3)})
    grown = layout(6, first=3, weights=np.ones((2, 9)))
    with opened(path, grown, force=False) as store:
        assert store.status.tolist() == [0, 0, 0, DONE, 0, 0]
        assert (store.read_row("pseudo/sky", 3) == 6).all() and store.read("fixed/status")[0] == DONE
        for number in (3, 4, 5, 7, 8):
            store.write(number, row(number))
    with opened(tmp_path / "b.h5", grown, force=False) as store:
        store.write_once({"fixed/map": np.ones(3)})
        for number in range(3, 9):
            store.write(number, row(number))
    assert path.read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_other_files_are_refused_and_left_alone(tmp_path):
    path = tmp_path / "a.h5"
    opened(path, layout(), force=False).close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="of another configuration"):
        existing(path, "two", np.arange(4), force=False)
    with pytest.raises(ConfigError, match="holds realizations 0 to 3"):
        existing(path, "one", np.arange(1, 9), force=False)
    with pytest.raises(ConfigError, match="other weights: the data have changed"):
        opened(path, layout(weights=np.ones((2, 4))), force=False)
    assert path.read_bytes() == before
    (tmp_path / "b.h5").write_text("no")
    with pytest.raises(ConfigError, match="is no HDF5 file"):
        existing(tmp_path / "b.h5", "one", np.arange(4), force=False)
    with h5py.File(tmp_path / "c.h5", "w"):
        pass
    with pytest.raises(DataError, match="is no file of format petamap-montecarlo"):
        Store(tmp_path / "c.h5")
    assert opened(path, layout(run_id="two"), force=True).attributes["run_id"] == "two"


def test_a_full_disk_loses_nothing(tmp_path):
    path = tmp_path / "a.h5"
    with no_file_above(1000), pytest.raises(ResourceError, match=r"File too large.*free space"):
        lay_out(path, layout())
    assert not list(tmp_path.iterdir())
    lay_out(path, layout())
    with Store(path) as store:
        store.write(0, row(0))
        offset = store._places["pseudo/sky"].offset
        with no_file_above(offset + 100):
            with pytest.raises(ResourceError, match="what is finished stays"):
                store.write(1, row(1))
            with pytest.raises(ResourceError):
                lay_out(path, layout(8), store)
        assert store.status.tolist() == [DONE, 0, 0, 0] and (store.read_row("pseudo/sky", 0) == 0).all()
        store.write(1, row(1))
        assert store.status.tolist() == [DONE, DONE, 0, 0]
