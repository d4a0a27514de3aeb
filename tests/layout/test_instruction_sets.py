"""Kernels return and write the same bits under each instruction set; `make test-arch` compares many more."""

import sys

import pytest
from arch_bits import differences, example_digests, kernel_digests, runnable_sets
from cases import cases

TESTS = [
    "tests/petamap/noise/test_convolver.py",
    "tests/petamap/mapmaking/test_templates_kernels.py",
    "tests/petamap/pointing/test_compressed.py",
    "tests/petamap/simulation/test_sky.py",
    "tests/petamap/spectra/test_coupling.py",
    *("-k", "not ranks"),  # what ranks call is not seen
]
LOWEST, *OTHERS = runnable_sets(sys.executable)


def digests(name, folder):
    found = kernel_digests(sys.executable, name, TESTS, folder)
    assert len({key.rpartition(" ")[2] for key in found}) > 10, "functions that were called"
    return found | example_digests(sys.executable, name, ["spire"], folder)


@pytest.fixture(scope="module")
def of_the_lowest(tmp_path_factory):
    return digests(LOWEST, tmp_path_factory.mktemp(LOWEST))


@pytest.mark.parametrize("name", cases(*OTHERS[:1], long=OTHERS[1:]))
def test_bits_are_those_of_the_lowest_set(of_the_lowest, name, tmp_path):
    assert not differences(of_the_lowest, digests(name, tmp_path))


def test_differences_are_seen():
    one = {"a": "1", "b": "2"}
    assert differences(one, dict(one)) == []
    assert differences(one, {"a": "1", "b": "3", "c": "4"}) == ["b", "c"]
