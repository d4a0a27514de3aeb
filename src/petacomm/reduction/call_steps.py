"""Steps of the calls of a plan: exact sums as integers, and operations at owners, around an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.reduction.algorithms import ReductionAlgorithm
from petacomm.reduction.call_checks import ReductionCall, Verb, as_rows
from petacomm.reduction.fixed_point import FixedPoint
from petacomm.reduction.row_exchange import CallSteps

# Function that changes rows (n_owned, ...) in place.
OwnerOperation: TypeAlias = Callable[[AnyArray], object]


@dataclass
class PendingCall:
    """Call of a plan or halo that has begun and not ended."""

    verb: Verb
    values: AnyArray
    steps: CallSteps


def call_steps(
    algorithm: ReductionAlgorithm,
    call: ReductionCall,
    values: AnyArray,
    owner_op: OwnerOperation | None,
    fixed: FixedPoint | None,
    words: Int64Array | None,
) -> CallSteps:
    """Do a call in steps.

    Parameters
    ----------
    algorithm : ReductionAlgorithm
    call : ReductionCall
    values : array (n_keys, ...)
    owner_op : callable, optional
        Applied to the reduced rows of owned keys.
    fixed : FixedPoint, optional
        Representation of an exact floating-point sum.
    words : int64 (n_keys, k), optional
        Memory for the values in this representation.
    """
    rows = as_rows(values)
    if call.verb == "broadcast":
        yield from algorithm.broadcast(rows)
        return
    terms: AnyArray = rows
    if fixed is not None and words is not None:
        terms = words
        fixed.to_words(rows, words)
    if call.verb == "allreduce" and owner_op is None:
        yield from algorithm.allreduce(terms, call.op)
        if fixed is not None:
            fixed.to_values(terms, rows)
        return
    yield from algorithm.reduce(terms, call.op)
    owned = np.flatnonzero(algorithm.graph.owner == algorithm.comm.rank)
    if fixed is not None:
        sums = np.empty((len(owned), rows.shape[1]), rows.dtype)
        fixed.to_values(terms[owned], sums)
        rows[owned] = sums
    if owner_op is not None:
        reduced = values[owned]
        owner_op(reduced)
        values[owned] = reduced
        yield from algorithm.broadcast(rows)
