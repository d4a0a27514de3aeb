// N^-1 of one block: overlap-save convolution of its two halves, or a multiplication of white noise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "petacomm/base/aligned.h"
#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/project_columns.h"

namespace petamap::mapmaking {

// Kernels of the columns of a block: one of each, or one of all.
using KernelNumbers = std::span<const std::int64_t>;

// One thread's two halves of a block for each column, and the spectra of up to `n_kernels` kernels.
class Workspace {
  public:
    // With `overlaps`, blocks that follow each other in a stream share the inputs that both need.
    Workspace(const InverseNoise& noise, int width, bool overlaps = true, int n_kernels = 1)
        : noise_(noise),
          n_(noise.convolver ? static_cast<std::int64_t>(noise.convolver->size()) : 0),
          stride_(noise.convolver ? 2 * n_ + 2 * kPadding : kPiece),
          spectra_(width * stride_),
          memory_(static_cast<std::size_t>(spectra_ + n_kernels * n_)),
          overlap_(static_cast<std::size_t>(overlaps ? 2 * noise.n_lag * width : 0)),
          kernels_(static_cast<std::size_t>(n_kernels), -1) {}

    static constexpr std::int64_t kPiece = 1024;  // samples at once without correlations

    Streams<double> a() { return {memory_.data(), stride_}; }
    // A quarter of a page and a line further, or the two halves would compete for the same cache sets: parts
    // of a transform may be pages apart, or half a page.
    Streams<double> b() { return a().from(n_ + kPadding); }
    // They are made in the memory of the first half, before that is filled.
    void make_spectra(KernelNumbers kernels) {
        for (std::size_t k = 0; k < kernels.size(); ++k) {
            if (kernels[k] == kernels_[k]) continue;
            const double* lags = noise_.lags + kernels[k] * (noise_.n_lag + 1);
            noise_.convolver->spectrum({lags, static_cast<std::size_t>(noise_.n_lag + 1)}, spectrum(k),
                                       memory_.data());
            kernels_[k] = kernels[k];
        }
    }
    double* spectrum(std::size_t k) { return memory_.data() + spectra_ + static_cast<std::int64_t>(k) * n_; }

    // The columns are streams that lie so far from each other: what is kept of others is forgotten.
    void meet_streams(std::int64_t apart) {
        if (apart != apart_) overlap_first_ = -1;
        apart_ = apart;
    }

    // The first inputs of a block are the last ones of the block before, where this thread has done that:
    // write them, and return how many.
    std::int64_t recall(const Block& block, std::int64_t most, int n_columns,
                        const Streams<double>& to) const {
        if (block.first != overlap_first_) return 0;
        const std::int64_t n = std::min(most, 2 * noise_.n_lag);
        for (int column = 0; column < n_columns; ++column)
            std::copy_n(overlap_.data() + column * 2 * noise_.n_lag, n, to.of(column));
        return n;
    }

    // Keep the last inputs of a block, which end at `end`.
    void remember(const Block& block, int n_columns, const Streams<double>& end) {
        if (overlap_.empty()) return;
        const std::int64_t n = 2 * noise_.n_lag;
        for (int column = 0; column < n_columns; ++column)
            std::copy_n(end.of(column) - n, n, overlap_.data() + column * n);
        overlap_first_ = block.first + block.n_in - n;
    }

  private:
    static constexpr std::int64_t kPadding = 136;
    const InverseNoise& noise_;
    std::int64_t n_, stride_, spectra_;
    petacomm::AlignedVector<double> memory_;
    std::vector<double> overlap_;
    std::int64_t overlap_first_ = -1, apart_ = 0;
    std::vector<std::int64_t> kernels_;
};

inline void clear_outside(double* values, std::int64_t begin, std::int64_t end, std::int64_t n) {
    std::fill(values, values + begin, 0.0);
    std::fill(values + end, values + n, 0.0);
}

// fill(begin, n, to) writes inputs [begin, begin + n) of the block; those in both halves, or in the block
// before as well, are asked for once. Then a and b hold N^-1 of them for the columns that are used.
template <class Fill, class Used>
Halves convolve_block(const Block& block, KernelNumbers kernels, const InverseNoise& noise, Workspace& work,
                      int width, const Fill& fill, const Used& used) {
    const Halves halves(block, noise.n_lag, noise.half());
    const std::int64_t n = static_cast<std::int64_t>(noise.convolver->size());
    const std::int64_t b_count = block.n_in - halves.b_skip;
    const std::int64_t shared = std::min(b_count, halves.a_count - halves.b_skip);
    const Streams<double> a = work.a(), b = work.b();
    const Streams<double> a_inputs = a.from(halves.a_begin), b_inputs = b.from(halves.b_begin);
    work.make_spectra(kernels);
    const std::int64_t known = work.recall(block, halves.a_count, width, a_inputs);
    fill(known, halves.a_count - known, a_inputs.from(known));
    if (b_count > 0) {
        for (int column = 0; column < width; ++column)
            std::copy_n(a_inputs.of(column) + halves.b_skip, shared, b_inputs.of(column));
        fill(halves.b_skip + shared, b_count - shared, b_inputs.from(shared));
    }
    if (b_count >= 2 * noise.n_lag) work.remember(block, width, b_inputs.from(b_count));
    for (int column = 0; column < width; ++column) {
        if (!used(column)) continue;
        clear_outside(a.of(column), halves.a_begin, halves.a_begin + halves.a_count, n);
        clear_outside(b.of(column), halves.b_begin, halves.b_begin + b_count, n);
        const std::size_t kernel = kernels.size() > 1 ? static_cast<std::size_t>(column) : 0;
        noise.convolver->convolve(a.of(column), b.of(column), work.spectrum(kernel));
    }
    return halves;
}

// Without correlations a block is a multiplication, in pieces that stay in the nearest cache.
template <class Fill, class Use>
void multiply_block(const Block& block, KernelNumbers kernels, const InverseNoise& noise, Workspace& work,
                    int width, const Fill& fill, const Use& use) {
    const Streams<double> time = work.a();
    for (std::int64_t done = 0; done < block.n_out; done += Workspace::kPiece) {
        const std::int64_t count = std::min(Workspace::kPiece, block.n_out - done);
        fill(block.n_left + done, count, time);
        for (int column = 0; column < width; ++column) {
            const std::int64_t kernel = kernels[kernels.size() > 1 ? static_cast<std::size_t>(column) : 0];
            const double weight = noise.lags[kernel * (noise.n_lag + 1)];
            for (std::int64_t i = 0; i < count; ++i) time.of(column)[i] *= weight;
        }
        use(done, count, time);
    }
}

// Columns of which each may have a kernel of its own, whichever the block has.
template <class Fill, class Used, class Use>
void filter(const Block& block, KernelNumbers kernels, const InverseNoise& noise, Workspace& work, int width,
            const Fill& fill, const Used& used, const Use& use) {
    if (!noise.convolver) return multiply_block(block, kernels, noise, work, width, fill, use);
    const Halves halves = convolve_block(block, kernels, noise, work, width, fill, used);
    use(0, halves.n_first, work.a().from(noise.n_lag));
    if (halves.n_second > 0) use(halves.n_first, halves.n_second, work.b().from(noise.n_lag));
}

template <class Fill, class Used, class Use>
void filter(const Block& block, const InverseNoise& noise, Workspace& work, int width, const Fill& fill,
            const Used& used, const Use& use) {
    filter(block, {&block.kernel, 1}, noise, work, width, fill, used, use);
}

}  // namespace petamap::mapmaking
