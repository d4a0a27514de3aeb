#include "petacomm/redistribution/lattice.h"

#include <array>

namespace petacomm {

namespace {

constexpr int n_colours = 3;
constexpr int vector_size = 2 * n_colours;
constexpr int matrix_size = n_colours * vector_size;

// sum += matrix * vector
void add_product(const double* matrix, const double* vector, std::array<double, vector_size>& sum) {
    for (int i = 0; i < n_colours; ++i) {
        double re = sum[2 * i];
        double im = sum[2 * i + 1];
        for (int j = 0; j < n_colours; ++j) {
            const double* element = matrix + i * vector_size + 2 * j;
            const double* value = vector + 2 * j;
            re += element[0] * value[0] - element[1] * value[1];
            im += element[0] * value[1] + element[1] * value[0];
        }
        sum[2 * i] = re;
        sum[2 * i + 1] = im;
    }
}

}  // namespace

void hop_sites(const double* links, const std::int32_t* neighbours, std::int64_t n_directions,
               const double* field, const std::int32_t* sites, std::int64_t n, double* out, int n_threads) {
#pragma omp parallel for schedule(static) num_threads(n_threads) if (n_threads > 1)
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t site = sites[i];
        std::array<double, vector_size> sum{};
        for (std::int64_t d = 0; d < n_directions; ++d) {
            const std::int64_t at = site * n_directions + d;
            add_product(links + at * matrix_size, field + std::int64_t{neighbours[at]} * vector_size, sum);
        }
        for (int k = 0; k < vector_size; ++k) out[site * vector_size + k] = sum[k];
    }
}

}  // namespace petacomm
