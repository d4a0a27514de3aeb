#include "../arrays.h"
#include "petamap/sky/grid.h"
#include "petamap/sky/healpix.h"

namespace nb = nanobind;
using namespace bindings;
namespace sky = petamap::sky;

namespace {

sky::Grid grid_of(const In<double>& parameters) {
    return sky::Grid::from(parameters.data(), parameters.shape(0));
}

sky::Grid healpix_of(const In<double>& parameters) {
    const sky::Grid grid = grid_of(parameters);
    require(grid.kind == sky::GridKind::healpix_ring || grid.kind == sky::GridKind::healpix_nest,
            "not a HEALPix grid");
    return grid;
}

void require_inside(const sky::Grid& grid, const In<std::int64_t>& pixels) {
    const std::int64_t* number = pixels.data();
    bool inside = true;
    for (std::size_t i = 0; i < pixels.shape(0); ++i) inside &= number[i] >= 0 && number[i] < grid.n_pix;
    require(inside, "a pixel lies outside the grid");
}

}  // namespace

NB_MODULE(_sky, module) {
    module.def("pixels_of",
               bindings::apart(+[](In<double> parameters, In<double, 2> directions, Out<std::int32_t> pixels,
                                   int n_threads) {
                   require(directions.shape(1) == 3, "directions have shape (n, 3)");
                   require(directions.shape(0) == pixels.shape(0), "as many pixels as directions");
                   const sky::Grid grid = grid_of(parameters);
                   require_threads(n_threads);
                   nb::gil_scoped_release release;
                   sky::pixels_of(grid, directions.data(), static_cast<std::int64_t>(pixels.shape(0)),
                                  pixels.data(), n_threads);
               }),
               nb::arg("grid").noconvert(), nb::arg("directions").noconvert(), nb::arg("pixels").noconvert(),
               nb::arg("n_threads"));

    module.def(
        "pixels_of_components",
        bindings::apart(+[](In<double> parameters, In<double> x, In<double> y, In<double> z,
                            Out<std::int32_t> pixels) {
            const std::size_t n = pixels.shape(0);
            require(x.shape(0) == n && y.shape(0) == n && z.shape(0) == n, "as many pixels as directions");
            const sky::Grid grid = grid_of(parameters);
            nb::gil_scoped_release release;
            sky::pixels_of(grid, x.data(), y.data(), z.data(), static_cast<std::int64_t>(n), pixels.data());
        }),
        nb::arg("grid").noconvert(), nb::arg("x").noconvert(), nb::arg("y").noconvert(),
        nb::arg("z").noconvert(), nb::arg("pixels").noconvert());

    module.def("healpix_directions",
               bindings::apart(+[](In<double> parameters, In<std::int64_t> pixels, Out<double, 2> directions,
                                   int n_threads) {
                   require(directions.shape(1) == 3, "directions have shape (n, 3)");
                   require(directions.shape(0) == pixels.shape(0), "as many directions as pixels");
                   const sky::Grid grid = healpix_of(parameters);
                   require_inside(grid, pixels);
                   require_threads(n_threads);
                   nb::gil_scoped_release release;
                   sky::healpix_directions(grid, pixels.data(), static_cast<std::int64_t>(pixels.shape(0)),
                                           directions.data(), n_threads);
               }),
               nb::arg("grid").noconvert(), nb::arg("pixels").noconvert(), nb::arg("directions").noconvert(),
               nb::arg("n_threads"));

    module.def("healpix_reordered",
               bindings::apart(
                   +[](In<double> parameters, In<std::int64_t> pixels, Out<std::int64_t> out, int n_threads) {
                       require(out.shape(0) == pixels.shape(0), "as many outputs as pixels");
                       const sky::Grid grid = healpix_of(parameters);
                       require((grid.healpix.n_side & (grid.healpix.n_side - 1)) == 0,
                               "n_side must be a power of two");
                       require_inside(grid, pixels);
                       require_threads(n_threads);
                       nb::gil_scoped_release release;
                       sky::healpix_reordered(grid, pixels.data(), static_cast<std::int64_t>(pixels.shape(0)),
                                              out.data(), n_threads);
                   }),
               nb::arg("grid").noconvert(), nb::arg("pixels").noconvert(), nb::arg("out").noconvert(),
               nb::arg("n_threads"));

    module.def("healpix_interpolation",
               bindings::apart(+[](In<double> parameters, In<double, 2> directions,
                                   Out<std::int32_t, 2> pixels, Out<double, 2> weights, int n_threads) {
                   const std::size_t n = directions.shape(0);
                   require(directions.shape(1) == 3, "directions have shape (n, 3)");
                   require(pixels.shape(0) == n && pixels.shape(1) == 4 && weights.shape(0) == n &&
                               weights.shape(1) == 4,
                           "4 pixels and 4 weights a direction");
                   const sky::Grid grid = healpix_of(parameters);
                   require_threads(n_threads);
                   nb::gil_scoped_release release;
                   sky::healpix_interpolation(grid, directions.data(), static_cast<std::int64_t>(n),
                                              pixels.data(), weights.data(), n_threads);
               }),
               nb::arg("grid").noconvert(), nb::arg("directions").noconvert(), nb::arg("pixels").noconvert(),
               nb::arg("weights").noconvert(), nb::arg("n_threads"));
}
