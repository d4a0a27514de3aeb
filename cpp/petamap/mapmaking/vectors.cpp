#include "petamap/mapmaking/vectors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "petacomm/base/columns.h"
#include "petacomm/base/mix.h"
#include "petacomm/base/threads.h"

namespace petamap::mapmaking {
namespace {

constexpr std::int64_t kWordsAtOnce = 1024;

using petacomm::load, petacomm::store, petacomm::RealColumns, petacomm::WholeColumns;

// out = M in for one row of several columns; M is the upper triangle of a symmetric matrix.
template <int kStokes, class Real>
inline void multiply(const double* matrix, const Real* in, Real* out) {
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

// One row: the values of all columns for each Stokes parameter.
template <int kStokes, int kWidth>
struct Row {
    RealColumns<kWidth> values[kStokes];

    explicit Row(const double* from) {
        for (int k = 0; k < kStokes; ++k) values[k] = load<RealColumns<kWidth>>(from + k * kWidth);
    }
    void store(double* to) const {
        for (int k = 0; k < kStokes; ++k) petacomm::store(to + k * kWidth, values[k]);
    }
};

// Rows whose products fit in the nearest cache, a multiple of what registers hold, and many, since each call
// of add_exactly has its price.
template <int kStokes, int kWidth>
constexpr std::int64_t rows_at_once() {
    return kWidth == 1 ? static_cast<std::int64_t>(petacomm::ExactSum::kChunk) / kStokes / 32 * 32 : 128;
}

// Call step(begin, end, products) for pieces of the rows; add up the products of each column.
template <int kStokes, int kWidth, class Step>
void sum_rows(std::int64_t n, petacomm::ExactSum* sums, int n_threads, const Step& step) {
    constexpr std::int64_t kRows = rows_at_once<kStokes, kWidth>();
    static_assert(kRows * kStokes <= static_cast<std::int64_t>(petacomm::ExactSum::kChunk));
#pragma omp parallel num_threads(n_threads)
    {
        std::array<petacomm::ExactSum, kWidth> own;
        alignas(64) double products[kRows * kStokes * kWidth];
#pragma omp for schedule(static) nowait
        for (std::int64_t begin = 0; begin < n; begin += kRows) {
            const std::int64_t end = std::min(n, begin + kRows);
            step(begin, end, products);
            petacomm::add_exactly(products, static_cast<std::size_t>((end - begin) * kStokes), kWidth,
                                  own.data());
        }
#pragma omp critical
        for (int column = 0; column < kWidth; ++column) sums[column].add(own[column]);
    }
}

// Write the bits of the sums over copies, `stride` apart, to q; copies become zero.
template <int kWidth>
void fold_values(const Copies& copies, std::int64_t stride, std::int64_t begin, std::int64_t end, double* q) {
    using Whole = WholeColumns<kWidth>;
    for (int copy = 0; copy < copies.n; ++copy) {
        std::int64_t* from = copies.sums + copy * stride;
        for (std::int64_t i = begin; i < end; i += kWidth) {
            const auto sum = load<Whole>(from + i);
            store(q + i, copy > 0 ? load<Whole>(q + i) + sum : sum);
        }
        std::fill(from + begin, from + end, 0);
    }
}

template <int kStokes, int kWidth>
void settle_rows(std::int64_t n, const Copies& copies, const double* p, double* q, const double* steps,
                 petacomm::ExactSum* sums, int n_threads) {
    using Real = RealColumns<kWidth>;
    const Real step = load<Real>(steps);
    sum_rows<kStokes, kWidth>(n, sums, n_threads,
                              [=](std::int64_t begin, std::int64_t end, double* products) {
                                  constexpr std::int64_t kRow = kStokes * kWidth;
                                  fold_values<kWidth>(copies, n * kRow, begin * kRow, end * kRow, q);
                                  for (std::int64_t i = begin * kRow; i < end * kRow; i += kWidth) {
                                      const auto whole = load<WholeColumns<kWidth>>(q + i);
                                      const Real value = petacomm::to_real<kWidth>(whole) * step;
                                      store(q + i, value);
                                      store<Real>(products + (i - begin * kRow), load<Real>(p + i) * value);
                                  }
                              });
}

template <int kStokes, int kWidth>
void advance_rows(std::int64_t n, const double* alphas, double* q, const double* inverse, double* r,
                  petacomm::ExactSum* sums, int n_threads) {
    using Real = RealColumns<kWidth>;
    const Real alpha = load<Real>(alphas);
    sum_rows<kStokes, kWidth>(
        n, sums, n_threads, [=](std::int64_t begin, std::int64_t end, double* products) {
            constexpr std::int64_t kRow = kStokes * kWidth;
            for (std::int64_t i = begin * kRow; i < end * kRow; i += kWidth)
                store<Real>(r + i, load<Real>(r + i) - alpha * load<Real>(q + i));
            for (std::int64_t i = begin; i < end; ++i) {
                const Row<kStokes, kWidth> row(r + i * kRow);
                Real z[kStokes];
                multiply<kStokes>(inverse + i * triangle(kStokes), row.values, z);
                for (int k = 0; k < kStokes; ++k) {
                    store<Real>(q + i * kRow + k * kWidth, z[k]);
                    store<Real>(products + (i - begin) * kRow + k * kWidth, z[k] * row.values[k]);
                }
            }
        });
}

template <int kWidth>
void subtract_rows(std::int64_t n, const double* alphas, const double* q, double* r, int n_threads) {
    using Real = RealColumns<kWidth>;
    const Real alpha = load<Real>(alphas);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t i = 0; i < n; ++i)
        store<Real>(r + i * kWidth, load<Real>(r + i * kWidth) - alpha * load<Real>(q + i * kWidth));
}

template <int kWidth>
void dot_rows(std::int64_t n, const double* a, const double* b, petacomm::ExactSum* sums, int n_threads) {
    using Real = RealColumns<kWidth>;
    sum_rows<1, kWidth>(n, sums, n_threads, [=](std::int64_t begin, std::int64_t end, double* products) {
        for (std::int64_t i = begin; i < end; ++i)
            store<Real>(products + (i - begin) * kWidth,
                        load<Real>(a + i * kWidth) * load<Real>(b + i * kWidth));
    });
}

template <int kWidth>
void turn_rows(std::int64_t n, int n_stokes, const double* alphas, const double* betas, const double* z,
               double* x, double* p, double* largest, int n_threads) {
    using Real = RealColumns<kWidth>;
    const std::int64_t row = n_stokes * kWidth;
    const Real alpha = load<Real>(alphas), beta = load<Real>(betas);
    std::fill_n(largest, kWidth, 0.0);
#pragma omp parallel num_threads(n_threads)
    {
        Real most{};
#pragma omp for schedule(static) nowait
        for (std::int64_t i = 0; i < n; ++i) {
            Real size{};
            for (std::int64_t at = i * row; at < (i + 1) * row; at += kWidth) {
                const Real before = load<Real>(p + at);
                const Real direction = load<Real>(z + at) + beta * before;
                store<Real>(x + at, load<Real>(x + at) + alpha * before);
                store<Real>(p + at, direction);
                size += petacomm::size_of(direction);
            }
            most = petacomm::larger(most, size);
        }
        double own[kWidth];
        store(own, most);
#pragma omp critical
        for (int column = 0; column < kWidth; ++column)
            largest[column] = std::max(largest[column], own[column]);
    }
}

template <int kStokes, int kWidth>
void precondition_rows(std::int64_t n, const double* inverse, const double* in, double* out, int n_threads) {
    constexpr std::int64_t kRow = kStokes * kWidth;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t i = 0; i < n; ++i) {
        const Row<kStokes, kWidth> row(in + i * kRow);
        Row<kStokes, kWidth> product(in + i * kRow);
        multiply<kStokes>(inverse + i * triangle(kStokes), row.values, product.values);
        product.store(out + i * kRow);
    }
}

// Call work(Stokes parameters, width) with both as constants.
template <class Work>
void for_rows(const Rows& rows, const Work& work) {
    petacomm::for_width(rows.width, [&](auto width) {
        if (rows.n_stokes == 1) return work(std::integral_constant<int, 1>{}, width);
        if (rows.n_stokes == 2) return work(std::integral_constant<int, 2>{}, width);
        work(std::integral_constant<int, 3>{}, width);
    });
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

}  // namespace

void clear(std::int64_t* values, std::int64_t n, int n_threads) {
    constexpr std::int64_t kAtOnce = 1 << 15;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t begin = 0; begin < n; begin += kAtOnce)
        std::fill(values + begin, values + std::min(n, begin + kAtOnce), 0);
}

// What adds up without signs says by its hits whether it has wrapped around.
static std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

void fold(std::int64_t* sums, int n_copies, std::int64_t n, std::int64_t* out, int n_threads) {
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (std::int64_t begin = 0; begin < n; begin += kWordsAtOnce) {
        const std::int64_t end = std::min(n, begin + kWordsAtOnce);
        std::copy(sums + begin, sums + end, out + begin);
        for (int copy = 1; copy < n_copies; ++copy)
            for (std::int64_t i = begin; i < end; ++i) out[i] = wrapping_sum(out[i], sums[copy * n + i]);
        for (int copy = 0; copy < n_copies; ++copy)
            std::fill(sums + copy * n + begin, sums + copy * n + end, 0);
    }
}

void settle(const Rows& rows, const Copies& copies, const double* p, double* q, const double* step,
            petacomm::ExactSum* sums, int n_threads) {
    for_rows(rows, [&](auto stokes, auto width) {
        settle_rows<stokes(), width()>(rows.n, copies, p, q, step, sums, n_threads);
    });
}

void advance(const Rows& rows, const double* alpha, double* q, const double* inverse, double* r,
             petacomm::ExactSum* sums, int n_threads) {
    for_rows(rows, [&](auto stokes, auto width) {
        advance_rows<stokes(), width()>(rows.n, alpha, q, inverse, r, sums, n_threads);
    });
}

void subtract(const Rows& rows, const double* alpha, const double* q, double* r, int n_threads) {
    petacomm::for_width(rows.width, [&](auto width) {
        subtract_rows<width()>(rows.n * rows.n_stokes, alpha, q, r, n_threads);
    });
}

void dots(const Rows& rows, const double* a, const double* b, petacomm::ExactSum* sums, int n_threads) {
    petacomm::for_width(
        rows.width, [&](auto width) { dot_rows<width()>(rows.n * rows.n_stokes, a, b, sums, n_threads); });
}

void turn(const Rows& rows, const double* alpha, const double* beta, const double* z, double* x, double* p,
          double* largest, int n_threads) {
    petacomm::for_width(rows.width, [&](auto width) {
        turn_rows<width()>(rows.n, rows.n_stokes, alpha, beta, z, x, p, largest, n_threads);
    });
}

void largest_sizes(std::int64_t n, int width, const double* values, double* largest, int n_threads) {
    constexpr std::int64_t kTogether = 8;  // of which each is of a column, as they are 1, 2, 4 or 8
    using Real = RealColumns<kTogether>;
    const std::int64_t n_groups = n * width / kTogether;
    const int n_needed = petacomm::threads_for(n * width, n_threads);
    std::fill_n(largest, width, 0.0);
    const auto see = [&](std::int64_t column, double size) {
        double& most = largest[column % width];
        most = std::max(most, size) + (size - size);
    };
#pragma omp parallel num_threads(n_needed)
    {
        Real most{}, rest{};
#pragma omp for schedule(static) nowait
        for (std::int64_t group = 0; group < n_groups; ++group) {
            const Real size = petacomm::size_of(load<Real>(values + group * kTogether));
            most = petacomm::larger(most, size);
            rest += size - size;
        }
        double own[kTogether];
        store(own, most + rest);
#pragma omp critical
        for (std::int64_t column = 0; column < kTogether; ++column) see(column, own[column]);
    }
    for (std::int64_t at = n_groups * kTogether; at < n * width; ++at) see(at, std::abs(values[at]));
}

void precondition(const Rows& rows, const double* inverse, const double* in, double* out, int n_threads) {
    for_rows(rows, [&](auto stokes, auto width) {
        precondition_rows<stokes(), width()>(rows.n, inverse, in, out, n_threads);
    });
}

void add_hashes(std::int64_t n, int n_columns, int kind, const std::int64_t* keys, const double* values,
                std::uint64_t* sums, int n_threads) {
    constexpr std::uint64_t kSeeds[] = {0x243F6A8885A308D3u, 0x13198A2E03707344u};  // digits of pi
    std::uint64_t first = 0, second = 0;
#pragma omp parallel for schedule(static) num_threads(n_threads) reduction(+ : first, second)
    for (std::int64_t row = 0; row < n; ++row) {
        for (int column = 0; column < n_columns; ++column) {
            const std::uint64_t place =
                static_cast<std::uint64_t>(keys[row]) * 8 + static_cast<std::uint64_t>(4 * kind + column);
            const auto bits = std::bit_cast<std::uint64_t>(values[row * n_columns + column]);
            const std::uint64_t word = petacomm::mix(bits) + petacomm::mix(place);
            first += petacomm::mix(word ^ kSeeds[0]);
            second += petacomm::mix(word ^ kSeeds[1]);
        }
    }
    sums[0] += first;
    sums[1] += second;
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
