// The pixels that a rank observes, numbered in increasing order: a bit a pixel of the sky, a count every 64.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace petamap::mapmaking {

class PixelIndex {
  public:
    // n_pix: 0 to 2^31 - 1.
    explicit PixelIndex(std::int64_t n_pix)
        : n_pix_(n_pix), words_(static_cast<std::size_t>((n_pix + 63) / 64)), before_(words_.size()) {}

    std::int64_t n_pix() const { return n_pix_; }
    std::int64_t n_local() const { return n_local_; }
    // Whether numbers are those of what is marked.
    bool is_numbered() const { return __atomic_load_n(&numbered_, __ATOMIC_RELAXED); }

    // Note that the pixels >= 0 are observed; they are below n_pix. Threads may call it together.
    void mark(const std::int32_t* pixels, std::size_t n) {
        __atomic_store_n(&numbered_, false, __ATOMIC_RELAXED);
        for (std::size_t i = 0; i < n; ++i) {
            if (pixels[i] < 0) continue;
            const std::uint64_t bit = std::uint64_t{1} << (pixels[i] % 64);
            std::uint64_t& word = words_[pixels[i] / 64];
            if (!(__atomic_load_n(&word, __ATOMIC_RELAXED) & bit))
                __atomic_fetch_or(&word, bit, __ATOMIC_RELAXED);
        }
    }

    // Forget a pixel; its samples no longer have a local number.
    void remove(std::int64_t pixel) { words_[pixel / 64] &= ~(std::uint64_t{1} << (pixel % 64)); }

    // Number what is marked.
    void number() {
        std::int32_t count = 0;
        for (std::size_t i = 0; i < words_.size(); ++i) {
            before_[i] = count;
            count += std::popcount(words_[i]);
        }
        n_local_ = count;
        numbered_ = true;
    }

    // Write the marked pixels, increasing, to keys[0..n_local).
    void keys(std::int64_t* keys) const {
        for (std::size_t i = 0; i < words_.size(); ++i)
            for (std::uint64_t bits = words_[i]; bits != 0; bits &= bits - 1)
                *keys++ = static_cast<std::int64_t>(64 * i) + std::countr_zero(bits);
    }

    // Replace pixels by their local numbers, or -1 where one is not observed or negative.
    void localize(std::int32_t* pixels, std::int64_t n) const;

  private:
    std::int64_t n_pix_;
    std::vector<std::uint64_t> words_;
    std::vector<std::int32_t> before_;
    std::int64_t n_local_ = 0;
    bool numbered_ = true;
};

}  // namespace petamap::mapmaking
