// N^-1 of detectors that share noise: blocks of all of them over one range of time, filtered together.
//
// With z = A x, the amplitudes of the common modes by weighted least squares, and x - B z, what is left:
//   N^-1 x = (1 - B A)^T D^-1 (1 - B A) x + A^T Q A x
// D^-1 is the inverse noise of each detector alone, Q that of each amplitude: all are kernels of the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "petacomm/base/aligned.h"
#include "petamap/mapmaking/filter.h"

namespace petamap::mapmaking {

// The streams of a group of blocks, of one thread: [member or mode][column][sample].
class GroupStreams {
    // What is used of a filtered block is written to the head of streams. (Clang deduces no type of what
    // comes later.)
    auto keep(const Streams<double>& to) const {
        return [this, to](std::int64_t begin, std::int64_t n, const Streams<double>& time) {
            for (int column = 0; column < width_; ++column)
                std::copy_n(time.of(column), n, to.of(column) + begin);
        };
    }

  public:
    GroupStreams(const InverseNoise& noise, int width)
        : noise_(noise), work_(noise, width, false), width_(width) {}

    void begin(const Block& block, std::int64_t n_members, std::int64_t n_modes) {
        block_ = block;
        const std::int64_t row = width_ * block.n_in, n = (n_members + 2 * n_modes) * row;
        if (n > static_cast<std::int64_t>(memory_.size())) memory_ = petacomm::AlignedVector<double>(n);
        modes_ = memory_.data() + n_members * row;
        answers_ = modes_ + n_modes * row;
        std::fill_n(modes_, 2 * n_modes * row, 0.0);
    }

    Streams<double> member(std::int64_t k) { return of(memory_.data(), k); }

    // z += A x of a member.
    void add_to_modes(std::int64_t k, const double* forward, std::int64_t n_modes) {
        for (std::int64_t mode = 0; mode < n_modes; ++mode)
            add(forward[mode], member(k), of(modes_, mode), block_.n_in);
    }

    // q = Q z.
    template <class Used>
    void filter_modes(std::int64_t n_modes, std::int64_t first_kernel, const Used& used) {
        for (std::int64_t mode = 0; mode < n_modes; ++mode) {
            Block block = block_;
            block.kernel = first_kernel + mode;
            const Streams<double> from = of(modes_, mode), to = of(answers_, mode);
            const auto fill = [&](std::int64_t begin, std::int64_t n, const Streams<double>& input) {
                for (int column = 0; column < width_; ++column)
                    std::copy_n(from.of(column) + begin, n, input.of(column));
            };
            filter(block, noise_, work_, width_, fill, used, keep(to));
        }
    }

    // x becomes v = D^-1 (x - B z); q -= B^T v.
    template <class Used>
    void filter_member(const Block& block, std::int64_t k, const double* backward, std::int64_t n_modes,
                       const Used& used) {
        const Streams<double> own = member(k);
        const auto fill = [&](std::int64_t begin, std::int64_t n, const Streams<double>& input) {
            for (int column = 0; column < width_; ++column)
                std::copy_n(own.of(column) + begin, n, input.of(column));
            for (std::int64_t mode = 0; mode < n_modes; ++mode)
                add(-backward[mode], of(modes_, mode).from(begin), input, n);
        };
        filter(block, noise_, work_, width_, fill, used, keep(own));
        for (std::int64_t mode = 0; mode < n_modes; ++mode)
            add(-backward[mode], own, of(answers_, mode), block.n_out);
    }

    // N^-1 x of a member: v + A^T q.
    Streams<double> finish_member(std::int64_t k, const double* forward, std::int64_t n_modes) {
        for (std::int64_t mode = 0; mode < n_modes; ++mode)
            add(forward[mode], of(answers_, mode), member(k), block_.n_out);
        return member(k);
    }

  private:
    Streams<double> of(double* first, std::int64_t k) const {
        return {first + k * width_ * block_.n_in, block_.n_in};
    }

    void add(double factor, const Streams<double>& from, const Streams<double>& to, std::int64_t n) const {
        for (int column = 0; column < width_; ++column) {
            const double* values = from.of(column);
            double* sums = to.of(column);
            for (std::int64_t i = 0; i < n; ++i) sums[i] += factor * values[i];
        }
    }

    const InverseNoise& noise_;
    Workspace work_;
    int width_;
    Block block_{};
    petacomm::AlignedVector<double> memory_;
    double *modes_ = nullptr, *answers_ = nullptr;
};

}  // namespace petamap::mapmaking
