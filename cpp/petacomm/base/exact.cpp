#include "petacomm/base/exact.h"

#include <algorithm>
#include <cmath>

#include "petacomm/base/simd.h"

namespace petacomm {
namespace {

// Adding and subtracting it gives zero for whatever is below 2^900.
constexpr double kNothing = 0x1.8p1000;

// Vectors that are summed side by side, since an addition waits for the one before.
constexpr std::size_t kChains = 4;

// Values of columns, a vector at a time; lane j is of column j % width.
template <int kLanes>
struct Chunk {
    using Real = Reals<kLanes>;
    using Mask = decltype(Real{} < Real{});
    static constexpr std::size_t kStep = kChains * kLanes;

    double* values;
    std::size_t n;  // a multiple of kStep
    int width;

    // Write the largest size of each column, and whether all of its values may be added.
    void measure(double* largest, ExactSum* sums) const {
        Real sizes[kChains] = {};
        Mask in_range[kChains];
        for (auto& mask : in_range) mask = Real{} == Real{};
        for (std::size_t i = 0; i < n; i += kStep)
            for (std::size_t chain = 0; chain < kChains; ++chain) {
                const Real size = size_of(load<Real>(values + i + chain * kLanes));
                in_range[chain] &= size < 0x1p900;
                sizes[chain] = larger(sizes[chain], size);
            }
        for (const Mask& mask : in_range)
            for (int lane = 0; lane < kLanes; ++lane) sums[lane % width].finite &= mask[lane] != 0;
        of_columns(sizes, largest);
    }

    // Take a slice, a multiple of the last bit of each column's magic number, from every value and add the
    // slices up; write the largest size of what is left.
    Real take_slices(Real magic, double* largest) const {
        Real slices[kChains] = {}, sizes[kChains] = {};
        for (std::size_t i = 0; i < n; i += kStep)
            for (std::size_t chain = 0; chain < kChains; ++chain) {
                double* at = values + i + chain * kLanes;
                const Real value = load<Real>(at), slice = (value + magic) - magic, rest = value - slice;
                store(at, rest);
                slices[chain] += slice;
                sizes[chain] = larger(sizes[chain], size_of(rest));
            }
        of_columns(sizes, largest);
        return (slices[0] + slices[1]) + (slices[2] + slices[3]);
    }

    void of_columns(const Real (&sizes)[kChains], double* largest) const {
        const Real most = larger(larger(sizes[0], sizes[1]), larger(sizes[2], sizes[3]));
        std::fill_n(largest, width, 0.0);
        for (int lane = 0; lane < kLanes; ++lane)
            largest[lane % width] = std::max(largest[lane % width], most[lane]);
    }
};

// Which limb takes the highest slice of values up to `largest`; -1 if it counts as zero.
int highest_limb(double largest) {
    return largest >= 0x1p-992 ? (std::ilogb(largest) - ExactSum::kLowest) / ExactSum::kBits : -1;
}

constexpr int weight_of(int limb) { return ExactSum::kLowest + limb * ExactSum::kBits; }

// Slice by slice from the top: adding and subtracting 1.5 x 2^(52 + w) rounds to a multiple of 2^w, and what
// is left is exact. A chunk's slices (at most 2^32 each, 2^10 of them) add up in a double without rounding.
template <int kLanes>
void add_chunk(const Chunk<kLanes>& chunk, ExactSum* sums) {
    const int width = chunk.width;
    double largest[kLanes] = {};
    chunk.measure(largest, sums);
    for (;;) {
        int limbs[kLanes];
        bool any = false;
        Reals<kLanes> magic;
        for (int column = 0; column < width; ++column) {
            limbs[column] = sums[column].finite ? highest_limb(largest[column]) : -1;
            any |= limbs[column] >= 0;
        }
        if (!any) return;
        for (int lane = 0; lane < kLanes; ++lane) {
            const int limb = limbs[lane % width];
            magic[lane] = limb < 0       ? kNothing
                          : lane < width ? std::ldexp(1.5, 52 + weight_of(limb))
                                         : magic[lane - width];
        }
        const Reals<kLanes> slices = chunk.take_slices(magic, largest);
        for (int lane = 0; lane < kLanes; ++lane) {
            const int column = lane % width, limb = limbs[column];
            if (limb >= 0)
                sums[column].limbs[limb] +=
                    static_cast<std::int64_t>(std::ldexp(slices[lane], -weight_of(limb)));
        }
    }
}

}  // namespace

void add_exactly(double* values, std::size_t n, int width, ExactSum* sums) {
    const auto add = [&]<int kLanes>(std::integral_constant<int, kLanes>) {
        constexpr std::size_t kStep = Chunk<kLanes>::kStep;
        const std::size_t n_values = n * static_cast<std::size_t>(width);
        const std::size_t end = (n_values + kStep - 1) / kStep * kStep;
        std::fill(values + n_values, values + end, 0.0);
        add_chunk(Chunk<kLanes>{values, end, width}, sums);
    };
    if (width <= kNativeLanes)
        add(std::integral_constant<int, kNativeLanes>{});
    else
        add(std::integral_constant<int, 8>{});
}

}  // namespace petacomm
