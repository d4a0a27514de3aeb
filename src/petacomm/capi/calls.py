"""What ``petacomm.c`` calls: arrays are addresses of memory, communicators Fortran's handles."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, UserError
from petacomm.base.text import shape_text
from petacomm.base.typing import AnyArray
from petacomm.mpi import MpiCommunicator, agree_on_errors
from petacomm.mpi.communicator import Operation

if TYPE_CHECKING:
    from petacomm.redistribution import Redistribution
    from petacomm.reduction import Halo, ReductionPlan

# As petacomm.h numbers them.
_TYPES = (np.float64, np.float32, np.int64, np.uint8)
_OPERATIONS: tuple[Operation, ...] = ("sum", "max", "min", "or")


def error_text(error: BaseException) -> str:
    """Return what the program is told of an error: the words of the user's errors, and the kind of others."""
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def reduction_plan(comm: int, n_keys: int, keys: int, algorithm: str | None) -> ReductionPlan:
    """Return the plan of reductions of keys. Collective."""
    from petacomm.reduction import ReductionPlan
    from petacomm.sharing import IndexMap

    ours = MpiCommunicator.of_handle(comm)
    with agree_on_errors(ours):
        held = _array(keys, np.int64, (n_keys,)).copy()  # the program may reuse the memory
    return ReductionPlan(IndexMap(ours, held), algorithm=algorithm or "auto")


def reduction(
    verb: str, plan: ReductionPlan, values: int, width: int, dtype: int, op: int, exact: int
) -> None:
    """Reduce values in place, or begin to. Collective."""
    rows = _rows(plan.index_map.n_keys, values, width, dtype)
    getattr(plan, verb)(rows, _operation(op), exact=bool(exact))


def fill_ghosts(plan: ReductionPlan, values: int, width: int, dtype: int) -> None:
    """Give ghosts the values of their owners. Collective."""
    plan.broadcast(_rows(plan.index_map.n_keys, values, width, dtype))


def owners(plan: ReductionPlan, owned: int, multiplicity: int) -> None:
    """Write which keys the rank owns, and how many ranks hold each, where there is an address."""
    n_keys = (plan.index_map.n_keys,)
    if owned:
        _array(owned, np.uint8, n_keys)[:] = plan.owned
    if multiplicity:
        _array(multiplicity, np.int32, n_keys)[:] = plan.multiplicity


def halo(comm: int, n_owned: int, owned_keys: int, n_ghosts: int, ghost_keys: int) -> Halo:
    """Return the halo of keys and ghosts. Collective."""
    from petacomm.reduction import Halo

    ours = MpiCommunicator.of_handle(comm)
    with agree_on_errors(ours):
        owned, ghosts = (
            _array(keys, np.int64, (n,)) for n, keys in ((n_owned, owned_keys), (n_ghosts, ghost_keys))
        )
    return Halo(ours, owned, ghosts)


def halo_exchange(verb: str, plan: Halo, values: int, width: int, dtype: int) -> None:
    """Give ghosts the rows of their owners, or begin to. Collective."""
    getattr(plan, verb)(_rows(plan.n_owned + plan.n_ghosts, values, width, dtype))


def halo_reduction(verb: str, plan: Halo, values: int, width: int, dtype: int, op: int) -> None:
    """Reduce rows of ghosts onto owners, or begin to. Collective."""
    getattr(plan, verb)(_rows(plan.n_owned + plan.n_ghosts, values, width, dtype), _operation(op))


def halo_owners(plan: Halo, owners: int) -> None:
    """Write the rank that owns each ghost."""
    _array(owners, np.int32, (plan.n_ghosts,))[:] = plan.owners


def redistribution(
    comm: int,
    n_axes: int,
    shape: int,
    grid_before: int,
    order_before: int,
    grid_after: int,
    order_after: int,
    element_bytes: int,
) -> Redistribution:
    """Return the plan of a redistribution. Collective."""
    from petacomm.redistribution import ArrayLayout, Redistribution

    def tuple_at(address: int) -> tuple[int, ...]:
        return tuple(_array(address, np.int64, (n_axes,)).tolist()) if address else ()

    ours = MpiCommunicator.of_handle(comm)
    with agree_on_errors(ours):
        if n_axes < 1 or element_bytes < 1:
            raise ConfigError(
                f"{n_axes} axes of elements of {element_bytes} bytes", mend="both are 1 or more"
            )
        before, after = (
            ArrayLayout(tuple_at(shape), tuple_at(grid), tuple_at(order))
            for grid, order in ((grid_before, order_before), (grid_after, order_after))
        )
    return Redistribution(ours, before, after, np.dtype(f"V{element_bytes}"))


def local_shapes(plan: Redistribution, before: int, after: int) -> None:
    """Write the shapes of the rank's boxes, where there is an address."""
    for layout, address in ((plan.before, before), (plan.after, after)):
        if address:
            shape = layout.local_shape(plan.comm.rank)
            _array(address, np.int64, (len(shape),))[:] = shape


def redistribute(plan: Redistribution, before: int, after: int) -> None:
    """Move an array. Collective."""
    rank = plan.comm.rank
    source, target = (
        layout.local_array(_array(address, plan.dtype, (math.prod(layout.local_shape(rank)),)), rank)
        for layout, address in ((plan.before, before), (plan.after, after))
    )
    plan.run(source, target)


def reordered_handle(comm: int, n_targets: int, targets: int, n_bytes: int) -> int:
    """Return the handle of a communicator whose busiest link carries less. Collective."""
    from petacomm.mapping.reorder import gather_graph, reorder

    ours = MpiCommunicator.of_handle(comm)
    with agree_on_errors(ours):
        to, weights = _array(targets, np.int64, (n_targets,)), _array(n_bytes, np.float64, (n_targets,))
    return cast(MpiCommunicator, reorder(ours, gather_graph(ours, to, weights))).handle


def release(plan: object) -> None:
    """Drop the last reference to a plan."""
    del plan


def _operation(op: int) -> Operation:
    if not 0 <= op < len(_OPERATIONS):
        raise ConfigError(
            f"no operation {op}", mend="PETACOMM_SUM, PETACOMM_MAX, PETACOMM_MIN or PETACOMM_OR"
        )
    return _OPERATIONS[op]


def _rows(n_rows: int, address: int, width: int, dtype: int) -> AnyArray:
    if not 0 <= dtype < len(_TYPES):
        raise ConfigError(f"no type {dtype}", mend="PETACOMM_DOUBLE, _FLOAT, _INT64 or _UINT8")
    if width < 1:
        raise ConfigError(f"rows of {width} values", mend="1 or more")
    return _array(address, _TYPES[dtype], (n_rows, width))


def _array(address: int, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> AnyArray:
    """Return memory of the program as an array."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if max(*shape, n_bytes) >= 1 << 60:
        raise ConfigError(f"{shape_text(shape)} values", mend="no memory holds as many: give fewer")
    if n_bytes < 0 or (n_bytes and not address):
        raise ConfigError(
            f"no memory for an array of {shape[0]}", mend="give a pointer, and a size of 0 or more"
        )
    memory = memoryview((ctypes.c_char * n_bytes).from_address(address)) if n_bytes else bytearray()
    return np.frombuffer(memory, np.dtype(dtype)).reshape(shape)
