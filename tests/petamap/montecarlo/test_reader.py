"""Tests of reading finished realizations from files."""

from dataclasses import replace
from unittest import mock

import h5py
import numpy as np
import pytest
from made_realizations import realizations, spectra, write

from petacomm.base.errors import DataError
from petamap.montecarlo import reader
from petamap.montecarlo.reader import find_montecarlo_file, read_results, reordered_weights
from petamap.montecarlo.store import DONE, Store
from petamap.sky.healpix import Healpix


@pytest.fixture
def made():
    few = realizations().select(slice(0, 8))
    return replace(few, iterations=np.arange(16).reshape(8, 2))


def test_finished_realizations(tmp_path, made):
    path = write(tmp_path / "made_mc.h5", made, failed=("not converged",), left=3)
    for place in (path, tmp_path):
        found = read_results(place)
        for part, values in made.pseudo.items():
            np.testing.assert_array_equal(found.realizations.pseudo[part], values)
        for name in ("numbers", "input", "weights", "iterations"):
            np.testing.assert_array_equal(getattr(found.realizations, name), getattr(made, name))
        assert found.realizations.choices == made.choices and found.realizations.names == made.names
        assert (found.failed, found.n_remaining) == (((8, "not converged"),), 3)
        assert (found.name, found.run_id, found.frame) == ("made", "0123", "galactic")
        np.testing.assert_array_equal(found.theory["TE"], spectra()[3])


def test_fixed_signals_are_subtracted(tmp_path, made):
    common = np.ones(made.main.shape[1:])
    added = replace(made, pseudo=made.pseudo | {"both": made.pseudo["both"] + common})
    path = write(tmp_path / "made_mc.h5", added, theory=False, fixed=common)
    found = read_results(path)
    np.testing.assert_allclose(found.realizations.pseudo["both"], made.pseudo["both"], rtol=0, atol=1e-15)
    assert found.theory is None


def test_ordering_of_weights(made):
    nest = Healpix(made.pixelization.n_side, nest=True)
    places = nest.reordered(np.arange(nest.n_pix))
    np.testing.assert_array_equal(reordered_weights(made, nest)[0], made.weights[0, places])
    assert reordered_weights(made, made.pixelization) is made.weights
    with pytest.raises(DataError, match="n_side 8, the Monte Carlo 16"):
        reordered_weights(made, Healpix(8))


def test_weights_of_few_pixels(tmp_path, made):
    path = write(tmp_path / "made_mc.h5", made)
    pixels = np.flatnonzero(made.weights[0])
    assert 0 < len(pixels) < made.pixelization.n_pix
    for numbers, error in ((pixels, ""), (pixels - pixels[0] - 1, "negative"), (pixels[1:], "broadcast")):
        with h5py.File(path, "r+") as file:
            del file["weights"]
            file["weights"] = made.weights[:, pixels]
            if "pixels" in file:
                del file["pixels"]
            file["pixels"] = numbers
        with mock.patch.object(reader, "require_whole", lambda _: np.full(made.n, DONE, np.uint8)):
            if error:
                with pytest.raises(DataError, match=f"is no file of a Monte Carlo: .*{error}"):
                    read_results(path)
            else:
                np.testing.assert_array_equal(read_results(path).realizations.weights, made.weights)


def test_invalid_files(tmp_path, made):
    with pytest.raises(DataError, match="no Monte Carlo here"):
        read_results(tmp_path)
    assert find_montecarlo_file(tmp_path) is None
    (tmp_path / "a_mc.h5").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"a_mc\.h5: is no HDF5 file"):
        read_results(tmp_path)
    write(tmp_path / "a_mc.h5", made)
    with h5py.File(tmp_path / "a_mc.h5", "r+") as file:
        file.attrs["version"] = 1
    with pytest.raises(DataError, match="is no file of format petamap-montecarlo 3"):
        read_results(tmp_path)
    with Store(write(tmp_path / "a_mc.h5", made)) as store:
        for number in made.numbers:
            store.fail(int(number), "not converged")
    with pytest.raises(
        DataError, match=r"a_mc\.h5: all realizations failed, number 0 by this: not converged"
    ):
        read_results(tmp_path)
    with Store(write(tmp_path / "a_mc.h5", made, left=2)) as store:
        for number in made.numbers:
            store.fail(int(number), "not converged")
    with pytest.raises(DataError, match=r"a_mc\.h5: no realization is finished"):
        read_results(tmp_path)
    write(tmp_path / "b_mc.h5", made)
    with pytest.raises(DataError, match="holds 2 Monte Carlos"):
        read_results(tmp_path)


def test_damaged_files(tmp_path, made):
    path = write(tmp_path / "a_mc.h5", made)
    whole = path.read_bytes()
    for name, what in {"status": "", "numbers": "numbers", "pseudo/sky": "realization 0"}.items():
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            file[name][0] += 1
        if what:
            with pytest.raises(DataError, match=rf"a_mc\.h5: is damaged: {what} \(the petamap mc"):
                read_results(tmp_path)
        else:  # the checksum of the row says it
            assert read_results(tmp_path).realizations.n == made.n
    with h5py.File(path, "r+") as file:
        del file["weights"]
    with pytest.raises(DataError, match=r"a_mc\.h5: is damaged"):
        read_results(tmp_path)
