"""PETSc's star forest as a reduction: roots are the keys that a rank owns, leaves the other copies.

The graph comes from the keys alone, by ``PetscSFCreateByMatchingIndices``, which petsc4py lacks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array

Reduction = Callable[[FloatArray], object]


def petsc() -> Any:
    """Return ``petsc4py.PETSc``; raise ImportError where it is missing or counts in 64 bits."""
    import petsc4py

    petsc4py.init([])
    from petsc4py import PETSc

    if PETSc.IntType != np.int32:
        raise ImportError("this benchmark speaks to a PETSc with indices of 32 bits")
    return PETSc


def star_forest(mpi_comm: Any, keys: Int64Array, k: int, kind: str) -> Reduction:
    """Set up a forest of PETSc's type `kind` ("basic", "neighbor", ...). Collective.

    The forest returned works in place: its leaves are the copies that another rank owns, so that a rank's own
    values need not be copied and cleared.
    """
    from mpi4py import MPI

    module = petsc()
    matched = _matched(module, MPI, mpi_comm, keys.astype(np.int32))
    n_roots, leaves, roots = matched.getGraph()
    leaves = np.arange(len(roots), dtype=np.int32) if leaves is None else leaves
    ghosts = roots[:, 0] != mpi_comm.Get_rank()
    forest = module.SF().create(mpi_comm)
    forest.setType(kind)
    forest.setGraph(n_roots, leaves[ghosts], roots[ghosts])
    forest.setUp()
    matched.destroy()
    row = MPI.DOUBLE.Create_contiguous(k).Commit()

    def reduce(values: FloatArray) -> None:
        flat = values.reshape(-1)
        forest.reduceBegin(row, flat, flat, MPI.SUM)
        forest.reduceEnd(row, flat, flat, MPI.SUM)
        forest.bcastBegin(row, flat, flat, MPI.REPLACE)
        forest.bcastEnd(row, flat, flat, MPI.REPLACE)

    return reduce


def _matched(module: Any, mpi: Any, mpi_comm: Any, keys: np.ndarray) -> Any:
    """Return the forest in which each key is a leaf of the highest rank that holds it."""
    library = ctypes.CDLL(module.__file__)  # brings PETSc's own symbols with it
    handle = ctypes.c_void_p.from_address(mpi._addressof(mpi_comm))
    n_keys = mpi_comm.allreduce(int(keys[-1]) + 1 if len(keys) else 0, mpi.MAX)
    layout, forest = ctypes.c_void_p(), ctypes.c_void_p()
    indices = keys.ctypes.data_as(ctypes.c_void_p)
    n, decide = ctypes.c_int(len(keys)), ctypes.c_int(-1)
    failed = library.PetscLayoutCreateFromSizes(handle, decide, ctypes.c_int(n_keys), 1, ctypes.byref(layout))
    failed |= library.PetscSFCreateByMatchingIndices(
        layout, n, indices, None, 0, n, indices, None, 0, None, ctypes.byref(forest)
    )
    failed |= library.PetscLayoutDestroy(ctypes.byref(layout))
    if failed:
        raise RuntimeError("PETSc could not match the keys")
    wrapped = _wrap(module, forest)
    library.PetscObjectDereference(forest)
    return wrapped


def _wrap(module: Any, forest: ctypes.c_void_p) -> Any:
    """Return a PETSc object made by C as one of Python's; it takes a reference of its own."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(module.__pyx_capi__["PyPetscSF_New"], b"PyObject *(PetscSF)")
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(address)(forest)
