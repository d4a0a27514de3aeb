#include "petamap/pointing/compressed.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace petamap::pointing {
namespace {

constexpr std::int64_t kChunk = 512;  // 9 arrays of doubles stay in the first-level cache

struct Quaternion {
    double x, y, z, w;
};

struct Vector {
    double x, y, z;
};

struct Chunk {
    alignas(64) double qx[kChunk], qy[kChunk], qz[kChunk], qw[kChunk];
    alignas(64) double x[kChunk], y[kChunk], z[kChunk];
    alignas(64) double cosine[kChunk], sine[kChunk];
};

Quaternion operator*(const Quaternion& a, const Quaternion& b) {
    return {a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y, a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
            a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w, a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z};
}

Vector operator+(const Vector& a, const Vector& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
Vector operator-(const Vector& a, const Vector& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
Vector operator*(double s, const Vector& a) { return {s * a.x, s * a.y, s * a.z}; }

Quaternion conjugate(const Quaternion& q) { return {-q.x, -q.y, -q.z, q.w}; }

Quaternion at(const double* quaternions, std::int64_t i) {
    const double* q = quaternions + 4 * i;
    return {q[0], q[1], q[2], q[3]};
}

// Half the rotation vector of q.
Vector logarithm(const Quaternion& q) {
    const double length = std::sqrt(q.x * q.x + q.y * q.y + q.z * q.z);
    const double scale = length > 0.0 ? std::atan2(length, q.w) / length : 0.0;
    return {scale * q.x, scale * q.y, scale * q.z};
}

Vector rotate(const Quaternion& q, const Vector& v) {
    const Quaternion r = q * Quaternion{v.x, v.y, v.z, 0.0} * conjugate(q);
    return {r.x, r.y, r.z};
}

double position(const Knots& knots, std::int64_t sample) {
    return (static_cast<double>(sample) - knots.offset) / knots.spacing;
}

// The knot before a sample; the first and last intervals also serve what lies beyond them.
std::int64_t interval_of(const Knots& knots, std::int64_t sample) {
    const auto i = static_cast<std::int64_t>(std::floor(position(knots, sample)));
    return std::clamp<std::int64_t>(i, 0, knots.n - 2);
}

// The end of the run of samples that share the interval of `sample`, at most `stop`.
std::int64_t interval_end(const Knots& knots, std::int64_t interval, std::int64_t sample, std::int64_t stop) {
    if (interval == knots.n - 2) return stop;
    const double knot = knots.offset + static_cast<double>(interval + 1) * knots.spacing;
    std::int64_t end = std::clamp(static_cast<std::int64_t>(std::ceil(knot)), sample + 1, stop);
    while (end > sample + 1 && interval_of(knots, end - 1) > interval) --end;
    while (end < stop && interval_of(knots, end) == interval) ++end;
    return end;
}

// q(u) = base * exp(c1 u + c2 u^2 + c3 u^3) between two knots, u from 0 to 1.
struct Segment {
    Quaternion base;
    Vector c1, c2, c3;
};

// The cubic through the rotation vectors, seen from knot i, of the 4 knots about the interval: exact for a
// constant rotation, and of fourth order in the spacing otherwise.
Segment cubic_segment(const double* boresight, std::int64_t n_knots, std::int64_t i) {
    const std::int64_t first = std::clamp<std::int64_t>(i - 1, 0, n_knots - 4);
    const Quaternion base = at(boresight, i);
    Vector f[4];
    for (int j = 0; j < 4; ++j) f[j] = logarithm(conjugate(base) * at(boresight, first + j));
    const Vector d1 = f[1] - f[0], d2 = f[2] - 2.0 * f[1] + f[0];
    const Vector d3 = f[3] - 3.0 * f[2] + 3.0 * f[1] - f[0];
    const Vector a3 = (1.0 / 6.0) * d3, a2 = 0.5 * (d2 - d3), a1 = d1 - 0.5 * d2 + (1.0 / 3.0) * d3;
    const auto shift = static_cast<double>(i - first);
    return {base, a1 + 2.0 * shift * a2 + 3.0 * shift * shift * a3, a2 + 3.0 * shift * a3, a3};
}

Segment linear_segment(const double* boresight, std::int64_t i) {
    const Quaternion base = at(boresight, i);
    return {base, logarithm(conjugate(base) * at(boresight, i + 1)), {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
}

// base * exp(c) * detector = (base * detector) * exp(detector^-1 c detector): one product a sample.
Segment seen_by(const Quaternion& detector, const Segment& s) {
    const Quaternion back = conjugate(detector);
    return {s.base * detector, rotate(back, s.c1), rotate(back, s.c2), rotate(back, s.c3)};
}

// Taylor series of cos(h) and sin(h)/h in h^2, to 1e-12 at a right angle of h and 1e-16 below half of it.
[[gnu::always_inline]] inline double cosine_of(double h2) {
    return 1.0 + h2 * (-1.0 / 2 +
                       h2 * (1.0 / 24 +
                             h2 * (-1.0 / 720 +
                                   h2 * (1.0 / 40320 + h2 * (-1.0 / 3628800 +
                                                             h2 * (1.0 / 479001600 +
                                                                   h2 * (-1.0 / 87178291200. +
                                                                         h2 * (1.0 / 20922789888000.))))))));
}

[[gnu::always_inline]] inline double sinc_of(double h2) {
    return 1.0 +
           h2 * (-1.0 / 6 +
                 h2 * (1.0 / 120 + h2 * (-1.0 / 5040 +
                                         h2 * (1.0 / 362880 + h2 * (-1.0 / 39916800 +
                                                                    h2 * (1.0 / 6227020800. +
                                                                          h2 * (-1.0 / 1307674368000.)))))));
}

// Quaternions of n samples from `sample`, all in one interval, at `to` in the chunk.
void fill_segment(const Segment& segment, const Knots& knots, std::int64_t interval, std::int64_t sample,
                  std::int64_t n, std::int64_t to, Chunk& chunk) {
    const Segment s = segment;  // not reloaded after every store
    const double knot = static_cast<double>(interval), spacing = knots.spacing;
    const double first = static_cast<double>(sample), offset = knots.offset;
    double *qx = chunk.qx + to, *qy = chunk.qy + to, *qz = chunk.qz + to, *qw = chunk.qw + to;
#pragma omp simd
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(n); ++k) {
        const double u = ((first + static_cast<double>(k)) - offset) / spacing - knot;
        const double hx = u * (s.c1.x + u * (s.c2.x + u * s.c3.x));
        const double hy = u * (s.c1.y + u * (s.c2.y + u * s.c3.y));
        const double hz = u * (s.c1.z + u * (s.c2.z + u * s.c3.z));
        const double h2 = hx * hx + hy * hy + hz * hz;
        const double scale = sinc_of(h2), w = cosine_of(h2);
        const double x = scale * hx, y = scale * hy, z = scale * hz;
        qx[k] = s.base.w * x + s.base.x * w + s.base.y * z - s.base.z * y;
        qy[k] = s.base.w * y - s.base.x * z + s.base.y * w + s.base.z * x;
        qz[k] = s.base.w * z + s.base.x * y - s.base.y * x + s.base.z * w;
        qw[k] = s.base.w * w - s.base.x * x - s.base.y * y - s.base.z * z;
    }
}

// A piece of the boresight; samples count from its first one.
struct Piece {
    const double* boresight;  // (knots.n, 4)
    Knots knots;
    int degree;  // of the rotation vector between knots: 1 is SLERP; 3 needs 4 knots
    std::int64_t first, stop;
};

// The last piece also serves what lies beyond it.
Piece piece_of(const Boresight& b, std::int64_t sample) {
    std::int64_t low = 0, high = b.n_pieces;  // the last piece that begins at or before the sample
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (b.ranges[2 * middle] <= sample ? low : high) = middle;
    }
    const std::int64_t *range = b.ranges + 2 * low, *next = range + 2;
    const double* how = b.interpolation + 3 * low;
    return {b.knots + 4 * range[1],
            {next[1] - range[1], how[0], how[1]},
            static_cast<int>(how[2]),
            range[0],
            low + 1 < b.n_pieces ? next[0] : std::numeric_limits<std::int64_t>::max()};
}

// Knots at every sample, up to `stop`, need no interpolation.
bool at_full_rate(const Knots& knots, std::int64_t stop) {
    return knots.spacing == 1.0 && knots.offset == 0.0 && knots.n >= stop;
}

void fill_full_rate(const Piece& p, const Quaternion& d, std::int64_t start, std::int64_t n, std::int64_t to,
                    Chunk& chunk) {
    const double* knots = p.boresight + 4 * start;
    double *qx = chunk.qx + to, *qy = chunk.qy + to, *qz = chunk.qz + to, *qw = chunk.qw + to;
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) {
        const double x = knots[4 * k], y = knots[4 * k + 1], z = knots[4 * k + 2], w = knots[4 * k + 3];
        qx[k] = w * d.x + x * d.w + y * d.z - z * d.y;
        qy[k] = w * d.y - x * d.z + y * d.w + z * d.x;
        qz[k] = w * d.z + x * d.y - y * d.x + z * d.w;
        qw[k] = w * d.w - x * d.x - y * d.y - z * d.z;
    }
}

// Quaternions of samples [start, stop) of a piece, at `to` in the chunk.
void fill_piece(const Piece& p, const Quaternion& detector, std::int64_t start, std::int64_t stop,
                std::int64_t to, Chunk& chunk) {
    if (at_full_rate(p.knots, stop)) return fill_full_rate(p, detector, start, stop - start, to, chunk);
    const bool cubic = p.degree == 3 && p.knots.n >= 4;
    for (std::int64_t sample = start; sample < stop;) {
        const std::int64_t i = interval_of(p.knots, sample);
        const std::int64_t end = interval_end(p.knots, i, sample, stop);
        const Segment segment =
            cubic ? cubic_segment(p.boresight, p.knots.n, i) : linear_segment(p.boresight, i);
        fill_segment(seen_by(detector, segment), p.knots, i, sample, end - sample, to, chunk);
        to += end - sample;
        sample = end;
    }
}

void fill_quaternions(const CompressedPointing& p, const Quaternion& detector, std::int64_t start,
                      std::int64_t n, Chunk& chunk) {
    const std::int64_t stop = start + n;
    for (std::int64_t sample = start; sample < stop;) {
        const Piece piece = piece_of(p.boresight, sample);
        const std::int64_t end = std::min(stop, piece.stop);
        fill_piece(piece, detector, sample - piece.first, end - piece.first, sample - start, chunk);
        sample = end;
    }
}

// With q = Rz(phi) Ry(theta) Rz(psi), (w + iz) has phase (phi + psi)/2 and (y + ix) has (psi - phi)/2: the
// product has the polarization angle psi (from the southward meridian, COSMO), the product with the conjugate
// phi.
void fill_directions(std::int64_t n, Chunk& c) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) {
        const double x = c.qx[k], y = c.qy[k], z = c.qz[k], w = c.qw[k];
        const double wy = w * y, xz = x * z, wx = w * x, yz = y * z;
        c.x[k] = 2.0 * (wy + xz);
        c.y[k] = 2.0 * (yz - wx);
        c.z[k] = (w * w + z * z) - (x * x + y * y);
        c.cosine[k] = wy - xz;
        c.sine[k] = wx + yz;
    }
}

// Turns, |turns| < 2^18, to the nearest turn / 2^32, wrapped: the low bits of the sum with a large number.
[[gnu::always_inline]] inline std::uint32_t wrapped(double turns) {
    constexpr double kScale = 4294967296.0, kMagic = 6755399441055744.0;  // 2^32, 1.5 * 2^52
    return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(turns * kScale + kMagic));
}

// atan2(sine, cosine) / pi, which is twice the angle in turns, to 2e-11: the polynomial interpolates
// atan(t) / (pi t) at the Chebyshev nodes of t^2 in [0, 1].
[[gnu::always_inline]] inline double twice_the_angle(double sine, double cosine) {
    const double a = std::fabs(cosine), b = std::fabs(sine);
    const double larger = a > b ? a : b, smaller = a > b ? b : a;
    const double t = smaller / (larger > 0.0 ? larger : 1.0);
    const double x = t * t;
    double p = -0.00021116529152073513;
    p = p * x + 0.0015063962880542835;
    p = p * x - 0.005038311121337857;
    p = p * x + 0.010767219284366036;
    p = p * x - 0.01717494437405795;
    p = p * x + 0.02300832434424492;
    p = p * x - 0.028565676477975994;
    p = p * x + 0.03530668734911824;
    p = p * x - 0.04546678971585549;
    p = p * x + 0.06366166243512578;
    p = p * x - 0.10610328889329496;
    p = p * x + 0.3183098861612873;
    double turns = p * t;
    turns = b > a ? 0.5 - turns : turns;
    turns = cosine < 0.0 ? 1.0 - turns : turns;
    return sine < 0.0 ? -turns : turns;
}

void fill_angles(const Chunk& c, std::int64_t n, std::uint32_t shift, std::uint32_t* angles) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) angles[k] = wrapped(twice_the_angle(c.sine[k], c.cosine[k])) + shift;
}

// Four times the angle of the half-wave plate.
void add_uniform_plate(const CompressedPointing& p, std::int64_t start, std::int64_t n,
                       std::uint32_t* angles) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) {
        const std::uint64_t turns = p.plate_phase + p.plate_rate * static_cast<std::uint64_t>(start + k);
        angles[k] += static_cast<std::uint32_t>(turns >> 30);
    }
}

void add_sampled_plate(const CompressedPointing& p, std::int64_t start, std::int64_t n,
                       std::uint32_t* angles) {
    for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t i = interval_of(p.plate_knots, start + k);
        const double u = position(p.plate_knots, start + k) - static_cast<double>(i);
        const double turns = p.plate_turns[i] + u * (p.plate_turns[i + 1] - p.plate_turns[i]);
        angles[k] += wrapped(4.0 * (turns - std::floor(turns)));
    }
}

// phi = 2 a without a plate; with one phi = -2 theta, theta = 2 (gamma - plate) - a.
void response_angles(const CompressedPointing& p, std::int64_t detector, std::int64_t start, std::int64_t n,
                     const Chunk& chunk, std::uint32_t* angles) {
    if (p.plate == WavePlate::none) return fill_angles(chunk, n, 0, angles);
    constexpr double kTurn = 6.283185307179586;
    fill_angles(chunk, n, wrapped(-4.0 * p.gamma[detector] / kTurn), angles);
    if (p.plate == WavePlate::uniform)
        add_uniform_plate(p, start, n, angles);
    else
        add_sampled_plate(p, start, n, angles);
}

template <typename Use>
void in_chunks(const CompressedPointing& p, std::int64_t detector, std::int64_t start, std::int64_t stop,
               Use use) {
    Chunk chunk;
    const Quaternion quaternion = at(p.detectors, detector);
    for (std::int64_t begin = start; begin < stop; begin += kChunk) {
        const std::int64_t n = std::min(kChunk, stop - begin);
        fill_quaternions(p, quaternion, begin, n, chunk);
        use(begin, n, chunk);
    }
}

}  // namespace

void expand(const CompressedPointing& pointing, std::int64_t detector, const sky::Grid& grid,
            std::int64_t start, std::int64_t stop, std::int32_t* pixels, std::uint32_t* angles) {
    in_chunks(pointing, detector, start, stop, [&](std::int64_t begin, std::int64_t n, Chunk& chunk) {
        fill_directions(n, chunk);
        sky::pixels_of(grid, chunk.x, chunk.y, chunk.z, n, pixels + (begin - start));
        if (angles) response_angles(pointing, detector, begin, n, chunk, angles + (begin - start));
    });
}

void directions(const CompressedPointing& pointing, std::int64_t detector, std::int64_t start,
                std::int64_t stop, double* vectors, std::uint32_t* angles) {
    in_chunks(pointing, detector, start, stop, [&](std::int64_t begin, std::int64_t n, Chunk& chunk) {
        fill_directions(n, chunk);
        double* out = vectors + 3 * (begin - start);
        for (std::int64_t k = 0; k < n; ++k) {
            out[3 * k] = chunk.x[k];
            out[3 * k + 1] = chunk.y[k];
            out[3 * k + 2] = chunk.z[k];
        }
        response_angles(pointing, detector, begin, n, chunk, angles + (begin - start));
    });
}

void quaternions(const CompressedPointing& pointing, std::int64_t detector, std::int64_t start,
                 std::int64_t stop, double* out) {
    in_chunks(pointing, detector, start, stop, [&](std::int64_t begin, std::int64_t n, Chunk& chunk) {
        double* q = out + 4 * (begin - start);
        for (std::int64_t k = 0; k < n; ++k) {
            q[4 * k] = chunk.qx[k];
            q[4 * k + 1] = chunk.qy[k];
            q[4 * k + 2] = chunk.qz[k];
            q[4 * k + 3] = chunk.qw[k];
        }
    });
}

}  // namespace petamap::pointing
