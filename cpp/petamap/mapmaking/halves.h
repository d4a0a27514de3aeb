// Where the samples of a block lie in its transform.
#pragma once

#include <algorithm>
#include <cstdint>

namespace petamap::mapmaking {

// The output range of one overlap-save convolution: n_out samples, of which the inputs begin n_left earlier.
struct Block {
    std::int64_t first;   // the first input sample, among the samples that the rank holds
    std::int64_t n_in;    // inputs, halos included
    std::int64_t n_left;  // inputs before the first output
    std::int64_t n_out;   // outputs
    std::int64_t kernel;  // which inverse noise kernel
    std::int64_t stream;  // which detector in which stationary interval, of those that the rank holds
};

// A block's inputs lie in two halves of one transform, which begins n_lag before the first output of each and
// has `half` outputs.
struct Halves {
    std::int64_t n_first, n_second;  // outputs
    std::int64_t a_begin, a_count;   // inputs [0, a_count) lie at a_begin
    std::int64_t b_begin, b_skip;    // inputs [b_skip, n_in) lie at b_begin

    Halves(const Block& block, std::int64_t n_lag, std::int64_t half) {
        n_first = std::min(block.n_out, half);
        n_second = block.n_out - n_first;
        a_begin = n_lag - block.n_left;
        a_count = std::min(block.n_in, block.n_left + n_first + n_lag);
        const std::int64_t b_input = block.n_left + n_first - n_lag;  // the input at the head of b
        b_skip = n_second > 0 ? std::max<std::int64_t>(0, b_input) : block.n_in;
        b_begin = n_second > 0 ? b_skip - b_input : 0;
    }
};

}  // namespace petamap::mapmaking
