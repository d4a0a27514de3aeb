#include "petamap/mapmaking/signal.h"

#include <algorithm>
#include <cmath>

namespace petamap::mapmaking {

bool zero_gaps(const std::int32_t* pixels, std::int64_t n, double unit, double* signal) {
    double rest = 0;  // of what is finite; not a number else
#pragma omp simd reduction(+ : rest)
    for (std::int64_t i = 0; i < n; ++i) {
        const double value = pixels[i] < 0 ? 0.0 : signal[i];
        rest += value - value;
        signal[i] = value / unit;
    }
    return rest == 0;
}

void chunk_means(const double* signal, const std::int32_t* pixels, std::int64_t n_chunks, double* means,
                 std::uint8_t* valid) {
    constexpr std::int64_t kSums = 8;  // side by side, in one order on every processor
    for (std::int64_t chunk = 0; chunk < n_chunks; ++chunk) {
        const double* values = signal + chunk * kLevelChunk;
        const std::int32_t* at = pixels + chunk * kLevelChunk;
        double sums[kSums] = {};
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < kLevelChunk; i += kSums)
            for (std::int64_t k = 0; k < kSums; ++k) sums[k] += values[i + k];
        for (std::int64_t i = 0; i < kLevelChunk; ++i) count += at[i] >= 0;
        for (std::int64_t half = kSums / 2; half > 0; half /= 2)
            for (std::int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
        means[chunk] = sums[0] / static_cast<double>(std::max<std::int64_t>(count, 1));
        valid[chunk] = count >= kLevelChunk / 2;
    }
}

std::vector<std::int64_t> level_steps(const double* signal, const std::int32_t* pixels, std::int64_t n,
                                      const StepRule& rule) {
    const std::int64_t n_chunks = n / kLevelChunk, n_across = std::max<std::int64_t>(n_chunks - 2, 0);
    std::vector<double> means(static_cast<std::size_t>(n_chunks)), across, known;
    std::vector<std::uint8_t> valid(static_cast<std::size_t>(n_chunks));
    chunk_means(signal, pixels, n_chunks, means.data(), valid.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(n_across); ++i) {
        const bool is_known = valid[i] && valid[i + 1] && valid[i + 2];
        across.push_back(is_known ? std::fabs(means[i + 2] - means[i]) : 0.0);
        if (is_known) known.push_back(across.back());
    }
    if (std::ssize(known) < std::max<std::int64_t>(rule.fewest, 1)) return {};
    const auto middle = known.begin() + std::ssize(known) / 2;
    std::nth_element(known.begin(), middle, known.end());
    const double limit = rule.times * *middle;
    const auto is_above = [limit](double one) { return one > limit; };
    if (8 * std::count_if(across.begin(), across.end(), is_above) > n_across) return {};
    std::vector<std::int64_t> found;
    for (auto first = std::find_if(across.begin(), across.end(), is_above); first != across.end();) {
        const auto end = std::find_if_not(first, across.end(), is_above);
        found.push_back(std::max_element(first, end) - across.begin() + 1);
        first = std::find_if(end, across.end(), is_above);
    }
    return found;
}

}  // namespace petamap::mapmaking
