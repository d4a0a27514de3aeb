#include <algorithm>

#include "arrays.h"
#include "petamap/base/convolver.h"
#include "petamap/base/exact.h"
#include "petamap/base/philox.h"

namespace nb = nanobind;
using namespace petamap::bindings;
using petamap::base::Convolver;

namespace {

void philox4x32(In<std::uint32_t, 2> counters, In<std::uint32_t> key, Out<std::uint32_t, 2> out) {
    require(counters.shape(1) == 4 && out.shape(1) == 4 && key.shape(0) == 2, "4 words a counter, 2 a key");
    require(counters.shape(0) == out.shape(0), "as many outputs as counters");
    const std::uint32_t* in = counters.data();
    std::uint32_t* words = out.data();
    const petamap::base::PhiloxKey key_words{key.data()[0], key.data()[1]};
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < 4 * counters.shape(0); i += 4) {
        const auto block = petamap::base::philox4x32({in[i], in[i + 1], in[i + 2], in[i + 3]}, key_words);
        for (int word = 0; word < 4; ++word) words[i + word] = block[word];
    }
}

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

// What the compiler was allowed to use, by the names of /proc/cpuinfo.
nb::list instruction_sets() {
    nb::list names;
#ifdef __AVX2__
    names.append("avx2");
#endif
#ifdef __FMA__
    names.append("fma");
#endif
#ifdef __AVX512F__
    names.append("avx512f");
#endif
    return names;
}

// Add the sum of the values to the limbs.
void add_exactly(In<double> values, Out<std::int64_t> limbs) {
    using petamap::base::ExactSum;
    require(limbs.shape(0) == ExactSum::kLimbs, "as many limbs as an exact sum has");
    ExactSum sum;
    alignas(64) double chunk[ExactSum::kChunk];
    for (std::size_t done = 0; done < values.shape(0); done += ExactSum::kChunk) {
        const std::size_t n = std::min(ExactSum::kChunk, values.shape(0) - done);
        std::copy_n(values.data() + done, n, chunk);
        petamap::base::add_exactly(chunk, n, 1, &sum);
    }
    require(sum.finite, "values must be finite");
    for (int i = 0; i < ExactSum::kLimbs; ++i) limbs.data()[i] += sum.limbs[i];
}

}  // namespace

NB_MODULE(_base, module) {
    module.attr("instruction_sets") = instruction_sets();
    module.def("philox4x32", philox4x32, nb::arg("counters").noconvert(), nb::arg("key").noconvert(),
               nb::arg("out").noconvert());
    module.attr("N_LIMBS") = petamap::base::ExactSum::kLimbs;
    module.attr("NOT_FINITE") = petamap::base::ExactSum::kNotFinite;
    module.attr("LIMB_BITS") = petamap::base::ExactSum::kBits;
    module.attr("LOWEST_BIT") = petamap::base::ExactSum::kLowest;
    module.def("add_exactly", add_exactly, nb::arg("values").noconvert(), nb::arg("limbs").noconvert());
    nb::class_<Convolver>(module, "Convolver")
        .def(nb::init<std::size_t>(), nb::arg("n"))
        .def_prop_ro("n", &Convolver::size)
        .def("spectrum", spectrum, nb::arg("lags").noconvert(), nb::arg("out").noconvert())
        .def("convolve", convolve, nb::arg("a").noconvert(), nb::arg("b").noconvert(),
             nb::arg("spectrum").noconvert());
}
