// petacomm.base._base: exact sums, and the instruction sets of the kernels.
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <algorithm>

#include "../arrays.h"
#include "petacomm/base/exact.h"
#include "petacomm/base/threads.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

// The sets that kernels were compiled for, the lowest first.
nb::typed<nb::list, nb::str> built_sets() {
    nb::typed<nb::list, nb::str> names;
    for (const char* name : {PETAMAP_SETS}) names.append(name);
    return names;
}

// Those that the processor has, the lowest first: what CMakeLists.txt lets the compiler use for each, with
// registers that the system saves.
nb::typed<nb::list, nb::str> processor_sets() {
    nb::typed<nb::list, nb::str> names;
    names.append("baseline");
#ifdef __x86_64__
    unsigned a, b, basic, c, more;
    if (!__get_cpuid(1, &a, &b, &basic, &c) || !__get_cpuid(0x80000001, &a, &b, &more, &c)) return names;
    const auto all = [](auto... features) { return (... && features); };
    if (!all(basic & bit_CMPXCHG16B, basic & bit_POPCNT, basic & bit_SSE4_2, more & bit_LAHF_LM))
        return names;
    names.append("v2");
    if (!all(basic & bit_F16C, basic & bit_MOVBE, more & bit_LZCNT, __builtin_cpu_supports("avx2"),
             __builtin_cpu_supports("bmi"), __builtin_cpu_supports("bmi2"), __builtin_cpu_supports("fma")))
        return names;
    names.append("v3");
    if (!all(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"),
             __builtin_cpu_supports("avx512cd"), __builtin_cpu_supports("avx512dq"),
             __builtin_cpu_supports("avx512vl")))
        return names;
    names.append("v4");
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
    module.def("built_sets", built_sets);
    module.def("processor_sets", processor_sets);
    module.def("end_threads", petacomm::end_threads);
    module.attr("N_LIMBS") = petacomm::ExactSum::kLimbs;
    module.attr("NOT_FINITE") = petacomm::ExactSum::kNotFinite;
    module.attr("LIMB_BITS") = petacomm::ExactSum::kBits;
    module.attr("LOWEST_BIT") = petacomm::ExactSum::kLowest;
    module.def("add_exactly", bindings::apart(add_exactly), nb::arg("values").noconvert(),
               nb::arg("limbs").noconvert());
}
