"""Checksums of FITS files (FITS standard 4.0, appendix J): ones' complement sums of 32-bit words.

The sums are associative and commutative: ranks that write parts of a file can add their partial sums.
"""

from __future__ import annotations

import numpy as np

_ALL_ONES = 0xFFFFFFFF
# ASCII characters between digits and letters, and between upper and lower case: not allowed in the card
_PUNCTUATION = frozenset(range(0x3A, 0x41)) | frozenset(range(0x5B, 0x61))


def word_sum(data: bytes | memoryview) -> int:
    """Return the ones' complement sum of the big-endian 32-bit words of a buffer.

    The length of the buffer must be a multiple of 4 bytes.
    """
    return fold_carries(int(np.frombuffer(data, ">u4").sum(dtype=np.uint64)))


def fold_carries(total: int) -> int:
    """Reduce a sum of word sums to 32 bits by end-around carry."""
    while total >> 32:
        total = (total & _ALL_ONES) + (total >> 32)
    return total


def checksum_card(total: int) -> str:
    """Return the 16 characters of the CHECKSUM card: the encoded complement of `total`.

    With them, the sum of all words of the HDU becomes -0 (all ones). `total` is the sum with the card
    set to 16 zeros.
    """
    encoded = [_encode_byte(byte) for byte in (~total & _ALL_ONES).to_bytes(4, "big")]
    characters = np.array(encoded).T.ravel()
    return bytes(np.roll(characters, 1).astype(np.uint8)).decode("ascii")


def _encode_byte(byte: int) -> list[int]:
    """Return four ASCII digits or letters whose sum is `byte` plus four times ``ord("0")``."""
    quotient, remainder = divmod(byte, 4)
    four = [ord("0") + quotient] * 4
    four[0] += remainder
    while not _PUNCTUATION.isdisjoint(four):
        for i in (0, 2):
            if four[i] in _PUNCTUATION or four[i + 1] in _PUNCTUATION:
                four[i] += 1
                four[i + 1] -= 1
    return four
