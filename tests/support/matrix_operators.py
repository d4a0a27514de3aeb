"""Operators and preconditioners that are dense matrices."""

import numpy as np

from petacomm.mpi import SerialCommunicator
from petamap.mapmaking.linear_operators import Operator, Preconditioner
from petamap.mapmaking.vectors import Unknowns


class MatrixOperator(Operator):
    """A dense matrix on pixels, and the identity on gaps."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.comm, self.n_threads = SerialCommunicator(), 1

    def apply(self, vectors):
        pixels = np.einsum("ij,jsw->isw", self.matrix, vectors.pixels)
        return Unknowns(pixels, vectors.gaps.copy())


class MatrixPreconditioner(Preconditioner):
    """A dense matrix on pixels, and the identity on gaps."""

    def __init__(self, matrix):
        self.matrix = matrix

    def apply(self, vectors):
        return Unknowns(np.einsum("ij,jsw->isw", self.matrix, vectors.pixels), vectors.gaps.copy())


def positive(n, seed, condition=100.0):
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    return basis @ np.diag(np.geomspace(1.0, condition, n)) @ basis.T
