// Quaternions (x, y, z, w) and vectors, as the kernels of pointing compute with them.
#pragma once

#include <cmath>
#include <cstdint>

#include "petamap/sky/angle.h"

namespace petamap::pointing {

struct Quaternion {
    double x, y, z, w;
};

struct Vector {
    double x, y, z;
};

[[gnu::always_inline]] inline Quaternion operator*(const Quaternion& a, const Quaternion& b) {
    return {a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y, a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
            a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w, a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z};
}

inline Vector operator+(const Vector& a, const Vector& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
inline Vector operator-(const Vector& a, const Vector& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline Vector operator*(double s, const Vector& a) { return {s * a.x, s * a.y, s * a.z}; }

inline Quaternion conjugate(const Quaternion& q) { return {-q.x, -q.y, -q.z, q.w}; }

inline Quaternion at(const double* quaternions, std::int64_t i) {
    const double* q = quaternions + 4 * i;
    return {q[0], q[1], q[2], q[3]};
}

// Half the rotation vector of q.
inline Vector logarithm(const Quaternion& q) {
    const double length = std::sqrt(q.x * q.x + q.y * q.y + q.z * q.z);
    const double scale = length > 0.0 ? sky::angle_of(length, q.w) / length : 0.0;
    return {scale * q.x, scale * q.y, scale * q.z};
}

inline Vector rotate(const Quaternion& q, const Vector& v) {
    const Quaternion r = q * Quaternion{v.x, v.y, v.z, 0.0} * conjugate(q);
    return {r.x, r.y, r.z};
}

// What a quaternion's line of sight and polarization axis depend on. With q = Rz(phi) Ry(theta) Rz(psi),
// (w + iz) has phase (phi + psi)/2 and (y + ix) has (psi - phi)/2: the product has the polarization angle psi
// (from the southward meridian, COSMO), the product with the conjugate phi.
struct Sight {
    double x, y, z;       // where it looks
    double cosine, sine;  // of psi, but for a common factor
};

[[gnu::always_inline]] inline Sight sight_of(const Quaternion& q) {
    const double wy = q.w * q.y, xz = q.x * q.z, wx = q.w * q.x, yz = q.y * q.z;
    return {2.0 * (wy + xz), 2.0 * (yz - wx), (q.w * q.w + q.z * q.z) - (q.x * q.x + q.y * q.y), wy - xz,
            wx + yz};
}

}  // namespace petamap::pointing
