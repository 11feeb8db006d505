"""The generator Philox4x32-10 on the host: one block of four words, for keys and for tests.

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
"""

from __future__ import annotations

WORD = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """The four words of 32 bits of a counter under a key.

    >>> [hex(word) for word in philox((0, 0, 0, 0), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & WORD, (p0 >> 32) ^ c3 ^ k1, p0 & WORD
        k0, k1 = (k0 + _WEYL[0]) & WORD, (k1 + _WEYL[1]) & WORD
    return c0, c1, c2, c3
