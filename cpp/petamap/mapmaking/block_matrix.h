// Sparse matrices of blocks on the diagonal, of which each is a stream's: threads share the blocks.
#pragma once

#include <cstdint>
#include <span>

namespace petamap::mapmaking {

// Rows of all blocks one after the other, as in compressed sparse rows. Columns are counted from the first
// one of their block.
struct BlockMatrix {
    std::span<const std::int64_t> first_rows, first_columns;  // of each block, and their number
    const std::int64_t* firsts;                               // the first entry of each row, and their number
    const std::int32_t* columns;
    const double* values;
};

// Write the product with rows of `width` numbers, or that of the transposed matrix. Terms are added in the
// order of columns, or of rows.
void multiply(const BlockMatrix& matrix, const double* from, int width, double* to, int n_threads);
void multiply_transposed(const BlockMatrix& matrix, const double* from, int width, double* to, int n_threads);

}  // namespace petamap::mapmaking
