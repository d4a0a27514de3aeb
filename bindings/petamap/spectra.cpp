#include "../arrays.h"
#include "petamap/spectra/coupling.h"

namespace nb = nanobind;
using namespace bindings;
namespace spectra = petamap::spectra;

NB_MODULE(_spectra, module) {
    module.def(
        "coupling",
        bindings::apart(+[](In<double, 2> windows, In<double> central, std::int64_t first, std::int64_t stop,
                            Out<double, 3> out, int n_threads) {
            const auto n = static_cast<std::int64_t>(out.shape(1));
            const auto n_w = static_cast<std::int64_t>(windows.shape(1));
            require(windows.shape(0) == 4 && n_w > 0, "four windows");
            require(out.shape(0) == 5 && n > 0 && out.shape(2) == out.shape(1), "five square matrices");
            require(static_cast<std::int64_t>(central.shape(0)) == 2 * n - 1, "2 l_max + 1 binomials");
            require(0 <= first && first <= stop && stop <= n, "multipoles of the matrices");
            require_threads(n_threads);
            nb::gil_scoped_release release;
            spectra::coupling(windows.data(), n_w - 1, central.data(), n - 1, first, stop, out.data(),
                              n_threads);
        }),
        nb::arg("windows").noconvert(), nb::arg("central").noconvert(), nb::arg("first"), nb::arg("stop"),
        nb::arg("out").noconvert(), nb::arg("n_threads"));
}
