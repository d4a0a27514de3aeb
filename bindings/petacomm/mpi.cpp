// petacomm.mpi._mpi: what ranks of a node do in memory that they share.
#include "../arrays.h"
#include "petacomm/mpi/barrier.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

void bind_barrier(nb::module_& module) {
    module.def("barrier_arrive", bindings::apart(+[](Out<std::int32_t> words, std::int32_t n) {
                   require(words.shape(0) >= 2, "words: two of a barrier");
                   require(n >= 1, "n: at least one rank");
                   return petacomm::barrier_arrive(words.data(), n);
               }),
               nb::arg("words").noconvert(), nb::arg("n"));
    module.def("barrier_wait",
               bindings::apart(
                   +[](Out<std::int32_t> words, std::int32_t ticket, std::int64_t n_polls, double seconds) {
                       require(words.shape(0) >= 2, "words: two of a barrier");
                       // those who wait longer ask again: a wait that nobody can interrupt would look like a
                       // hang
                       require(n_polls >= 0 && n_polls <= 1'000'000'000, "n_polls: 0 to 10^9");
                       require(seconds >= 0 && seconds <= 3600, "seconds: 0 to 3600");
                       nb::gil_scoped_release release;
                       return petacomm::barrier_wait(words.data(), ticket, n_polls, seconds);
                   }),
               nb::arg("words").noconvert(), nb::arg("ticket"), nb::arg("n_polls"), nb::arg("seconds"));
}

}  // namespace

NB_MODULE(_mpi, module) { bind_barrier(module); }
