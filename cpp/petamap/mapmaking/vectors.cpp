#include "petamap/mapmaking/vectors.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace petamap::mapmaking {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;
constexpr std::int64_t kWordsAtOnce = 1024;

// out = M in for one row; M is the upper triangle of a symmetric matrix.
template <int kStokes>
inline void multiply(const double* matrix, const double* in, double* out) {
    if constexpr (kStokes == 1) {
        out[0] = matrix[0] * in[0];
    } else if constexpr (kStokes == 2) {
        out[0] = matrix[0] * in[0] + matrix[1] * in[1];
        out[1] = matrix[1] * in[0] + matrix[2] * in[1];
    } else {
        out[0] = matrix[0] * in[0] + (matrix[1] * in[1] + matrix[2] * in[2]);
        out[1] = matrix[1] * in[0] + (matrix[3] * in[1] + matrix[4] * in[2]);
        out[2] = matrix[2] * in[0] + (matrix[4] * in[1] + matrix[5] * in[2]);
    }
}

// Call step(begin, end, products) for pieces of the rows; add up the products.
template <int kStokes, class Step>
base::ExactSum sum_rows(const Rows& rows, int n_threads, const Step& step) {
    static_assert(kRowsAtOnce * kStokes <= static_cast<std::int64_t>(base::ExactSum::kChunk));
    base::ExactSum total;
#pragma omp parallel num_threads(n_threads)
    {
        base::ExactSum sum;
        double products[kRowsAtOnce * kStokes];
#pragma omp for schedule(static) nowait
        for (std::int64_t begin = 0; begin < rows.n; begin += kRowsAtOnce) {
            const std::int64_t end = std::min(rows.n, begin + kRowsAtOnce);
            step(begin, end, products);
            sum.add(products, static_cast<std::size_t>((end - begin) * kStokes));
        }
#pragma omp critical
        total.add(sum);
    }
    return total;
}

template <int kStokes>
base::ExactSum settle_rows(const Rows& rows, const double* p, double* q, double step, int n_threads) {
    return sum_rows<kStokes>(rows, n_threads, [=](std::int64_t begin, std::int64_t end, double* products) {
        for (std::int64_t i = begin * kStokes; i < end * kStokes; ++i) {
            q[i] = static_cast<double>(std::bit_cast<std::int64_t>(q[i])) * step;
            products[i - begin * kStokes] = p[i] * q[i];
        }
    });
}

template <int kStokes>
base::ExactSum advance_rows(const Rows& rows, double alpha, const double* p, const double* q,
                            const double* inverse, double* x, double* r, int n_threads) {
    return sum_rows<kStokes>(rows, n_threads, [=](std::int64_t begin, std::int64_t end, double* products) {
        for (std::int64_t i = begin * kStokes; i < end * kStokes; ++i) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        for (std::int64_t i = begin; i < end; ++i) {
            double z[kStokes];
            multiply<kStokes>(inverse + i * triangle(kStokes), r + i * kStokes, z);
            for (int k = 0; k < kStokes; ++k) products[(i - begin) * kStokes + k] = z[k] * r[i * kStokes + k];
        }
    });
}

template <int kStokes>
double turn_rows(const Rows& rows, double beta, const double* inverse, const double* r, double* p,
                 int n_threads) {
    double largest = 0;
#pragma omp parallel for num_threads(n_threads) reduction(max : largest) schedule(static)
    for (std::int64_t i = 0; i < rows.n; ++i) {
        double z[kStokes], size = 0;
        multiply<kStokes>(inverse + i * triangle(kStokes), r + i * kStokes, z);
        for (int k = 0; k < kStokes; ++k) {
            p[i * kStokes + k] = z[k] + beta * p[i * kStokes + k];
            size += std::fabs(p[i * kStokes + k]);
        }
        largest = largest < size ? size : largest;
    }
    return largest;
}

// Eigenvalues of a symmetric matrix of up to 3 x 3 (the rest zero) by cyclic Jacobi rotations: three or four
// sweeps make it diagonal.
void eigenvalues(int n, double (&a)[3][3]) {
    for (int sweep = 0; sweep < 12; ++sweep) {
        const double off = std::fabs(a[0][1]) + std::fabs(a[0][2]) + std::fabs(a[1][2]);
        if (off <= 1e-17 * (std::fabs(a[0][0]) + std::fabs(a[1][1]) + std::fabs(a[2][2]))) return;
        for (int i = 0; i < n; ++i)
            for (int j = i + 1; j < n; ++j) {
                if (a[i][j] == 0) continue;
                const double theta = (a[j][j] - a[i][i]) / (2 * a[i][j]);
                const double t = std::copysign(1 / (std::fabs(theta) + std::sqrt(theta * theta + 1)), theta);
                const double c = 1 / std::sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < n; ++k) {
                    const double left = a[k][i], right = a[k][j];
                    a[k][i] = c * left - s * right;
                    a[k][j] = s * left + c * right;
                }
                for (int k = 0; k < n; ++k) {
                    const double left = a[i][k], right = a[j][k];
                    a[i][k] = c * left - s * right;
                    a[j][k] = s * left + c * right;
                }
            }
    }
}

double reciprocal_condition(int n, const double* matrix) {
    double a[3][3] = {};
    for (int i = 0, k = 0; i < n; ++i)
        for (int j = i; j < n; ++j, ++k) a[i][j] = a[j][i] = matrix[k];
    eigenvalues(n, a);
    double smallest = a[0][0], largest = a[0][0];
    for (int i = 1; i < n; ++i) {
        smallest = std::min(smallest, a[i][i]);
        largest = std::max(largest, a[i][i]);
    }
    return largest > 0 && smallest > 0 ? smallest / largest : 0;
}

void invert_one(int n, double* m) {
    if (n == 1) {
        m[0] = 1 / m[0];
    } else if (n == 2) {
        const double factor = 1 / (m[0] * m[2] - m[1] * m[1]);
        const double first = m[0];
        m[0] = m[2] * factor, m[1] *= -factor, m[2] = first * factor;
    } else {
        const double a = m[0], b = m[1], c = m[2], d = m[3], e = m[4], f = m[5];
        const double c00 = d * f - e * e, c01 = c * e - b * f, c02 = b * e - c * d;
        const double factor = 1 / (a * c00 + b * c01 + c * c02);
        m[0] = c00 * factor, m[1] = c01 * factor, m[2] = c02 * factor;
        m[3] = (a * f - c * c) * factor, m[4] = (b * c - a * e) * factor, m[5] = (a * d - b * b) * factor;
    }
}

// The instance of a function template for a number of Stokes parameters.
template <class Function>
Function pick(int n_stokes, Function one, Function two, Function three) {
    return n_stokes == 1 ? one : n_stokes == 2 ? two : three;
}

}  // namespace

void fold(std::int64_t* sums, int n_copies, std::int64_t n, std::int64_t* out, int n_threads) {
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t begin = 0; begin < n; begin += kWordsAtOnce) {
        const std::int64_t end = std::min(n, begin + kWordsAtOnce);
        std::copy(sums + begin, sums + end, out + begin);
        for (int copy = 1; copy < n_copies; ++copy)
            for (std::int64_t i = begin; i < end; ++i) out[i] += sums[copy * n + i];
        for (int copy = 0; copy < n_copies; ++copy)
            std::fill(sums + copy * n + begin, sums + copy * n + end, 0);
    }
}

base::ExactSum settle(const Rows& rows, const double* p, double* q, double step, int n_threads) {
    return pick(rows.n_stokes, settle_rows<1>, settle_rows<2>, settle_rows<3>)(rows, p, q, step, n_threads);
}

base::ExactSum advance(const Rows& rows, double alpha, const double* p, const double* q,
                       const double* inverse, double* x, double* r, int n_threads) {
    return pick(rows.n_stokes, advance_rows<1>, advance_rows<2>, advance_rows<3>)(rows, alpha, p, q, inverse,
                                                                                  x, r, n_threads);
}

double turn(const Rows& rows, double beta, const double* inverse, const double* r, double* p, int n_threads) {
    return pick(rows.n_stokes, turn_rows<1>, turn_rows<2>, turn_rows<3>)(rows, beta, inverse, r, p,
                                                                         n_threads);
}

void precondition(const Rows& rows, const double* inverse, const double* in, double* out, int n_threads) {
    const auto one = pick(rows.n_stokes, multiply<1>, multiply<2>, multiply<3>);
    const int n_stokes = rows.n_stokes, n_matrix = triangle(n_stokes);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t i = 0; i < rows.n; ++i)
        one(inverse + i * n_matrix, in + i * n_stokes, out + i * n_stokes);
}

void invert(std::int64_t n, int n_stokes, double rcond_min, double* matrices, double* rcond, int n_threads) {
    const int n_matrix = triangle(n_stokes);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t i = 0; i < n; ++i) {
        double* matrix = matrices + i * n_matrix;
        rcond[i] = reciprocal_condition(n_stokes, matrix);
        if (rcond[i] > 0 && rcond[i] >= rcond_min)
            invert_one(n_stokes, matrix);
        else
            std::fill(matrix, matrix + n_matrix, 0.0);
    }
}

}  // namespace petamap::mapmaking
