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
    const auto rows = matrix.first_rows, columns = matrix.first_columns;
    const int n_parts = petacomm::threads_for(matrix.firsts[rows.back()] * width, n_threads);
    petacomm::in_ranges(rows, n_parts, [&](std::size_t begin, std::size_t end) {
        for (std::size_t b = begin; b < end; ++b) work(rows[b], rows[b + 1], columns[b], columns[b + 1]);
    });
}

// `from` and `to`: of the first column of the block, or of all rows.
template <int kWidth>
void multiply_rows(const BlockMatrix& matrix, std::int64_t row, std::int64_t end, const double* from,
                   double* to) {
    using Real = RealColumns<kWidth>;
    const std::int32_t* const columns = matrix.columns;
    const double* const values = matrix.values;
    std::int64_t i = matrix.firsts[row];
    for (; row < end; ++row) {
        const std::int64_t last = matrix.firsts[row + 1];
        Real sum{};
        for (; i < last; ++i) sum += values[i] * load<Real>(from + std::int64_t{columns[i]} * kWidth);
        store(to + row * kWidth, sum);
    }
}

template <int kWidth>
void add_transposed_rows(const BlockMatrix& matrix, std::int64_t row, std::int64_t end, const double* from,
                         double* to) {
    using Real = RealColumns<kWidth>;
    const std::int32_t* const columns = matrix.columns;
    const double* const values = matrix.values;
    std::int64_t i = matrix.firsts[row];
    for (; row < end; ++row) {
        const Real value = load<Real>(from + row * kWidth);
        for (const std::int64_t last = matrix.firsts[row + 1]; i < last; ++i) {
            double* sum = to + std::int64_t{columns[i]} * kWidth;
            store(sum, load<Real>(sum) + values[i] * value);
        }
    }
}

}  // namespace

void multiply(const BlockMatrix& matrix, const double* from, int width, double* to, int n_threads) {
    for_width(width, [&](auto columns) {
        for_blocks(matrix, width, n_threads, [&](auto row, auto end, auto first_column, auto) {
            multiply_rows<columns>(matrix, row, end, from + first_column * columns, to);
        });
    });
}

void multiply_transposed(const BlockMatrix& matrix, const double* from, int width, double* to,
                         int n_threads) {
    for_width(width, [&](auto columns) {
        for_blocks(matrix, width, n_threads, [&](auto row, auto end, auto first_column, auto end_column) {
            double* block = to + first_column * columns;
            std::fill_n(block, (end_column - first_column) * columns, 0.0);
            add_transposed_rows<columns>(matrix, row, end, from, block);
        });
    });
}

}  // namespace petamap::mapmaking
