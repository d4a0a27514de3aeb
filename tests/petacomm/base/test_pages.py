"""Zeros in pages of their own: what is never written takes no memory."""

import os
from pathlib import Path

import numpy as np
import pytest

from petacomm.base.pages import zero_pages

STATM = Path("/proc/self/statm")


def resident():
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_they_are_zeros_that_can_be_written():
    for large in True, False:
        pages = zero_pages(1 << 23, large=large)
        assert pages.dtype == np.int64 and not pages.any()
        pages[-1] = 7
        assert pages.sum() == 7


@pytest.mark.skipif(not STATM.exists(), reason="the system tells no resident memory")
def test_what_is_not_written_takes_no_memory():
    n_bytes = 1 << 28
    pages, before = zero_pages(n_bytes, large=False), resident()
    pages[:: (1 << 21) // 8] = 1  # a word in each large page
    assert resident() - before < n_bytes // 64


def test_no_memory_is_told():
    with pytest.raises(MemoryError, match="no memory for"):
        zero_pages(1 << 60)
