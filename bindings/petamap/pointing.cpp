#include <nanobind/stl/optional.h>

#include "petamap/pointing/attitudes.h"
#include "pointing_views.h"

namespace nb = nanobind;
using namespace bindings;
namespace pointing = petamap::pointing;

namespace {

void check_range(const pointing::CompressedPointing& p, std::int64_t detector, std::int64_t start,
                 std::size_t n) {
    require(detector >= 0 && detector < p.n_det, "detector: that there is");
    require(start >= 0 && length(n) <= p.n_samp && start <= p.n_samp - length(n), "start: samples outside");
}

void expand(const PointingArguments& arguments, In<double> grid_numbers, std::int64_t detector,
            std::int64_t start, Out<std::int32_t> pixels, std::optional<Out<std::uint32_t>> angles) {
    const auto p = compressed_pointing(arguments);
    const auto grid = petamap::sky::Grid::from(grid_numbers.data(), grid_numbers.shape(0));
    const std::size_t n = pixels.shape(0);
    check_range(p, detector, start, n);
    require(!angles || angles->shape(0) == n, "as many angles as pixels");
    std::int32_t* out = pixels.data();
    std::uint32_t* turns = angles ? angles->data() : nullptr;
    nb::gil_scoped_release release;
    pointing::expand(p, detector, grid, start, start + static_cast<std::int64_t>(n), out, turns);
}

void directions(const PointingArguments& arguments, std::int64_t detector, std::int64_t start,
                Out<double, 2> vectors, Out<std::uint32_t> angles) {
    const auto p = compressed_pointing(arguments);
    const std::size_t n = angles.shape(0);
    check_range(p, detector, start, n);
    require(vectors.shape(0) == n && vectors.shape(1) == 3, "vectors of shape (n, 3)");
    double* out = vectors.data();
    std::uint32_t* turns = angles.data();
    nb::gil_scoped_release release;
    pointing::directions(p, detector, start, start + static_cast<std::int64_t>(n), out, turns);
}

void quaternions(const PointingArguments& arguments, std::int64_t detector, std::int64_t start,
                 Out<double, 2> out) {
    const auto p = compressed_pointing(arguments);
    const std::size_t n = out.shape(0);
    check_range(p, detector, start, n);
    require(out.shape(1) == 4, "quaternions of shape (n, 4)");
    double* numbers = out.data();
    nb::gil_scoped_release release;
    pointing::quaternions(p, detector, start, start + static_cast<std::int64_t>(n), numbers);
}

void attitudes(In<double> theta, In<double> phi, In<double> psi, Out<double, 2> out) {
    const std::size_t n = out.shape(0);
    require(theta.shape(0) == n && phi.shape(0) == n && psi.shape(0) == n, "angles of each sample");
    require(out.shape(1) == 4, "quaternions of shape (n, 4)");
    double* numbers = out.data();
    nb::gil_scoped_release release;
    pointing::attitudes(theta.data(), phi.data(), psi.data(), length(n), numbers);
}

void response_angles(In<double> psi, Out<std::uint32_t> angles) {
    require(angles.shape(0) == psi.shape(0), "an angle of each sample");
    nb::gil_scoped_release release;
    pointing::response_angles(psi.data(), length(psi.shape(0)), angles.data());
}

void unit(In<double, 2> quaternions, Out<double, 2> out) {
    const std::size_t n = out.shape(0);
    require(quaternions.shape(0) == n && quaternions.shape(1) == 4 && out.shape(1) == 4,
            "quaternions of shape (n, 4)");
    double* numbers = out.data();
    nb::gil_scoped_release release;
    pointing::unit(quaternions.data(), length(n), numbers);
}

}  // namespace

NB_MODULE(_pointing, module) {
    module.def("expand", bindings::apart(expand), nb::arg("arguments"), nb::arg("grid").noconvert(),
               nb::arg("detector"), nb::arg("start"), nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none());
    module.def("directions", bindings::apart(directions), nb::arg("arguments"), nb::arg("detector"),
               nb::arg("start"), nb::arg("vectors").noconvert(), nb::arg("angles").noconvert());
    module.def("quaternions", bindings::apart(quaternions), nb::arg("arguments"), nb::arg("detector"),
               nb::arg("start"), nb::arg("out").noconvert());
    module.def("unit", bindings::apart(unit), nb::arg("quaternions").noconvert(), nb::arg("out").noconvert());
    module.def("attitudes", bindings::apart(attitudes), nb::arg("theta").noconvert(),
               nb::arg("phi").noconvert(), nb::arg("psi").noconvert(), nb::arg("out").noconvert());
    module.def("response_angles", bindings::apart(response_angles), nb::arg("psi").noconvert(),
               nb::arg("angles").noconvert());
}
