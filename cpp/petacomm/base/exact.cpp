#include "petacomm/base/exact.h"

#include <algorithm>
#include <cmath>

#include "petacomm/base/columns.h"
#include "petacomm/base/simd.h"

namespace petacomm {
namespace {

// Adding and subtracting it gives zero for whatever is below 2^900.
constexpr double kNothing = 0x1.8p1000;

// The largest value of each column: lane j of eight is of column j % width.
void of_columns(Lanes lanes, int width, double* largest) {
    std::fill_n(largest, width, 0.0);
    for (int lane = 0; lane < static_cast<int>(kLanes); ++lane)
        largest[lane % width] = std::max(largest[lane % width], lanes[lane]);
}

// Which limb takes the highest slice of values up to `largest`; -1 if it counts as zero.
int highest_limb(double largest) {
    return largest >= 0x1p-992 ? (std::ilogb(largest) - ExactSum::kLowest) / ExactSum::kBits : -1;
}

constexpr int weight_of(int limb) { return ExactSum::kLowest + limb * ExactSum::kBits; }

}  // namespace

// Slice by slice from the top: adding and subtracting 1.5 x 2^(52 + w) rounds to a multiple of 2^w, and what
// is left is exact. A chunk's slices (at most 2^32 each, 2^10 of them) add up in a double without rounding.
void add_exactly(double* values, std::size_t n, int width, ExactSum* sums) {
    const std::size_t n_values = n * static_cast<std::size_t>(width);
    const std::size_t end = (n_values + kLanes - 1) / kLanes * kLanes;
    std::fill(values + n_values, values + end, 0.0);
    Lanes sizes{};
    auto in_range = sizes == sizes;
    for (std::size_t i = 0; i < end; i += kLanes) {
        const Lanes size = size_of(load(values + i));
        in_range &= size < 0x1p900;
        sizes = larger(sizes, size);
    }
    for (int lane = 0; lane < static_cast<int>(kLanes); ++lane)
        sums[lane % width].finite &= in_range[lane] != 0;
    double largest[kLanes] = {};
    of_columns(sizes, width, largest);
    for (;;) {
        int limbs[kLanes];
        bool any = false;
        Lanes magic;
        for (int column = 0; column < width; ++column) {
            limbs[column] = sums[column].finite ? highest_limb(largest[column]) : -1;
            any |= limbs[column] >= 0;
        }
        if (!any) return;
        for (int lane = 0; lane < static_cast<int>(kLanes); ++lane) {
            const int limb = limbs[lane % width];
            magic[lane] = limb < 0       ? kNothing
                          : lane < width ? std::ldexp(1.5, 52 + weight_of(limb))
                                         : magic[lane - width];
        }
        Lanes slices{};
        sizes = Lanes{};
        for (std::size_t i = 0; i < end; i += kLanes) {
            const Lanes value = load(values + i), slice = (value + magic) - magic, rest = value - slice;
            store(values + i, rest);
            slices += slice;
            sizes = larger(sizes, size_of(rest));
        }
        of_columns(sizes, width, largest);
        for (int lane = 0; lane < static_cast<int>(kLanes); ++lane) {
            const int column = lane % width, limb = limbs[column];
            if (limb >= 0)
                sums[column].limbs[limb] +=
                    static_cast<std::int64_t>(std::ldexp(slices[lane], -weight_of(limb)));
        }
    }
}

}  // namespace petacomm
