// petacomm.mpi._mpi: what ranks of a node do in memory that they share.
#include "../arrays.h"
#include "petacomm/mpi/barrier.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

void bind_barrier(nb::module_& module) {
    module.def(
        "barrier_arrive",
        [](Out<std::int32_t> words, std::int32_t n) { return petacomm::barrier_arrive(words.data(), n); },
        nb::arg("words").noconvert(), nb::arg("n"));
    module.def(
        "barrier_wait",
        [](Out<std::int32_t> words, std::int32_t ticket, std::int64_t n_polls, double seconds) {
            nb::gil_scoped_release release;
            return petacomm::barrier_wait(words.data(), ticket, n_polls, seconds);
        },
        nb::arg("words").noconvert(), nb::arg("ticket"), nb::arg("n_polls"), nb::arg("seconds"));
}

}  // namespace

NB_MODULE(_mpi, module) { bind_barrier(module); }
