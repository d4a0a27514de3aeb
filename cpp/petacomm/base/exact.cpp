#include "petacomm/base/exact.h"

#include <algorithm>
#include <bit>

#include "petacomm/base/simd.h"

namespace petacomm {
namespace {

// Lanes side by side, in as many vectors that no addition waits for the one before and that eight columns
// fit.
constexpr int kLanes = kNativeLanes, kChains = kLanes == 2 ? 4 : 2, kStep = kChains * kLanes;

using Real = Reals<kLanes>;
using Whole = Wholes<kLanes>;
using Word = Bits<kLanes>;

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) { return a + b; }

std::uint64_t either(std::uint64_t a, std::uint64_t b) { return a | b; }

// A number counts as zero below 2^kLowest.
constexpr int kLowest = ExactSum::kLowest;

// Words that a value is cut into, each of the 51 bits that adding a magic number leaves.
constexpr int kWords = 2, kWordBits = 51;

// 1.5 x 2^(52 + weight): what is added to it is rounded to a multiple of 2^weight, as an integer in its last
// bits.
double magic_number(int weight) {
    return 1.5 * std::bit_cast<double>(static_cast<std::uint64_t>(52 + weight + 1023) << 52);
}

// The weight of the last bit of a word that holds values up to `largest`.
int weight_for(double largest) {
    const int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(largest) >> 52) - 1023;
    return std::max(exponent + 1 - kWordBits, kLowest);
}

// Add word 2^weight, |word| < 2^62.
void add_word(std::int64_t word, int weight, ExactSum& sum) {
    constexpr std::int64_t kMask = 0xFFFFFFFF;
    const int shift = (weight - kLowest) % ExactSum::kBits;
    std::int64_t* limbs = sum.limbs.data() + (weight - kLowest) / ExactSum::kBits;
    const std::int64_t low = (word & kMask) << shift, high = (word >> 32) * (std::int64_t{1} << shift);
    limbs[0] += low & kMask;
    limbs[1] += (low >> 32) + (high & kMask);
    limbs[2] += high >> 32;
}

// Values of columns; width is a power of two, so lane i of all chains is of column i & (width - 1).
struct Chunk {
    double* values;
    int n;  // a multiple of kStep
    int width;

    // Write the largest size of each column, or 0 if its values cannot be added any more. Sizes are compared
    // as integers: what is no number is then the largest.
    void measure(double* largest, ExactSum* sums) const {
        Whole sizes[kChains] = {};
        for (int i = 0; i < n; i += kStep)
            for (int chain = 0; chain < kChains; ++chain)
                sizes[chain] = larger(sizes[chain], bits_of_size(load<Real>(values + i + chain * kLanes)));
        std::int64_t bits[8];
        fold(sizes, bits, larger<std::int64_t>);
        for (int column = 0; column < width; ++column) {
            const double size = std::bit_cast<double>(bits[column]);
            sums[column].finite &= size < 0x1p900;
            largest[column] = sums[column].finite ? size : 0.0;
        }
    }

    // Cut every value into words by the magic numbers of its lane, the highest first. Write the sums of the
    // columns' words, and bits of what is left.
    void sum_words(const Real (&magic)[kWords][kChains], std::uint64_t (&sums)[kWords][8],
                   std::uint64_t (&left)[8]) const {
        Word words[kWords][kChains] = {}, rests[kChains] = {};
        for (int i = 0; i < n; i += kStep)
            for (int chain = 0; chain < kChains; ++chain) {
                Real rest = load<Real>(values + i + chain * kLanes);
                for (int k = 0; k < kWords; ++k) {
                    const Real sum = rest + magic[k][chain];
                    words[k][chain] += std::bit_cast<Word>(sum);
                    rest = rest - (sum - magic[k][chain]);
                }
                rests[chain] |= std::bit_cast<Word>(size_of(rest));
            }
        const auto n_rows = static_cast<std::uint64_t>(n / width);
        std::uint64_t numbers[8];
        for (int k = 0; k < kWords; ++k) {
            Word bits[kChains];
            for (int chain = 0; chain < kChains; ++chain) bits[chain] = std::bit_cast<Word>(magic[k][chain]);
            fold(bits, numbers, either);
            fold(words[k], sums[k], sum_of);
            for (int column = 0; column < width; ++column) sums[k][column] -= n_rows * numbers[column];
        }
        fold(rests, left, either);
    }

    // Leave of every value what the words do not hold.
    void keep_rests(const Real (&magic)[kWords][kChains]) const {
        for (int i = 0; i < n; ++i)
            for (int k = 0; k < kWords; ++k) {
                const double number = magic[k][i % kStep / kLanes][i % kLanes];
                values[i] -= (values[i] + number) - number;
            }
    }

    static Whole bits_of_size(Real value) { return std::bit_cast<Whole>(size_of(value)); }

    // Join the lanes of each column, pair by pair.
    template <class Vector, class T>
    void fold(const Vector (&chains)[kChains], T* columns, T join(T, T)) const {
        alignas(64) T lanes[kStep];
        for (int chain = 0; chain < kChains; ++chain) store(lanes + chain * kLanes, chains[chain]);
        for (int half = kStep / 2; half >= width; half /= 2)
            for (int i = 0; i < half; ++i) lanes[i] = join(lanes[i], lanes[half + i]);
        for (int column = 0; column < width; ++column) columns[column] = lanes[column];
    }
};

}  // namespace

// Words are summed as integers: a chunk's are below 2^62. Two hold all bits of values within 2^49 of the
// largest of the chunk; what is left of smaller ones is cut again.
void add_exactly(double* values, std::size_t n, int width, ExactSum* sums) {
    const int n_values = static_cast<int>(n) * width, end = (n_values + kStep - 1) / kStep * kStep;
    std::fill(values + n_values, values + end, 0.0);
    const Chunk chunk{values, end, width};
    double largest[8];
    std::uint64_t words[kWords][8], left[8];
    int weights[kWords][8];
    for (bool any = true; any;) {
        chunk.measure(largest, sums);
        Real magic[kWords][kChains];
        for (int k = 0; k < kWords; ++k) {
            alignas(64) double lanes[kStep];
            for (int i = 0; i < kStep; ++i) {
                const int column = i & (width - 1);
                weights[k][column] = std::max(weight_for(largest[column]) - k * kWordBits, kLowest);
                lanes[i] = magic_number(weights[k][column]);
            }
            for (int chain = 0; chain < kChains; ++chain)
                magic[k][chain] = load<Real>(lanes + chain * kLanes);
        }
        chunk.sum_words(magic, words, left);
        any = false;
        for (int column = 0; column < width; ++column) {
            if (!(largest[column] >= 0x1p-992)) continue;
            for (int k = 0; k < kWords; ++k)
                add_word(static_cast<std::int64_t>(words[k][column]), weights[k][column], sums[column]);
            any |= left[column] != 0;
        }
        if (any) chunk.keep_rests(magic);
    }
}

}  // namespace petacomm
