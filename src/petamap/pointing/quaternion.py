"""Quaternions as NumPy arrays (..., 4), scalar last: (x, y, z, w), as in the C++ kernels.

A unit quaternion rotates a vector v to q v q*; ``multiply(a, b)`` rotates by b first, then by a.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import FloatArray


def multiply(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """Return the Hamilton product a b, with broadcasting of shapes (..., 4)."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    (ax, ay, az, aw), (bx, by, bz, bw) = (np.moveaxis(q, -1, 0) for q in (a, b))
    product = np.empty(np.broadcast_shapes(a.shape, b.shape))
    product[..., 0] = aw * bx + bw * ax + (ay * bz - az * by)
    product[..., 1] = aw * by + bw * ay + (az * bx - ax * bz)
    product[..., 2] = aw * bz + bw * az + (ax * by - ay * bx)
    product[..., 3] = aw * bw - (ax * bx + ay * by + az * bz)
    return product


def conjugate(q: npt.ArrayLike) -> FloatArray:
    """Return the conjugate, which is the inverse rotation for unit quaternions."""
    reverse: FloatArray = np.asarray(q, float) * np.array([-1.0, -1.0, -1.0, 1.0])
    return reverse


def rotate(q: npt.ArrayLike, v: npt.ArrayLike) -> FloatArray:
    """Return vectors (..., 3) rotated by unit quaternions (..., 4)."""
    q, v = np.asarray(q, float), np.asarray(v, float)
    twice = 2.0 * np.cross(q[..., :3], v)
    return v + q[..., 3:] * twice + np.cross(q[..., :3], twice)


def about_z(angle: npt.ArrayLike) -> FloatArray:
    """Return the rotation by `angle` (radians) about Z."""
    return _about(2, angle)


def about_y(angle: npt.ArrayLike) -> FloatArray:
    """Return the rotation by `angle` (radians) about Y."""
    return _about(1, angle)


def about_x(angle: npt.ArrayLike) -> FloatArray:
    """Return the rotation by `angle` (radians) about X."""
    return _about(0, angle)


def _about(axis: int, angle: npt.ArrayLike) -> FloatArray:
    half = 0.5 * np.asarray(angle, float)
    q = np.zeros((*half.shape, 4))
    q[..., axis], q[..., 3] = np.sin(half), np.cos(half)
    return q


def from_angles(theta: npt.ArrayLike, phi: npt.ArrayLike, psi: npt.ArrayLike) -> FloatArray:
    """Return Rz(phi) Ry(theta) Rz(psi), angles in radians.

    Z points to colatitude theta and longitude phi; X is at the angle psi from the southward meridian,
    positive to the east (COSMO).
    """
    return multiply(multiply(about_z(phi), about_y(theta)), about_z(psi))


def half_rotation_vector(q: npt.ArrayLike) -> FloatArray:
    """Return half the rotation vectors (..., 3) of unit quaternions (their logarithm), of length 0 to pi."""
    q = np.asarray(q, float)
    length = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    angle = np.arctan2(length, q[..., 3:])
    half: FloatArray = np.divide(angle, length, out=np.ones_like(length), where=length > 0) * q[..., :3]
    return half


def from_half_rotation_vector(half: npt.ArrayLike) -> FloatArray:
    """Return the unit quaternions of half rotation vectors (..., 3) (their exponential)."""
    half = np.asarray(half, float)
    length = np.linalg.norm(half, axis=-1, keepdims=True)
    return np.concatenate([np.sinc(length / np.pi) * half, np.cos(length)], axis=-1)


def align_signs(q: npt.ArrayLike) -> FloatArray:
    """Return the sequence (n, 4) with signs for which consecutive quaternions have a non-negative product."""
    q = np.asarray(q, float)
    flips = np.sum(q[1:] * q[:-1], axis=-1) < 0
    signs = np.where(np.concatenate([[False], np.cumsum(flips) % 2 == 1]), -1.0, 1.0)
    same: FloatArray = signs[:, None] * q
    return same


def slerp(a: npt.ArrayLike, b: npt.ArrayLike, u: npt.ArrayLike) -> FloatArray:
    """Return the spherical linear interpolation from a (u = 0) to b (u = 1), along the shorter arc."""
    step = multiply(conjugate(a), b)
    step = np.where(step[..., 3:] < 0, -step, step)
    return multiply(
        a, from_half_rotation_vector(np.asarray(u, float)[..., None] * half_rotation_vector(step))
    )


def angle_between(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """Return the angle (radians) between vectors (..., 3), accurate for small angles."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    angle: FloatArray = np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), np.sum(a * b, axis=-1))
    return angle
