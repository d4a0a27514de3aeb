// Functions of the module that work on vectors of the solver: sums, steps of conjugate gradients, blocks of
// pixels.
#pragma once

#include <nanobind/stl/optional.h>

#include <optional>
#include <vector>

#include "../arrays.h"
#include "petamap/mapmaking/space.h"
#include "petamap/mapmaking/vectors.h"
#include "sample_views.h"

namespace bindings {

namespace nb = nanobind;
namespace pm = petamap::mapmaking;

inline void clear(Out<std::int64_t, 3> values, int n_threads) {
    require_threads(n_threads);
    nb::gil_scoped_release release;
    pm::clear(values.data(), length(values.size()), n_threads);
}

inline void fold(Out<std::int64_t, 4> sums, Out<std::int64_t, 3> out, int n_threads) {
    require_threads(n_threads);
    require(sums.shape(1) == out.shape(0) && sums.shape(2) == out.shape(1) && sums.shape(3) == out.shape(2),
            "a row an unknown");
    require(sums.shape(0) >= 1, "sums: of at least one thread");
    nb::gil_scoped_release release;
    pm::fold(sums.data(), static_cast<int>(sums.shape(0)), length(out.size()), out.data(), n_threads);
}

template <class Vectors>
pm::Rows rows_of(const Vectors& vectors) {
    require(is_width(vectors.shape(2)), "1, 2, 4 or 8 columns");
    return {length(vectors.shape(0)), static_cast<int>(vectors.shape(1)), static_cast<int>(vectors.shape(2))};
}

// Rows of Stokes parameters, of which matrices may be given as upper triangles.
template <class Vectors>
pm::Rows stokes_rows_of(const Vectors& vectors, const In<double, 2>* matrices = nullptr) {
    require(vectors.shape(1) >= 1 && vectors.shape(1) <= 3, "vectors of 1 to 3 Stokes parameters");
    require(!matrices || (matrices->shape(0) == vectors.shape(0) &&
                          length(matrices->shape(1)) == pm::triangle(static_cast<int>(vectors.shape(1)))),
            "inverse: the upper triangle of a matrix a pixel");
    return rows_of(vectors);
}

// One exact sum a column, to be added to the caller's limbs.
class ExactSums {
  public:
    explicit ExactSums(Out<std::int64_t, 2>& limbs, int width)
        : limbs_(limbs), sums_(static_cast<std::size_t>(width)) {
        require(limbs.shape(0) == sums_.size() && limbs.shape(1) == petacomm::ExactSum::kLimbs,
                "the limbs of an exact sum a column");
    }
    petacomm::ExactSum* data() { return sums_.data(); }
    // A sum that is not finite shows in the highest limb, whatever else is added: nothing else reaches it.
    void give() {
        constexpr int kLimbs = petacomm::ExactSum::kLimbs;
        for (std::size_t column = 0; column < sums_.size(); ++column) {
            std::int64_t* to = limbs_.data() + column * kLimbs;
            for (int i = 0; i < kLimbs; ++i) to[i] += sums_[column].limbs[i];
            if (!sums_[column].finite) to[kLimbs - 1] += petacomm::ExactSum::kNotFinite;
        }
    }

  private:
    Out<std::int64_t, 2>& limbs_;
    std::vector<petacomm::ExactSum> sums_;
};

inline void settle(In<double, 3> p, Out<double, 3> q, In<double> steps, Out<std::int64_t, 2> limbs,
                   int n_threads, std::optional<Out<std::int64_t, 4>> copies) {
    require_threads(n_threads);
    const auto rows = stokes_rows_of(p);
    require(!copies || copies->size() == copies->shape(0) * q.size(), "copies of all sums");
    same_shape({{p.size(), q.size()}, {p.shape(2), steps.shape(0)}});
    ExactSums sums(limbs, rows.width);
    {
        nb::gil_scoped_release release;
        const pm::Copies all =
            copies ? pm::Copies{copies->data(), static_cast<int>(copies->shape(0))} : pm::Copies{};
        pm::settle(rows, all, p.data(), q.data(), steps.data(), sums.data(), n_threads);
    }
    sums.give();
}

inline void advance(In<double> alphas, Out<double, 3> q, In<double, 2> inverse, Out<double, 3> r,
                    Out<std::int64_t, 2> limbs, int n_threads) {
    require_threads(n_threads);
    const auto rows = stokes_rows_of(q, &inverse);
    same_shape({{q.size(), r.size()}, {inverse.shape(0), q.shape(0)}, {q.shape(2), alphas.shape(0)}});
    ExactSums sums(limbs, rows.width);
    {
        nb::gil_scoped_release release;
        pm::advance(rows, alphas.data(), q.data(), inverse.data(), r.data(), sums.data(), n_threads);
    }
    sums.give();
}

inline void subtract(In<double> alphas, In<double, 3> q, Out<double, 3> r, int n_threads) {
    require_threads(n_threads);
    same_shape({{q.size(), r.size()}, {q.shape(2), alphas.shape(0)}, {q.shape(2), r.shape(2)}});
    const auto rows = rows_of(q);
    nb::gil_scoped_release release;
    pm::subtract(rows, alphas.data(), q.data(), r.data(), n_threads);
}

inline void dots(In<double, 3> a, In<double, 3> b, Out<std::int64_t, 2> limbs, int n_threads) {
    require_threads(n_threads);
    same_shape({{a.size(), b.size()}, {a.shape(2), b.shape(2)}});
    const auto rows = rows_of(a);
    ExactSums sums(limbs, rows.width);
    {
        nb::gil_scoped_release release;
        pm::dots(rows, a.data(), b.data(), sums.data(), n_threads);
    }
    sums.give();
}

inline void turn(In<double> alphas, In<double> betas, In<double, 3> z, Out<double, 3> x, Out<double, 3> p,
                 Out<double> largest, int n_threads) {
    require_threads(n_threads);
    same_shape({{p.size(), z.size()}, {x.size(), z.size()}, {p.shape(1), z.shape(1)}});
    for (const auto n : {alphas.shape(0), betas.shape(0), largest.shape(0), p.shape(2)})
        same_shape({{z.shape(2), n}});
    const auto rows = rows_of(z);
    nb::gil_scoped_release release;
    pm::turn(rows, alphas.data(), betas.data(), z.data(), x.data(), p.data(), largest.data(), n_threads);
}

inline void largest_sizes(In<double, 2> values, Out<double> largest, int n_threads) {
    require_threads(n_threads);
    require(is_width(values.shape(1)), "1, 2, 4 or 8 columns");
    same_shape({{values.shape(1), largest.shape(0)}});
    nb::gil_scoped_release release;
    pm::largest_sizes(length(values.shape(0)), static_cast<int>(values.shape(1)), values.data(),
                      largest.data(), n_threads);
}

inline void precondition(In<double, 2> inverse, In<double, 3> in, Out<double, 3> out, int n_threads) {
    require_threads(n_threads);
    same_shape({{in.size(), out.size()}, {inverse.shape(0), in.shape(0)}});
    const auto rows = stokes_rows_of(in, &inverse);
    nb::gil_scoped_release release;
    pm::precondition(rows, inverse.data(), in.data(), out.data(), n_threads);
}

inline pm::Space space_of(const In<double, 3>& vectors) {
    require(vectors.shape(2) % 8 == 0, "a multiple of 8 vectors");
    return {vectors.data(), length(vectors.shape(0)), static_cast<int>(vectors.shape(1)),
            length(vectors.shape(2))};
}

inline void space_products(In<double, 3> vectors, In<double, 3> given, In<double> space_scales,
                           In<double> scales, int low_bits, Out<std::int64_t, 3> sums, int n_threads) {
    require_threads(n_threads);
    require_low_bits(low_bits);
    const auto space = space_of(vectors);
    same_shape({{given.shape(0), vectors.shape(0)}, {given.shape(1), vectors.shape(1)}});
    same_shape({{space_scales.shape(0), vectors.shape(2)}, {scales.shape(0), given.shape(2)}});
    same_shape({{sums.shape(0), given.shape(2)}, {sums.shape(1), 2}, {sums.shape(2), vectors.shape(2)}});
    nb::gil_scoped_release release;
    pm::space_products(space, given.data(), static_cast<int>(given.shape(2)), space_scales.data(),
                       scales.data(), low_bits, sums.data(), n_threads);
}

inline void space_add(In<double, 3> vectors, In<double, 2> amounts, Out<double, 3> to, Out<double> largest,
                      int n_threads) {
    require_threads(n_threads);
    const auto space = space_of(vectors);
    same_shape({{to.shape(0), vectors.shape(0)}, {to.shape(1), vectors.shape(1)}});
    same_shape({{amounts.shape(0), to.shape(2)}, {amounts.shape(1), vectors.shape(2)}});
    same_shape({{largest.shape(0), to.shape(2)}});
    nb::gil_scoped_release release;
    pm::space_add(space, amounts.data(), static_cast<int>(to.shape(2)), to.data(), largest.data(), n_threads);
}

inline void invert(int n_stokes, double rcond_min, Out<double, 2> matrices, Out<double> rcond,
                   int n_threads) {
    require_threads(n_threads);
    require(n_stokes >= 1 && n_stokes <= 3, "n_stokes: 1 to 3");
    require(length(matrices.shape(1)) == pm::triangle(n_stokes),
            "matrices: the upper triangle of a matrix a pixel");
    same_shape({{matrices.shape(0), rcond.shape(0)}});
    nb::gil_scoped_release release;
    pm::invert(length(matrices.shape(0)), n_stokes, rcond_min, matrices.data(), rcond.data(), n_threads);
}

inline void add_hashes(In<std::int64_t> keys, In<double, 2> values, int kind, Out<std::uint64_t> sums,
                       int n_threads) {
    require_threads(n_threads);
    require(kind == 0 || kind == 1, "kind: 0 or 1");
    require(values.shape(1) <= 4, "values: up to 4 columns");
    same_shape({{keys.shape(0), values.shape(0)}, {sums.shape(0), 2}});
    nb::gil_scoped_release release;
    pm::add_hashes(length(keys.shape(0)), static_cast<int>(values.shape(1)), kind, keys.data(), values.data(),
                   sums.data(), n_threads);
}

inline void bind_vectors(nb::module_& module) {
    module.def("clear", bindings::apart(clear), nb::arg("values").noconvert(), nb::arg("n_threads"));
    module.def("fold", bindings::apart(fold), nb::arg("sums").noconvert(), nb::arg("out").noconvert(),
               nb::arg("n_threads"));
    module.def("settle", bindings::apart(settle), nb::arg("p").noconvert(), nb::arg("q").noconvert(),
               nb::arg("steps").noconvert(), nb::arg("limbs").noconvert(), nb::arg("n_threads"),
               nb::arg("copies").noconvert().none() = nb::none());
    module.def("advance", bindings::apart(advance), nb::arg("alphas").noconvert(), nb::arg("q").noconvert(),
               nb::arg("inverse").noconvert(), nb::arg("r").noconvert(), nb::arg("limbs").noconvert(),
               nb::arg("n_threads"));
    module.def("subtract", bindings::apart(subtract), nb::arg("alphas").noconvert(), nb::arg("q").noconvert(),
               nb::arg("r").noconvert(), nb::arg("n_threads"));
    module.def("dots", bindings::apart(dots), nb::arg("a").noconvert(), nb::arg("b").noconvert(),
               nb::arg("limbs").noconvert(), nb::arg("n_threads"));
    module.def("turn", bindings::apart(turn), nb::arg("alphas").noconvert(), nb::arg("betas").noconvert(),
               nb::arg("z").noconvert(), nb::arg("x").noconvert(), nb::arg("p").noconvert(),
               nb::arg("largest").noconvert(), nb::arg("n_threads"));
    module.def("largest_sizes", bindings::apart(largest_sizes), nb::arg("values").noconvert(),
               nb::arg("largest").noconvert(), nb::arg("n_threads"));
    module.def("precondition", bindings::apart(precondition), nb::arg("inverse").noconvert(),
               nb::arg("input").noconvert(), nb::arg("out").noconvert(), nb::arg("n_threads"));
    module.def("space_products", bindings::apart(space_products), nb::arg("vectors").noconvert(),
               nb::arg("given").noconvert(), nb::arg("space_scales").noconvert(),
               nb::arg("scales").noconvert(), nb::arg("low_bits"), nb::arg("sums").noconvert(),
               nb::arg("n_threads"));
    module.def("space_add", bindings::apart(space_add), nb::arg("vectors").noconvert(),
               nb::arg("amounts").noconvert(), nb::arg("to").noconvert(), nb::arg("largest").noconvert(),
               nb::arg("n_threads"));
    module.def("add_hashes", bindings::apart(add_hashes), nb::arg("keys").noconvert(),
               nb::arg("values").noconvert(), nb::arg("kind"), nb::arg("sums").noconvert(),
               nb::arg("n_threads"));
    module.def("invert", bindings::apart(invert), nb::arg("n_stokes"), nb::arg("rcond_min"),
               nb::arg("matrices").noconvert(), nb::arg("rcond").noconvert(), nb::arg("n_threads"));
}

}  // namespace bindings
