// petacomm.base._base: exact sums.
#include <algorithm>

#include "../arrays.h"
#include "petacomm/base/exact.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

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
    using petacomm::ExactSum;
    require(limbs.shape(0) == ExactSum::kLimbs, "as many limbs as an exact sum has");
    ExactSum sum;
    alignas(64) double chunk[ExactSum::kChunk];
    for (std::size_t done = 0; done < values.shape(0); done += ExactSum::kChunk) {
        const std::size_t n = std::min(ExactSum::kChunk, values.shape(0) - done);
        std::copy_n(values.data() + done, n, chunk);
        petacomm::add_exactly(chunk, n, 1, &sum);
    }
    require(sum.finite, "values must be finite");
    for (int i = 0; i < ExactSum::kLimbs; ++i) limbs.data()[i] += sum.limbs[i];
}

}  // namespace

NB_MODULE(_base, module) {
    module.attr("instruction_sets") = instruction_sets();
    module.attr("N_LIMBS") = petacomm::ExactSum::kLimbs;
    module.attr("NOT_FINITE") = petacomm::ExactSum::kNotFinite;
    module.attr("LIMB_BITS") = petacomm::ExactSum::kBits;
    module.attr("LOWEST_BIT") = petacomm::ExactSum::kLowest;
    module.def("add_exactly", add_exactly, nb::arg("values").noconvert(), nb::arg("limbs").noconvert());
}
