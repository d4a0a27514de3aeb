#include "arrays.h"
#include "petamap/base/philox.h"

namespace nb = nanobind;
using namespace petamap::bindings;

NB_MODULE(_base, module) {
    module.def(
        "philox4x32",
        [](In<std::uint32_t, 2> counters, In<std::uint32_t> key, Out<std::uint32_t, 2> out) {
            require(counters.shape(1) == 4 && out.shape(1) == 4 && key.shape(0) == 2,
                    "4 words a counter, 2 a key");
            require(counters.shape(0) == out.shape(0), "as many outputs as counters");
            const std::uint32_t* in = counters.data();
            std::uint32_t* words = out.data();
            const petamap::base::PhiloxKey key_words{key.data()[0], key.data()[1]};
            nb::gil_scoped_release release;
            for (std::size_t i = 0; i < 4 * counters.shape(0); i += 4) {
                const auto block =
                    petamap::base::philox4x32({in[i], in[i + 1], in[i + 2], in[i + 3]}, key_words);
                for (int word = 0; word < 4; ++word) words[i + word] = block[word];
            }
        },
        nb::arg("counters").noconvert(), nb::arg("key").noconvert(), nb::arg("out").noconvert());
}
