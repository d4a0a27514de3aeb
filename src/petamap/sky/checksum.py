"""Checksums of FITS files (FITS standard 4.0, appendix J): ones' complement sums of 32-bit words.

They add up in any order, so that those who write parts of a file can sum each its own.
"""

from __future__ import annotations

import numpy as np

_WHOLE = 0xFFFFFFFF
# ASCII between the digits and the letters, and between capitals and small letters: not for a card
_PUNCTUATION = frozenset(range(0x3A, 0x41)) | frozenset(range(0x5B, 0x61))


def word_sum(data: bytes | memoryview) -> int:
    """Return the ones' complement sum of the big-endian 32-bit words of a buffer of whole words."""
    return folded(int(np.frombuffer(data, ">u4").sum(dtype=np.uint64)))


def folded(total: int) -> int:
    """Return a sum of word sums as a ones' complement sum: carries come back in at the low end."""
    while total >> 32:
        total = (total & _WHOLE) + (total >> 32)
    return total


def in_ascii(total: int) -> str:
    """Return the 16 characters of a CHECKSUM card that bring the sum of all words from `total` to -0."""
    characters = np.array([_spread(byte) for byte in (~total & _WHOLE).to_bytes(4, "big")]).T.ravel()
    return bytes(np.roll(characters, 1).astype(np.uint8)).decode("ascii")


def _spread(byte: int) -> list[int]:
    """Return four digits or letters that add up to a byte and four zeros."""
    quotient, remainder = divmod(byte, 4)
    four = [ord("0") + quotient] * 4
    four[0] += remainder
    while not _PUNCTUATION.isdisjoint(four):
        for i in (0, 2):
            if four[i] in _PUNCTUATION or four[i + 1] in _PUNCTUATION:
                four[i] += 1
                four[i + 1] -= 1
    return four
