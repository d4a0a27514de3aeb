"""Tests of the file of a Monte Carlo: rows written in place, growth, full disks."""

import resource
from contextlib import contextmanager

import h5py
import numpy as np
import pytest
from cases import cases
from changed_files import write_anew

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petamap.montecarlo.store import (
    DONE,
    FAILED,
    TO_DO,
    Store,
    StoreLayout,
    create_store,
)
from petamap.montecarlo.store_checksums import HEADER, ROWS
from petamap.montecarlo.store_opening import existing_store, open_store, require_whole


def layout(n=4, run_id="one", first=0, **more):
    rows = {"pseudo/sky": ((2, 5), np.float64), "hash": ((1,), "S64"), "error": ((), "S240")}
    return StoreLayout(
        numbers=np.arange(first, first + n),
        rows=rows,
        common={"weights": np.full((2, n), 0.5)} | more,
        computed={"fixed/map": ((3,), np.float64), "fixed/status": ((1,), np.uint8)},
        attributes={"run_id": run_id, "names": ("TT", "EE"), "l_max": 4},
        groups={"choices": {"pure": "", "width": 10}},
    )


def row(number):
    return {"pseudo/sky": np.full((2, 5), float(number)), "hash": np.array([b"ab%d" % number])}


@contextmanager
def file_size_limit(n_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_written_rows(tmp_path):
    path = tmp_path / "a.h5"
    create_store(path, layout())
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


def test_same_bytes(tmp_path):
    for name, order in (("a", (0, 1, 2, 3)), ("b", (3, 1, 0, 2))):
        create_store(tmp_path / name, layout())
        with Store(tmp_path / name) as store:
            for number in order:
                store.write(number, row(number))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_files_grow(tmp_path):
    path = tmp_path / "a.h5"
    small = layout(2, first=5, weights=np.ones((2, 9)))
    with open_store(path, small, force=False)[0] as store:
        store.write(6, row(6))
        store.write_once({"fixed/map": np.ones(3)})
    grown = layout(6, first=3, weights=np.ones((2, 9)))
    with open_store(path, grown, force=False)[0] as store:
        assert store.status.tolist() == [0, 0, 0, DONE, 0, 0]
        assert (store.read_row("pseudo/sky", 3) == 6).all() and store.computed_status == DONE
        for number in (3, 4, 5, 7, 8):
            store.write(number, row(number))
    with open_store(tmp_path / "b.h5", grown, force=False)[0] as store:
        store.write_once({"fixed/map": np.ones(3)})
        for number in range(3, 9):
            store.write(number, row(number))
    assert path.read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_other_files(tmp_path):
    path = tmp_path / "a.h5"
    open_store(path, layout(), force=False)[0].close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="of another configuration"):
        existing_store(path, "two", np.arange(4), force=False)
    with pytest.raises(ConfigError, match="holds realizations 0 to 3"):
        existing_store(path, "one", np.arange(1, 9), force=False)
    with pytest.raises(ConfigError, match="other weights: the data have changed"):
        open_store(path, layout(weights=np.ones((2, 4))), force=False)
    assert path.read_bytes() == before
    (tmp_path / "b.h5").write_text("no")
    with pytest.raises(ConfigError, match="is no HDF5 file"):
        existing_store(tmp_path / "b.h5", "one", np.arange(4), force=False)
    with h5py.File(tmp_path / "c.h5", "w"):
        pass
    with pytest.raises(DataError, match="is no file of format petamap-montecarlo"):
        Store(tmp_path / "c.h5")
    assert open_store(path, layout(run_id="two"), force=True)[0].attributes["run_id"] == "two"


def test_full_disk(tmp_path):
    path = tmp_path / "a.h5"
    with file_size_limit(1000), pytest.raises(ResourceError, match=r"File too large.*free space"):
        create_store(path, layout())
    assert not list(tmp_path.iterdir())
    create_store(path, layout())
    with Store(path) as store:
        store.write(0, row(0))
        offset = store._arrays["pseudo/sky"].offset
        with file_size_limit(offset + 100):
            with pytest.raises(ResourceError, match="what is finished stays"):
                store.write(1, row(1))
            with pytest.raises(ResourceError):
                create_store(path, layout(8), store)
        assert store.status.tolist() == [DONE, 0, 0, 0] and (store.read_row("pseudo/sky", 0) == 0).all()
        store.write(1, row(1))
        assert store.status.tolist() == [DONE, DONE, 0, 0]


def fill(path, **choices):
    """Write what a run with these choices writes: one realization fails, one is left."""
    store, damage = open_store(path, layout(**choices), force=False)
    with store:
        for number in store.numbers[store.status == TO_DO]:
            if number == 1:
                store.fail(1, "no luck")
            elif number != 3:
                store.write(int(number), row(number))
        if store.computed_status == TO_DO:
            store.write_once({"fixed/map": np.arange(3.0)})
    return damage


def flipped(path, content, offset, bit):
    changed = bytearray(content)
    changed[offset] ^= 1 << bit
    write_anew(path, changed)


@pytest.mark.parametrize("share", cases(80, long=(1,)))
def test_each_flipped_bit_is_found_and_mended(share, tmp_path):
    path = tmp_path / "a.h5"
    fill(path)
    content = path.read_bytes()
    assert require_whole(path).tolist() == [DONE, FAILED, DONE, TO_DO] and len(content) < 1 << 14
    with Store(path) as store:
        left = {
            place
            for name in store.rows
            for item in [store._arrays[name]]
            for place in range(item.offset + 3 * item.row_bytes, item.offset + 4 * item.row_bytes)
        }
        status = store._arrays["status"].offset
        statuses = {status, status + 1, status + 2, store._arrays["fixed/status"].offset}
    refused = 0
    for place in sorted({*range(0, len(content), share), *statuses}):
        flipped(path, content, place, place % 8)
        if place in left or place in statuses:
            # nothing is written there yet; the checksum of a row that is says what state it is in
            assert require_whole(path).tolist() == [DONE, FAILED, DONE, TO_DO]
        else:
            with pytest.raises(DataError):
                require_whole(path)
        try:
            damage = fill(path)
        except ConfigError as error:  # the headers cannot even be read
            refused += 1
            assert "damaged" in str(error) or "is no file of format" in str(error)
            assert "--force starts anew" in str(error)
            continue
        if place not in left:
            assert path.read_bytes() == content, place
            assert damage or place in statuses
    assert 0 < refused < len(content) // share // 3


def test_damage_is_told(tmp_path):
    path = tmp_path / "a.h5"
    fill(path)
    content = path.read_bytes()
    with Store(path) as store:
        places = {name: item.offset for name, item in store._arrays.items()}
    for name, told in {
        "pseudo/sky": "realization 0",
        ROWS: "realization 0",
        "weights": "weights",
        "numbers": "numbers",
        "fixed/map": "the fixed signals",
    }.items():
        flipped(path, content, places[name], 0)
        with pytest.raises(DataError, match=f"a.h5: is damaged: {told} .the petamap mc that made it"):
            require_whole(path)
        assert fill(path) == told
        assert path.read_bytes() == content
    with h5py.File(path, "r+") as file:
        file["choices"].attrs["width"] = 11
    assert HEADER in fill(path) and path.read_bytes() == content
    with h5py.File(path, "r+") as file:
        file.attrs["run_id"] = np.bytes_(b"two")
    with pytest.raises(ConfigError, match="is damaged: header"):
        open_store(path, layout(), force=False)
    told = "header, realizations 0, 1, 2, the fixed signals"  # they are of another run
    assert fill(path, run_id="two") == told and require_whole(path)[0] == DONE
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"is damaged|no HDF5 file"):
        require_whole(path)


def test_a_kill_between_checksum_and_status(tmp_path):
    path = tmp_path / "a.h5"
    fill(path)
    whole = path.read_bytes()
    with Store(path) as store:
        flipped(path, whole, store._arrays["status"].offset, 0)
    assert require_whole(path).tolist() == [DONE, FAILED, DONE, TO_DO]
    assert fill(path) == "" and path.read_bytes() == whole


def test_many_damaged_realizations_are_counted(tmp_path):
    path = tmp_path / "a.h5"
    create_store(path, layout(9))
    with Store(path) as store:
        for number in range(9):
            store.write(number, row(number))
        item = store._arrays["pseudo/sky"]
    content = bytearray(path.read_bytes())
    for number in range(8):
        content[item.offset + number * item.row_bytes] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="is damaged: realizations 0, 1, 2, 3, 4 and 3 more"):
        require_whole(path)
