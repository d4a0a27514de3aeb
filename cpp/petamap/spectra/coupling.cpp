#include "petamap/spectra/coupling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "petacomm/base/simd.h"

namespace petamap::spectra {

namespace {

using std::int64_t;

constexpr std::size_t kLanes = 8;  // of which sums are made, so the bits hang on it
using Lanes = petacomm::Reals<kLanes>;

Lanes load(const double* from) { return petacomm::load<Lanes>(from); }

// Zeros before and after a table: lanes beyond either end of a sum add nothing.
std::vector<double> padded(int64_t n) {
    return std::vector<double>(static_cast<std::size_t>(n) + 2 * kLanes);
}

double sum_of(Lanes lanes) {
    double sum = 0;
    for (std::size_t k = 0; k < kLanes; ++k) sum += lanes[k];
    return sum;
}

// The windows by the parity of l3: the terms of a sum, all of one parity of L, are then neighbours.
struct Windows {
    std::vector<double> tables[4][2];

    Windows(const double* w, int64_t l_max_w) {
        for (int kind = 0; kind < 4; ++kind) {
            for (auto& table : tables[kind]) table = padded(l_max_w / 2 + 1);
            for (int64_t l = 0; l <= l_max_w; ++l)
                tables[kind][l % 2][static_cast<std::size_t>(l / 2)] = w[kind * (l_max_w + 1) + l];
        }
    }

    const double* from(int kind, int64_t l) const { return tables[kind][l % 2].data() + l / 2; }
};

// f_0^2 = c(p - l1) c(p - l2) c(p - l3) / ((2p + 1) c(p)) with p = L / 2 and c the central binomials
// (2n)! / (4^n n!^2): Varshalovich et al. 1988, section 8.5.2. Tables count from -kLanes.
class Zero {
  public:
    Zero(const double* central, int64_t l_max) : n_(2 * l_max + 1) {
        up_ = down_ = inverse_ = padded(n_);
        for (int64_t i = 0; i < n_; ++i) {
            up_[static_cast<std::size_t>(i) + kLanes] = central[i];
            down_[static_cast<std::size_t>(n_ - 1 - i) + kLanes] = central[i];
            inverse_[static_cast<std::size_t>(i) + kLanes] =
                1 / (static_cast<double>(2 * i + 1) * central[i]);
        }
    }

    // For p, p + 1, ...; zero where l3 is more than l1 + l2.
    Lanes squared(int64_t l1, int64_t l2, int64_t p) const {
        const double *up = up_.data() + kLanes, *down = down_.data() + kLanes + (n_ - 1 - l1 - l2);
        return load(up + p - l1) * load(up + p - l2) * load(down + p) * load(inverse_.data() + kLanes + p);
    }

  private:
    int64_t n_;
    std::vector<double> up_, down_, inverse_;
};

// What is the same for all l3 of a pair l1 >= l2.
struct Pair {
    int64_t l1, l2, first, last;    // first and last l3
    double eigen_1, eigen_2, norm;  // l (l + 1), and the divisor of (f_2 / f_0)^2

    Pair(int64_t a, int64_t b, int64_t l_max_w) : l1(a), l2(b), first(a - b), last(std::min(a + b, l_max_w)) {
        eigen_1 = static_cast<double>(l1) * static_cast<double>(l1 + 1);
        eigen_2 = static_cast<double>(l2) * static_cast<double>(l2 + 1);
        norm = eigen_1 * (eigen_1 - 2) * eigen_2 * (eigen_2 - 2);
    }

    Lanes x(Lanes l3) const { return (eigen_1 + eigen_2) - l3 * (l3 + 1); }
};

Lanes counted_from(int64_t l3) {
    const auto first = static_cast<double>(l3);
    return first + Lanes{0, 2, 4, 6, 8, 10, 12, 14};
}

// f_2 = f_0 (x (x - 2) / 2 - eigen_1 eigen_2) / sqrt(norm) where L is even.
void even_sums(const Pair& pair, const Zero& zero, const Windows& windows, double* sums) {
    const double* w[4];
    for (int kind = 0; kind < 4; ++kind) w[kind] = windows.from(kind, pair.first);
    const int64_t n = (pair.last - pair.first) / 2 + 1;
    const double product = pair.eigen_1 * pair.eigen_2;
    Lanes sum_0{}, sum_1{}, sum_2{}, sum_3{}, l3 = counted_from(pair.first);
    for (int64_t i = 0; i < n; i += kLanes, l3 += 2 * kLanes) {
        const Lanes squared = zero.squared(pair.l1, pair.l2, pair.l1 + i), x = pair.x(l3);
        const Lanes ratio = 0.5 * x * (x - 2) - product, cross = squared * ratio;
        sum_0 += load(w[0] + i) * squared;
        sum_1 += load(w[1] + i) * cross;
        sum_2 += load(w[2] + i) * cross;
        sum_3 += load(w[3] + i) * (cross * ratio);
    }
    sums[0] = sum_of(sum_0);
    if (pair.l2 < 2) return;
    sums[1] = sum_of(sum_1) / std::sqrt(pair.norm);
    sums[2] = sum_of(sum_2) / std::sqrt(pair.norm);
    sums[3] = sum_of(sum_3) / pair.norm;
}

// f_2(l3)^2 = a(l3 + 1)^2 f_0(l3 + 1)^2 (x - 2)^2 / (4 norm) where L is odd, with
// a(l)^2 = (l^2 - (l1 - l2)^2) ((l1 + l2 + 1)^2 - l^2): by the recursion of f_2 in l3 (Schulten & Gordon
// 1975), in which neighbours on both sides are even.
double odd_sum(const Pair& pair, const Zero& zero, const Windows& windows) {
    if (pair.l2 < 2 || pair.last <= pair.first) return 0;
    const int64_t first = pair.first + 1, n = (pair.last - first) / 2 + 1;
    const double* w = windows.from(3, first);
    const auto difference = static_cast<double>(pair.l1 - pair.l2);
    const auto sum = static_cast<double>(pair.l1 + pair.l2 + 1);
    Lanes total{}, l3 = counted_from(first);
    for (int64_t i = 0; i < n; i += kLanes, l3 += 2 * kLanes) {
        const Lanes next = (l3 + 1) * (l3 + 1), x = pair.x(l3) - 2;
        const Lanes area = (next - difference * difference) * (sum * sum - next);
        total += load(w + i) * (zero.squared(pair.l1, pair.l2, pair.l1 + 1 + i) * area * (x * x));
    }
    return sum_of(total) / (4 * pair.norm);
}

}  // namespace

void coupling(const double* w, int64_t l_max_w, const double* central, int64_t l_max, int64_t first,
              int64_t stop, double* out, int n_threads) {
    const Windows windows(w, l_max_w);
    const Zero zero(central, l_max);
    const int64_t n = l_max + 1;
    // the longest rows first
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int64_t l1 = stop - 1; l1 >= first; --l1) {
        for (int64_t l2 = 0; l2 <= l1; ++l2) {
            double sums[5] = {0, 0, 0, 0, 0};
            const Pair pair(l1, l2, l_max_w);
            if (pair.first <= pair.last) {
                even_sums(pair, zero, windows, sums);
                sums[4] = odd_sum(pair, zero, windows);
            }
            for (int kind = 0; kind < 5; ++kind)
                out[(kind * n + l1) * n + l2] = out[(kind * n + l2) * n + l1] = sums[kind];
        }
    }
}

}  // namespace petamap::spectra
