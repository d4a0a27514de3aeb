#include "../arrays.h"
#include "petamap/noise/convolver.h"
#include "petamap/noise/levinson.h"

namespace nb = nanobind;
using namespace bindings;
using petamap::noise::Convolver;

namespace {

void spectrum(const Convolver& convolver, In<double> lags, Out<double> out) {
    require(out.shape(0) == convolver.size(), "one value a frequency");
    require(lags.shape(0) > 0, "at least lag 0");
    convolver.spectrum({lags.data(), lags.shape(0)}, out.data());
}

void convolve(const Convolver& convolver, Out<double> a, Out<double> b, In<double> spectrum) {
    const std::size_t n = convolver.size();
    require(a.shape(0) == n && b.shape(0) == n && spectrum.shape(0) == n, "blocks of the convolver's length");
    nb::gil_scoped_release release;
    convolver.convolve(a.data(), b.data(), spectrum.data());
}

double prediction_error(In<double> covariance, Out<double> filter) {
    require(covariance.shape(0) > 0, "at least lag 0");
    require(filter.shape(0) == covariance.shape(0), "one value a lag");
    nb::gil_scoped_release release;
    return petamap::noise::prediction_error({covariance.data(), covariance.shape(0)}, filter.data());
}

}  // namespace

NB_MODULE(_noise, module) {
    nb::class_<Convolver>(module, "Convolver")
        .def(nb::init<std::size_t>(), nb::arg("n"))
        .def(nb::init<std::size_t, int>(), nb::arg("n"), nb::arg("lanes"))
        .def_prop_ro("n", &Convolver::size)
        .def("spectrum", spectrum, nb::arg("lags").noconvert(), nb::arg("out").noconvert())
        .def("convolve", convolve, nb::arg("a").noconvert(), nb::arg("b").noconvert(),
             nb::arg("spectrum").noconvert());
    module.def("prediction_error", prediction_error, nb::arg("covariance").noconvert(),
               nb::arg("filter").noconvert());
}
