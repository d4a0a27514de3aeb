#include "arrays.h"
#include "comm_lattice.h"
#include "comm_mapping.h"
#include "comm_node.h"
#include "comm_rows.h"
#include "comm_setup.h"
#include "comm_torus.h"
#include "petamap/comm/fixed.h"
#include "petamap/comm/indexed.h"
#include "petamap/comm/operations.h"

namespace nb = nanobind;
using namespace petamap::bindings;
using petamap::comm::Operation;

namespace {

template <typename T>
void bind_indexed(nb::module_& module) {
    module.def(
        "pack",
        [](In<T, 2> values, In<std::int32_t> positions, Out<T, 2> out, int n_threads) {
            require(out.shape(0) == positions.shape(0), "a row of out for each position");
            require(out.shape(1) == values.shape(1), "rows of the same length");
            nb::gil_scoped_release release;
            petamap::comm::pack(values.data(), positions.data(), positions.shape(0), values.shape(1),
                                out.data(), n_threads);
        },
        nb::arg("values").noconvert(), nb::arg("positions").noconvert(), nb::arg("out").noconvert(),
        nb::arg("n_threads"));
    module.def(
        "unpack",
        [](In<T, 2> buffer, In<std::int32_t> positions, Out<T, 2> values, int n_threads) {
            require(buffer.shape(0) == positions.shape(0), "a row of the buffer for each position");
            require(buffer.shape(1) == values.shape(1), "rows of the same length");
            nb::gil_scoped_release release;
            petamap::comm::unpack(buffer.data(), positions.data(), positions.shape(0), values.shape(1),
                                  values.data(), n_threads);
        },
        nb::arg("buffer").noconvert(), nb::arg("positions").noconvert(), nb::arg("values").noconvert(),
        nb::arg("n_threads"));
}

template <typename T>
void bind_fixed(nb::module_& module) {
    module.def(
        "largest",
        [](In<T, 2> values, int n_threads) {
            nb::gil_scoped_release release;
            return petamap::comm::largest(values.data(), static_cast<std::int64_t>(values.size()), n_threads);
        },
        nb::arg("values").noconvert(), nb::arg("n_threads"));
    module.def(
        "to_fixed",
        [](In<T, 2> values, double unit, Out<std::int64_t, 2> words, int n_threads) {
            require(words.size() == values.size(), "a word for each value");
            nb::gil_scoped_release release;
            petamap::comm::to_fixed(values.data(), static_cast<std::int64_t>(values.size()), unit,
                                    words.data(), n_threads);
        },
        nb::arg("values").noconvert(), nb::arg("unit"), nb::arg("words").noconvert(), nb::arg("n_threads"));
    module.def(
        "from_fixed",
        [](In<std::int64_t, 2> words, double unit, Out<T, 2> values, int n_threads) {
            require(words.size() == values.size(), "a value for each word");
            nb::gil_scoped_release release;
            petamap::comm::from_fixed(words.data(), static_cast<std::int64_t>(words.size()), unit,
                                      values.data(), n_threads);
        },
        nb::arg("words").noconvert(), nb::arg("unit"), nb::arg("values").noconvert(), nb::arg("n_threads"));
}

}  // namespace

NB_MODULE(_comm, module) {
    nb::enum_<Operation>(module, "Operation")
        .value("sum", Operation::sum)
        .value("max", Operation::max)
        .value("min", Operation::min)
        .value("bit_or", Operation::bit_or);
    bind_indexed<std::int64_t>(module);
    bind_indexed<double>(module);
    bind_indexed<float>(module);
    bind_indexed<std::uint8_t>(module);
    bind_cut_lists(module);
    bind_row_lists<std::int64_t>(module);
    bind_row_lists<double>(module);
    bind_row_lists<float>(module);
    bind_row_lists<std::uint8_t>(module);
    bind_barrier(module);
    bind_intervals(module);
    bind_row_runs(module);
    bind_reduce_runs<std::int64_t>(module);
    bind_reduce_runs<double>(module);
    bind_reduce_runs<float>(module);
    bind_reduce_runs<std::uint8_t>(module);
    bind_fixed<double>(module);
    bind_fixed<float>(module);
    bind_chunks(module);
    bind_sharing(module);
    bind_torus(module);
    bind_ways(module);
    bind_mapping(module);
    bind_lattice(module);
}
