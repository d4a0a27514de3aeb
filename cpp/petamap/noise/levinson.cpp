#include "petamap/noise/levinson.h"

#include <vector>

#include "petacomm/base/simd.h"

namespace petamap::noise {

using petacomm::kNativeLanes, petacomm::Reals, petacomm::load, petacomm::store;

namespace {

constexpr std::size_t kParts = 8, kLanes = kNativeLanes, kRegisters = kParts / kLanes;
using Lanes = Reals<kLanes>;

double dot(const double* a, const double* b, std::size_t n) {
    Lanes sums[kRegisters]{};
    std::size_t i = 0;
    for (; i + kParts <= n; i += kParts)
        for (std::size_t r = 0; r < kRegisters; ++r)
            sums[r] += load<Lanes>(a + i + r * kLanes) * load<Lanes>(b + i + r * kLanes);
    double parts[kParts];
    for (std::size_t r = 0; r < kRegisters; ++r) store(parts + r * kLanes, sums[r]);
    for (std::size_t part = 0; i < n; ++i, ++part) parts[part] += a[i] * b[i];
    return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

// Add to each of a and b the other one, times a factor.
void add_each_other(double factor, double* __restrict a, double* __restrict b, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const double of_a = a[i], of_b = b[i];
        a[i] = of_a + factor * of_b;
        b[i] = of_b + factor * of_a;
    }
}

}  // namespace

double prediction_error(std::span<const double> covariance, double* filter) {
    const std::size_t order = covariance.size() - 1;
    // The covariance backwards, and the coefficients backwards: with each order they begin one place earlier.
    const std::vector<double> backwards(covariance.rbegin(), covariance.rend());
    std::vector<double> reversed(order);
    double power = covariance[0];
    filter[0] = 1;
    double* known = filter + 1;
    for (std::size_t k = 0; k < order; ++k) {
        // known[i] covariance[k - i] for i < k
        const double of_known = dot(known, backwards.data() + (order - k), k);
        const double reflection = -(covariance[k + 1] + of_known) / power;
        double* known_reversed = reversed.data() + (order - k);
        add_each_other(reflection, known, known_reversed, k);
        known[k] = known_reversed[-1] = reflection;
        power *= 1 - reflection * reflection;
    }
    return power;
}

}  // namespace petamap::noise
