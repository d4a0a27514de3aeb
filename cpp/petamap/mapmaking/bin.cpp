#include "petamap/mapmaking/bin.h"

#include <algorithm>
#include <cmath>

#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/vectors.h"

namespace petamap::mapmaking {
namespace {

// An atomic addition costs several plain ones, so a lone thread does without.
template <bool kShared>
inline void add(std::int64_t& sum, std::int64_t value) {
    if constexpr (kShared)
        __atomic_fetch_add(&sum, value, __ATOMIC_RELAXED);
    else
        sum += value;
}

// The response of sample i of a chunk to the Stokes parameters solved for.
template <int kStokes>
inline void response_of(const Response<kStokes>& response, std::int64_t i, double gain, double* out) {
    if constexpr (kStokes != 2) out[0] = gain;
    if constexpr (kStokes > 1) {
        out[kStokes - 2] = gain * response.cosine[i];
        out[kStokes - 1] = gain * response.sine[i];
    }
}

// use(i, pixel, response to each Stokes parameter) for samples [begin, begin + n), i from 0.
template <int kStokes, class Use>
void for_each(const Samples& samples, std::int64_t begin, std::int64_t n, const Use& use) {
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const Response<kStokes> response(samples, begin + done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            double each[kStokes];
            const double gain = samples.gains ? samples.gains[begin + done + i] : 1.0;
            response_of<kStokes>(response, i, gain, each);
            use(done + i, samples.pixels[begin + done + i], each);
        }
    }
}

template <int kStokes, bool kShared>
void add_weights_of(const Samples& samples, std::int64_t begin, std::int64_t n, double weight, double scale,
                    std::int64_t* weights) {
    for_each<kStokes>(samples, begin, n, [=](std::int64_t, std::int64_t pixel, const double* response) {
        if (pixel < 0) return;
        std::int64_t* sum = weights + pixel * triangle(kStokes);
        for (int i = 0; i < kStokes; ++i)
            for (int j = i; j < kStokes; ++j, ++sum)
                add<kShared>(*sum, to_fixed(weight * response[i] * response[j] * scale));
    });
}

inline void add_two_words(double value, double low_scale, std::int64_t& high, std::int64_t& low) {
    const std::int64_t whole = to_fixed(value);
    high += whole;
    low += to_fixed((value - static_cast<double>(whole)) * low_scale);
}

template <int kStokes>
double add_signal_of(const Samples& samples, std::int64_t begin, std::int64_t n, const double* time,
                     double scale, int low_bits, std::int64_t* high, std::int64_t* low,
                     std::int64_t* gap_high, std::int64_t* gap_low) {
    double largest = 0;
    const double low_scale = std::ldexp(1.0, low_bits);
    for_each<kStokes>(samples, begin, n, [&](std::int64_t i, std::int64_t pixel, const double* response) {
        const double size = std::fabs(time[i]);
        largest = size <= largest ? largest : size;
        const double value = time[i] * scale;
        if (pixel < 0) return add_two_words(value, low_scale, gap_high[~pixel], gap_low[~pixel]);
        for (int k = 0; k < kStokes; ++k)
            add_two_words(value * response[k], low_scale, high[pixel * kStokes + k],
                          low[pixel * kStokes + k]);
    });
    return largest;
}

}  // namespace

void add_hits(const Samples& samples, std::int64_t begin, std::int64_t n, bool shared, std::int64_t* hits) {
    const std::int32_t* pixels = samples.pixels + begin;
    for (std::int64_t i = 0; i < n; ++i) {
        if (pixels[i] < 0) continue;
        shared ? add<true>(hits[pixels[i]], 1) : add<false>(hits[pixels[i]], 1);
    }
}

void add_weights(const Samples& samples, std::int64_t begin, std::int64_t n, int n_stokes, double weight,
                 double scale, bool shared, std::int64_t* weights) {
    const auto pick = [n_stokes](auto one, auto two, auto three) {
        return n_stokes == 1 ? one : n_stokes == 2 ? two : three;
    };
    const auto add = shared ? pick(add_weights_of<1, true>, add_weights_of<2, true>, add_weights_of<3, true>)
                            : pick(add_weights_of<1, false>, add_weights_of<2, false>, add_weights_of<3, false>);
    add(samples, begin, n, weight, scale, weights);
}

void scan(const Samples& samples, std::int64_t n, int n_stokes, const double* map, const double* gaps,
          double* time) {
    const auto scan = n_stokes == 1 ? gather<1> : n_stokes == 2 ? gather<2> : gather<3>;
    scan(samples, 0, n, map, gaps, time);
}

double add_signal(const Samples& samples, std::int64_t begin, std::int64_t n, int n_stokes,
                  const double* time, double scale, int low_bits, std::int64_t* high, std::int64_t* low,
                  std::int64_t* gap_high, std::int64_t* gap_low) {
    const auto add = n_stokes == 1 ? add_signal_of<1> : n_stokes == 2 ? add_signal_of<2> : add_signal_of<3>;
    return add(samples, begin, n, time, scale, low_bits, high, low, gap_high, gap_low);
}

}  // namespace petamap::mapmaking
