// Bindings of sparse matrices of blocks on the diagonal.
#pragma once

#include <utility>

#include "../arrays.h"
#include "petamap/mapmaking/block_matrix.h"

namespace bindings {

// Checked once: products are many.
class BlockMatrix {
  public:
    BlockMatrix(In<std::int64_t> first_rows, In<std::int64_t> first_columns, In<std::int64_t> firsts,
                In<std::int32_t> columns, In<double> values)
        : first_rows_(std::move(first_rows)),
          first_columns_(std::move(first_columns)),
          firsts_(std::move(firsts)),
          columns_(std::move(columns)),
          values_(std::move(values)) {
        require(first_rows_.shape(0) >= 1, "first_rows: of each block, and their number");
        same_shape({{first_columns_.shape(0), first_rows_.shape(0)}, {values_.shape(0), columns_.shape(0)}});
        require(firsts_.shape(0) >= 1 && are_offsets(first_rows_, n_rows()) && first_rows_.data()[0] == 0 &&
                    last(first_rows_) == n_rows(),
                "first_rows: of each block, and their number");
        require(are_offsets(first_columns_, kMost) && first_columns_.data()[0] == 0,
                "first_columns: of each block, and their number");
        require(are_offsets(firsts_, length(values_.shape(0))) && firsts_.data()[0] == 0 &&
                    last(firsts_) == length(values_.shape(0)),
                "firsts: the first entry of each row, and their number");
        for (std::size_t b = 0; b + 1 < first_rows_.shape(0); ++b) require_columns(b);
    }

    std::int64_t n_rows() const { return length(firsts_.shape(0)) - 1; }
    std::int64_t n_columns() const { return last(first_columns_); }

    void require_shapes(std::size_t n_of_rows, std::size_t n_of_columns, std::size_t width,
                        std::size_t other_width) const {
        require(length(n_of_rows) == n_rows() && length(n_of_columns) == n_columns(),
                "vectors: a row of values for each row or column");
        same_shape({{width, other_width}});
        require(is_width(width), "1, 2, 4 or 8 columns");
    }

    petamap::mapmaking::BlockMatrix view() const {
        return {{first_rows_.data(), first_rows_.shape(0)},
                {first_columns_.data(), first_columns_.shape(0)},
                firsts_.data(),
                columns_.data(),
                values_.data()};
    }

  private:
    static constexpr std::int64_t kMost = std::int64_t{1} << 48;

    static std::int64_t last(const In<std::int64_t>& offsets) { return offsets.data()[offsets.shape(0) - 1]; }

    void require_columns(std::size_t block) const {
        const std::int64_t n = first_columns_.data()[block + 1] - first_columns_.data()[block];
        const std::int64_t begin = firsts_.data()[first_rows_.data()[block]];
        const std::int64_t end = firsts_.data()[first_rows_.data()[block + 1]];
        bool inside = true;
        for (std::int64_t i = begin; i < end; ++i)
            inside &= columns_.data()[i] >= 0 && columns_.data()[i] < n;
        require(inside, "columns: of the block");
    }

    In<std::int64_t> first_rows_, first_columns_, firsts_;
    In<std::int32_t> columns_;
    In<double> values_;
};

inline void multiply(const BlockMatrix& matrix, In<double, 2> from, Out<double, 2> to, int n_threads) {
    matrix.require_shapes(to.shape(0), from.shape(0), from.shape(1), to.shape(1));
    require_threads(n_threads);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::multiply(matrix.view(), from.data(), static_cast<int>(from.shape(1)), to.data(),
                                 n_threads);
}

inline void multiply_transposed(const BlockMatrix& matrix, In<double, 2> from, Out<double, 2> to,
                                int n_threads) {
    matrix.require_shapes(from.shape(0), to.shape(0), from.shape(1), to.shape(1));
    require_threads(n_threads);
    nanobind::gil_scoped_release release;
    petamap::mapmaking::multiply_transposed(matrix.view(), from.data(), static_cast<int>(from.shape(1)),
                                            to.data(), n_threads);
}

inline void bind_block_matrices(nanobind::module_& module) {
    nanobind::class_<BlockMatrix>(module, "BlockMatrix")
        .def(nanobind::init<In<std::int64_t>, In<std::int64_t>, In<std::int64_t>, In<std::int32_t>,
                            In<double>>(),
             nanobind::arg("first_rows").noconvert(), nanobind::arg("first_columns").noconvert(),
             nanobind::arg("firsts").noconvert(), nanobind::arg("columns").noconvert(),
             nanobind::arg("values").noconvert());
    module.def("multiply", bindings::apart(multiply), nanobind::arg("matrix"),
               nanobind::arg("given").noconvert(), nanobind::arg("out").noconvert(),
               nanobind::arg("n_threads"));
    module.def("multiply_transposed", bindings::apart(multiply_transposed), nanobind::arg("matrix"),
               nanobind::arg("given").noconvert(), nanobind::arg("out").noconvert(),
               nanobind::arg("n_threads"));
}

}  // namespace bindings
