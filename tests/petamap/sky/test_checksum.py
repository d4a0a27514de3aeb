"""Tests of FITS checksums, against their definition and astropy."""

import numpy as np
from astropy.io import fits
from hypothesis import given
from hypothesis import strategies as st

from petamap.sky.checksum import checksum_card, fold_carries, word_sum

WORD = st.integers(0, 2**32 - 1)


@given(st.lists(WORD, min_size=2, max_size=40), st.data())
def test_sums_of_parts_add_up_in_any_order(words, data):
    buffer = np.array(words, ">u4").tobytes()
    cut = 4 * data.draw(st.integers(0, len(words)))
    parts = word_sum(buffer[cut:]) + word_sum(buffer[:cut])
    assert fold_carries(parts) == word_sum(buffer)
    assert (word_sum(buffer) - sum(words)) % (2**32 - 1) == 0 and word_sum(buffer) < 2**32


@given(WORD)
def test_the_card_brings_the_sum_to_minus_zero(rest):
    def card(text):
        return f"CHECKSUM= '{text}'".ljust(80).encode("ascii")

    text = checksum_card(fold_carries(word_sum(card("0" * 16)) + rest))
    assert text.isalnum() and len(text) == 16
    assert fold_carries(word_sum(card(text)) + rest) == 0xFFFFFFFF


@given(WORD)
def test_astropy_writes_the_same_card(word):
    hdu = fits.PrimaryHDU(np.array([word], ">u4").view(">i4"))
    hdu.add_checksum()
    written = hdu.header["CHECKSUM"]
    hdu.header["CHECKSUM"] = "0" * 16
    total = word_sum(hdu.header.tostring().encode("ascii")) + word_sum(np.array([word], ">u4").tobytes())
    assert checksum_card(fold_carries(total)) == written
