"""Reference results of reductions, by NumPy, one rank after another."""

import numpy as np

CALLS = [
    (3, np.int64, "sum"),
    (3, np.float64, "sum"),
    (1, np.int64, "sum"),
    (6, np.int64, "max"),
    (4, np.float64, "min"),
    (6, np.float32, "max"),
    (1, np.uint8, "or"),
    (2, np.uint8, "sum"),
]
UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "or": np.bitwise_or}


def scan_pattern(size):
    """Rings of pixels that drift from rank to rank and intersect at a pole; the last rank has none."""
    rings = [np.union1d(np.arange(200 * r, 200 * r + 500), np.arange(0, 5000, 97)) for r in range(size)]
    return [*rings[:-1], np.zeros(0, np.int64)] if size > 1 else rings


def make_values(rng, keys, k, dtype):
    if dtype == np.uint8:
        return rng.integers(0, 256, (len(keys), k), dtype)
    if dtype == np.int64:
        return rng.integers(-(2**63), 2**63, (len(keys), k), dtype, endpoint=False)
    return rng.standard_normal((len(keys), k)).astype(dtype)


def reduce_densely(pattern, values, op):
    """Return the reduction over all keys, by NumPy, one rank after another."""
    total = {}
    for keys, rows in zip(pattern, values, strict=True):
        for key, row in zip(keys.tolist(), rows, strict=True):
            total[key] = UFUNCS[op](total[key], row) if key in total else row
    return total


def at(total, keys, like):
    return np.array([total[key] for key in keys.tolist()], like.dtype).reshape(like.shape)


def check_calls(comm, plan, pattern, calls, seed):
    rng = np.random.default_rng(seed)
    for k, dtype, op in calls:
        values = [make_values(rng, rank_keys, k, dtype) for rank_keys in pattern]
        check_verbs(comm, plan, pattern, values, op)


def check_verbs(comm, plan, pattern, values, op):
    keys, mine, owned = pattern[comm.rank], values[comm.rank], plan.owned
    total = reduce_densely(pattern, values, op)
    result = plan.allreduce(mine.copy(), op)
    if mine.dtype.kind == "f" and op == "sum":
        np.testing.assert_allclose(result, at(total, keys, mine), rtol=1e-13, atol=1e-13)
        if plan.algorithm in ("pairwise", "owner"):
            assert result.tobytes() == at(total, keys, mine).tobytes(), "not in rank order"
    else:
        np.testing.assert_array_equal(result, at(total, keys, mine))
    for other_keys, other in comm.allgather((keys, result)):
        _, here, there = np.intersect1d(keys, other_keys, return_indices=True)
        assert result[here].tobytes() == other[there].tobytes(), "copies differ"
    reduced = plan.reduce(mine.copy(), op)
    np.testing.assert_array_equal(reduced[~owned], mine[~owned])
    np.testing.assert_allclose(reduced[owned], result[owned], rtol=1e-13, atol=1e-13)
    copied = plan.broadcast(np.where(owned[:, None], result, np.zeros_like(result)))
    assert copied.tobytes() == result.tobytes()
