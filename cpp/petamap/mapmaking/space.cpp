#include "petamap/mapmaking/space.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "petacomm/base/columns.h"
#include "petacomm/base/threads.h"

namespace petamap::mapmaking {
namespace {

using petacomm::load;
constexpr std::int64_t kLanes = 8;
using Lanes = petacomm::Reals<kLanes>;
using Words = petacomm::Wholes<kLanes>;

// Values of a chunk of the space that stay in the nearest cache.
constexpr std::int64_t kChunkValues = 2048;

// Eight vectors times one column of a chunk of rows.
void add_products(const double* vectors, std::int64_t n_vectors, const double* given, int width,
                  std::int64_t n_rows, Lanes space_scale, double scale, double low_scale,
                  std::int64_t* sums) {
    Words high{}, low{};
    for (std::int64_t row = 0; row < n_rows; ++row) {
        const Lanes product =
            load<Lanes>(vectors + row * n_vectors) * space_scale * (given[row * width] * scale);
        const Lanes whole = petacomm::to_whole<8>(product);
        high += petacomm::to_fixed<8>(whole);
        low += petacomm::to_fixed<8>((product - whole) * low_scale);
    }
    petacomm::store(sums, load<Words>(sums) + high);
    petacomm::store(sums + n_vectors, load<Words>(sums + n_vectors) + low);
}

// The sum of eight lanes, always in this order.
double sum_of(Lanes lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace

void space_products(const Space& space, const double* given, int width, const double* space_scales,
                    const double* scales, int low_bits, std::int64_t* sums, int n_threads) {
    const std::int64_t n_rows = space.n * space.n_stokes, n_vectors = space.n_vectors;
    const std::int64_t chunk = std::max<std::int64_t>(8, kChunkValues / std::max<std::int64_t>(n_vectors, 1));
    const double low_scale = std::ldexp(1.0, low_bits);
    const std::size_t n_sums = static_cast<std::size_t>(2 * n_vectors * width);
    petacomm::Thrown thrown;
#pragma omp parallel num_threads(n_threads)
    {
        std::vector<std::int64_t> own;
        thrown.keep([&] { own.resize(n_sums); });
#pragma omp for schedule(static) nowait
        for (std::int64_t begin = 0; begin < n_rows; begin += chunk) {
            if (own.size() < n_sums) continue;
            const std::int64_t count = std::min(chunk, n_rows - begin);
            for (std::int64_t first = 0; first < n_vectors; first += kLanes)
                for (int column = 0; column < width; ++column)
                    add_products(space.vectors + begin * n_vectors + first, n_vectors,
                                 given + begin * width + column, width, count,
                                 load<Lanes>(space_scales + first), scales[column], low_scale,
                                 own.data() + 2 * column * n_vectors + first);
        }
#pragma omp critical
        for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
    }
    thrown.rethrow();
}

void space_add(const Space& space, const double* amounts, int width, double* to, double* largest,
               int n_threads) {
    const std::int64_t n_vectors = space.n_vectors;
    std::fill_n(largest, width, 0.0);
    petacomm::Thrown thrown;
#pragma omp parallel num_threads(n_threads)
    {
        std::vector<double> most, sizes;
        thrown.keep([&] {
            sizes.resize(static_cast<std::size_t>(width));
            most.resize(sizes.size());
        });
        const bool has_room = most.size() == static_cast<std::size_t>(width);
#pragma omp for schedule(static) nowait
        for (std::int64_t i = 0; i < space.n; ++i) {
            if (!has_room) continue;
            std::fill(sizes.begin(), sizes.end(), 0.0);
            for (std::int64_t row = i * space.n_stokes; row < (i + 1) * space.n_stokes; ++row)
                for (int column = 0; column < width; ++column) {
                    Lanes sum{};
                    for (std::int64_t first = 0; first < n_vectors; first += kLanes)
                        sum += load<Lanes>(space.vectors + row * n_vectors + first) *
                               load<Lanes>(amounts + column * n_vectors + first);
                    double& value = to[row * width + column];
                    value += sum_of(sum);
                    sizes[static_cast<std::size_t>(column)] += std::fabs(value);
                }
            for (std::size_t column = 0; column < most.size(); ++column)
                most[column] = std::max(most[column], sizes[column]);
        }
#pragma omp critical
        for (std::size_t column = 0; column < most.size(); ++column)
            largest[column] = std::max(largest[column], most[column]);
    }
    thrown.rethrow();
}

}  // namespace petamap::mapmaking
