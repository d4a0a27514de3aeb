#include "petamap/mapmaking/block_matrix.h"

#include <algorithm>

#include "petacomm/base/columns.h"
#include "petacomm/base/threads.h"

namespace petamap::mapmaking {
namespace {

using petacomm::for_width, petacomm::load, petacomm::store, petacomm::RealColumns;

// Call work(first row, end, first column, end) for each block.
template <class Work>
void for_blocks(const BlockMatrix& matrix, int width, int n_threads, const Work& work) {
    const std::int64_t n_blocks = static_cast<std::int64_t>(matrix.first_rows.size()) - 1;
    const int n_needed = petacomm::threads_for(matrix.firsts[matrix.first_rows.back()] * width, n_threads);
#pragma omp parallel for num_threads(n_needed) schedule(dynamic)
    for (std::int64_t b = 0; b < n_blocks; ++b) {
        const auto at = static_cast<std::size_t>(b);
        work(matrix.first_rows[at], matrix.first_rows[at + 1], matrix.first_columns[at],
             matrix.first_columns[at + 1]);
    }
}

}  // namespace

void multiply(const BlockMatrix& matrix, const double* from, int width, double* to, int n_threads) {
    for_width(width, [&](auto columns) {
        using Real = RealColumns<columns>;
        for_blocks(matrix, width, n_threads, [&](auto row, auto end, auto first_column, auto) {
            const double* block = from + first_column * columns;
            for (; row < end; ++row) {
                Real sum{};
                for (std::int64_t i = matrix.firsts[row]; i < matrix.firsts[row + 1]; ++i)
                    sum += matrix.values[i] * load<Real>(block + std::int64_t{matrix.columns[i]} * columns);
                store(to + row * columns, sum);
            }
        });
    });
}

void multiply_transposed(const BlockMatrix& matrix, const double* from, int width, double* to,
                         int n_threads) {
    for_width(width, [&](auto columns) {
        using Real = RealColumns<columns>;
        for_blocks(matrix, width, n_threads, [&](auto row, auto end, auto first_column, auto end_column) {
            double* block = to + first_column * columns;
            std::fill_n(block, (end_column - first_column) * columns, 0.0);
            for (; row < end; ++row) {
                const Real value = load<Real>(from + row * columns);
                for (std::int64_t i = matrix.firsts[row]; i < matrix.firsts[row + 1]; ++i) {
                    double* sum = block + std::int64_t{matrix.columns[i]} * columns;
                    store(sum, load<Real>(sum) + matrix.values[i] * value);
                }
            }
        });
    });
}

}  // namespace petamap::mapmaking
