"""Where tokens change their names, two links go together if any two tokens do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pubweave.planning.bounds._kernels_pairs import project, restrict
from pubweave.planning.bounds._kernels_reach import Bits

TOKENS = 3
LINKS = 150  # more than two words of bits
Flags = npt.NDArray[np.bool_]


def drawn(seed: int) -> tuple[Flags, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Symmetric flags for pairs of positions, the number of positions, and their links."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(60, 100, TOKENS).astype(np.int32)
    most = int(counts.max())
    names = np.full((TOKENS, most), -1, dtype=np.int32)
    for m, count in enumerate(counts):
        names[m, :count] = rng.permutation(LINKS)[:count]
    flags = rng.random((TOKENS, TOKENS, most, most)) < 0.05
    flags &= np.arange(most) < counts[None, :, None, None]
    flags &= (np.arange(most) < counts[:, None])[:, None, :, None]
    return flags | flags.transpose(1, 0, 3, 2), counts, names


def bits(flags: Flags) -> Bits:
    wide = np.pad(flags, [(0, 0)] * (flags.ndim - 1) + [(0, -flags.shape[-1] % 64)])
    return np.packbits(wide, axis=-1, bitorder="little").view(np.uint64)


def naive(flags: Flags, counts: npt.NDArray[np.int32], names: npt.NDArray[np.int32]) -> Flags:
    out = np.zeros((LINKS, LINKS), dtype=np.bool_)
    for m, p in ((m, p) for m in range(TOKENS) for p in range(TOKENS) if m != p):
        for e in range(counts[m]):
            for f in range(counts[p]):
                if flags[m, p, e, f] and names[m, e] >= 0 and names[p, f] >= 0:
                    out[names[m, e], names[p, f]] = True
    return out


@pytest.mark.parametrize("seed", range(3))
def test_links_that_go_together_equal_their_twin(seed: int) -> None:
    flags, counts, names = drawn(seed)
    names[0, 5] = -1  # a link that the other layer does not have
    assert np.array_equal(
        project(bits(flags), counts, names, LINKS), bits(naive(flags, counts, names))
    )


@pytest.mark.parametrize("seed", range(3))
def test_only_pairs_on_links_that_go_together_are_left(seed: int) -> None:
    flags, counts, names = drawn(seed)
    together = np.random.default_rng(seed + 100).random((LINKS, LINKS)) < 0.5
    together |= together.T
    pairs = bits(flags)
    restrict(pairs, counts, names, bits(together))
    wanted = flags.copy()
    for m, p in ((m, p) for m in range(TOKENS) for p in range(TOKENS) if m != p):
        for e in range(counts[m]):
            for f in range(counts[p]):
                wanted[m, p, e, f] &= together[names[m, e], names[p, f]]
    for m, p in ((m, p) for m in range(TOKENS) for p in range(TOKENS) if m != p):
        assert np.array_equal(pairs[m, p, : counts[m]], bits(wanted)[m, p, : counts[m]])
