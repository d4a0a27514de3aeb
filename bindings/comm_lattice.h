// Lattices, for comm.cpp.
#pragma once

#include <algorithm>

#include "arrays.h"
#include "petamap/comm/lattice.h"

namespace petamap::bindings {

inline void bind_lattice(nanobind::module_& module) {
    namespace nb = nanobind;
    module.def(
        "hop_sites",
        [](In<double, 3> links, In<std::int32_t, 2> neighbours, In<double, 2> field, In<std::int32_t> sites,
           Out<double, 2> out, int n_threads) {
            require(links.shape(2) == 18 && field.shape(1) == 6 && out.shape(1) == 6, "3x3 complex matrices");
            require(links.shape(0) == neighbours.shape(0) && links.shape(1) == neighbours.shape(1),
                    "a link to each neighbour");
            const auto n_sites = static_cast<std::int64_t>(std::min(links.shape(0), out.shape(0)));
            const auto n_rows = static_cast<std::int64_t>(field.shape(0));
            const auto inside = [](const std::int32_t* values, std::size_t n, std::int64_t limit) {
                return std::all_of(values, values + n, [=](auto v) { return v >= 0 && v < limit; });
            };
            require(inside(sites.data(), sites.shape(0), n_sites), "sites that are there");
            require(inside(neighbours.data(), neighbours.size(), n_rows), "neighbours that are there");
            nb::gil_scoped_release release;
            comm::hop_sites(links.data(), neighbours.data(), static_cast<std::int64_t>(links.shape(1)),
                            field.data(), sites.data(), static_cast<std::int64_t>(sites.shape(0)), out.data(),
                            n_threads);
        },
        nb::arg("links").noconvert(), nb::arg("neighbours").noconvert(), nb::arg("field").noconvert(),
        nb::arg("sites").noconvert(), nb::arg("out").noconvert(), nb::arg("n_threads"));
}

}  // namespace petamap::bindings
