#include "petacomm/base/exact.h"

#include <algorithm>
#include <bit>

#include "petacomm/base/simd.h"

namespace petacomm {
namespace {

// Adding and subtracting it gives zero for whatever is below 2^900.
constexpr double kNothing = 0x1.8p1000;

// Lanes side by side, in as many vectors that no addition waits for the one before and that eight columns
// fit.
constexpr int kLanes = kNativeLanes, kChains = kLanes == 2 ? 4 : 2, kStep = kChains * kLanes;

using Real = Reals<kLanes>;
using Whole = Wholes<kLanes>;

// 2^exponent, for exponents of normal numbers.
double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

double sum_of(double a, double b) { return a + b; }

constexpr int weight_of(int limb) { return ExactSum::kLowest + limb * ExactSum::kBits; }

// Which limb takes the highest slice of values up to `largest`; -1 if it counts as zero.
int highest_limb(double largest) {
    if (!(largest >= 0x1p-992)) return -1;
    const int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(largest) >> 52) - 1023;
    return (exponent - ExactSum::kLowest) / ExactSum::kBits;
}

// Values of columns; width is a power of two, so lane i of all chains is of column i & (width - 1).
struct Chunk {
    double* values;
    int n;  // a multiple of kStep
    int width;

    // Write the largest size of each column, and whether all of its values may be added. Sizes are compared
    // as integers: what is no number is then the largest.
    void measure(double* largest, ExactSum* sums) const {
        Whole sizes[kChains] = {};
        for (int i = 0; i < n; i += kStep)
            for (int chain = 0; chain < kChains; ++chain)
                sizes[chain] = larger(sizes[chain], bits_of_size(load<Real>(values + i + chain * kLanes)));
        fold(sizes, largest, larger<std::int64_t>);
        for (int column = 0; column < width; ++column) sums[column].finite &= largest[column] < 0x1p900;
    }

    // Take a slice, a multiple of the last bit of its lane's magic number, from every value. Write the sums
    // of the columns' slices, and the largest size of what is left.
    void take_slices(const Real* magic, double* sums, double* largest) const {
        Real slices[kChains] = {};
        Whole sizes[kChains] = {};
        for (int i = 0; i < n; i += kStep)
            for (int chain = 0; chain < kChains; ++chain) {
                double* at = values + i + chain * kLanes;
                const Real value = load<Real>(at), slice = (value + magic[chain]) - magic[chain];
                const Real rest = value - slice;
                store(at, rest);
                slices[chain] += slice;
                sizes[chain] = larger(sizes[chain], bits_of_size(rest));
            }
        fold(slices, sums, sum_of);
        fold(sizes, largest, larger<std::int64_t>);
    }

    static Whole bits_of_size(Real value) { return std::bit_cast<Whole>(size_of(value)); }

    // Join the lanes of each column, pair by pair.
    template <class Vector, class T>
    void fold(const Vector (&chains)[kChains], double* columns, T join(T, T)) const {
        alignas(64) T lanes[kStep];
        for (int chain = 0; chain < kChains; ++chain) store(lanes + chain * kLanes, chains[chain]);
        for (int half = kStep / 2; half >= width; half /= 2)
            for (int i = 0; i < half; ++i) lanes[i] = join(lanes[i], lanes[half + i]);
        for (int column = 0; column < width; ++column) columns[column] = std::bit_cast<double>(lanes[column]);
    }
};

}  // namespace

// Slice by slice from the top: adding and subtracting 1.5 x 2^(52 + w) rounds to a multiple of 2^w, and what
// is left is exact. A chunk's slices (at most 2^32 each, 2^10 of a column) add up in a double without
// rounding.
void add_exactly(double* values, std::size_t n, int width, ExactSum* sums) {
    const int n_values = static_cast<int>(n) * width, end = (n_values + kStep - 1) / kStep * kStep;
    std::fill(values + n_values, values + end, 0.0);
    const Chunk chunk{values, end, width};
    double largest[8], slices[8];
    int limbs[8];
    chunk.measure(largest, sums);
    for (;;) {
        alignas(64) double lanes[kStep];
        bool any = false;
        for (int column = 0; column < width; ++column) {
            const int limb = limbs[column] = sums[column].finite ? highest_limb(largest[column]) : -1;
            any |= limb >= 0;
            lanes[column] = limb < 0 ? kNothing : 1.5 * power_of_two(52 + weight_of(limb));
        }
        if (!any) return;
        for (int i = width; i < kStep; ++i) lanes[i] = lanes[i - width];
        Real magic[kChains];
        for (int chain = 0; chain < kChains; ++chain) magic[chain] = load<Real>(lanes + chain * kLanes);
        chunk.take_slices(magic, slices, largest);
        for (int column = 0; column < width; ++column)
            if (const int limb = limbs[column]; limb >= 0)
                sums[column].limbs[limb] +=
                    static_cast<std::int64_t>(slices[column] * power_of_two(-weight_of(limb)));
    }
}

}  // namespace petacomm
