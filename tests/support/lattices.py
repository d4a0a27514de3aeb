"""Fields and links on a whole lattice, and the staggered operator on it by NumPy."""

import numpy as np


def whole_field(shape, k, dtype="c16"):
    rng = np.random.default_rng(k)
    return (rng.standard_normal((*shape, k)) + 1j * rng.standard_normal((*shape, k))).astype(dtype)


def made_links(shape):
    """Random unitary matrices of determinant 1 on each link of the global lattice."""
    rng = np.random.default_rng(11)
    size = (len(shape), *shape, 3, 3)
    links, _ = np.linalg.qr(rng.standard_normal(size) + 1j * rng.standard_normal(size))
    return links / np.linalg.det(links)[..., None, None] ** (1 / 3)


def dense_apply(links, mass, vector):
    """Apply the operator by NumPy on the global lattice; odd sites are zero before and after."""

    def hop(v):
        total, phase = np.zeros_like(v), np.ones(v.shape[:-1])
        for axis in range(v.ndim - 1):
            ahead, behind = np.roll(v, -1, axis), np.roll(v, 1, axis)
            back = np.roll(links[axis], 1, axis).conj()
            forth = np.einsum("...ij,...j->...i", links[axis], ahead)
            total += 0.5 * phase[..., None] * (forth - np.einsum("...ji,...j->...i", back, behind))
            along = np.arange(v.shape[axis]).reshape([-1 if i == axis else 1 for i in range(v.ndim - 1)])
            phase = phase * (-1.0) ** along
        return total

    return mass**2 * vector - hop(hop(vector))
