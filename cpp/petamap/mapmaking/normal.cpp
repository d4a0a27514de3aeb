#include "petamap/mapmaking/normal.h"

#include <algorithm>
#include <vector>

#include "petamap/base/aligned.h"
#include "petamap/base/threads.h"
#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {
namespace {

// One thread's two halves of a block and the spectrum of its kernel.
class Workspace {
  public:
    explicit Workspace(const InverseNoise& noise)
        : noise_(noise), n_(noise.convolver ? noise.convolver->size() : 0), memory_(3 * n_ + 2 * kPadding) {}

    double* a() { return memory_.data(); }
    // An odd number of cache lines away, or the two halves would compete for the same cache sets.
    double* b() { return a() + n_ + kPadding; }
    const double* spectrum(std::int64_t kernel) {
        if (kernel != kernel_) {
            const double* lags = noise_.lags + kernel * (noise_.n_lag + 1);
            noise_.convolver->spectrum({lags, static_cast<std::size_t>(noise_.n_lag + 1)},
                                       b() + n_ + kPadding);
            kernel_ = kernel;
        }
        return b() + n_ + kPadding;
    }

    // The first inputs of a block are the last ones of the block before, where this thread has done that:
    // write them, and return how many.
    std::int64_t recall(const Block& block, std::int64_t most, double* to) const {
        if (block.first != overlap_first_) return 0;
        const std::int64_t n = std::min(most, static_cast<std::int64_t>(overlap_.size()));
        std::copy_n(overlap_.begin(), n, to);
        return n;
    }

    // Keep the last inputs of a block, which end at `end`.
    void remember(const Block& block, const double* end) {
        const std::int64_t n = static_cast<std::int64_t>(overlap_.size());
        std::copy(end - n, end, overlap_.begin());
        overlap_first_ = block.first + block.n_in - n;
    }

  private:
    static constexpr std::size_t kPadding = 72;
    const InverseNoise& noise_;
    std::size_t n_;
    base::AlignedVector<double> memory_;
    std::vector<double> overlap_{std::vector<double>(static_cast<std::size_t>(2 * noise_.n_lag))};
    std::int64_t overlap_first_ = -1;
    std::int64_t kernel_ = -1;
};

// A block's inputs lie in two halves of one transform, which begins n_lag before the first output of each.
struct Halves {
    std::int64_t n_first, n_second;  // outputs
    std::int64_t a_begin, a_count;   // inputs [0, a_count) lie at a_begin
    std::int64_t b_begin, b_skip;    // inputs [b_skip, n_in) lie at b_begin

    Halves(const Block& block, const InverseNoise& noise) {
        n_first = std::min(block.n_out, noise.half());
        n_second = block.n_out - n_first;
        a_begin = noise.n_lag - block.n_left;
        a_count = std::min(block.n_in, block.n_left + n_first + noise.n_lag);
        const std::int64_t b_input = block.n_left + n_first - noise.n_lag;  // the input at the head of b
        b_skip = n_second > 0 ? std::max<std::int64_t>(0, b_input) : block.n_in;
        b_begin = n_second > 0 ? b_skip - b_input : 0;
    }
};

void clear_outside(double* values, std::int64_t begin, std::int64_t end, std::int64_t n) {
    std::fill(values, values + begin, 0.0);
    std::fill(values + end, values + n, 0.0);
}

// fill(begin, n, to) writes inputs [begin, begin + n) of the block; those in both halves, or in the block
// before as well, are asked for once. Then a and b hold N^-1 of them.
template <class Fill>
Halves convolve_block(const Block& block, const InverseNoise& noise, Workspace& work, const Fill& fill) {
    const Halves halves(block, noise);
    const std::int64_t n = static_cast<std::int64_t>(noise.convolver->size());
    const std::int64_t b_count = block.n_in - halves.b_skip;
    const std::int64_t shared = std::min(b_count, halves.a_count - halves.b_skip);
    double *a = work.a(), *b = work.b();
    const std::int64_t known = work.recall(block, halves.a_count, a + halves.a_begin);
    fill(known, halves.a_count - known, a + halves.a_begin + known);
    clear_outside(a, halves.a_begin, halves.a_begin + halves.a_count, n);
    if (b_count > 0) {
        std::copy_n(a + halves.a_begin + halves.b_skip, shared, b + halves.b_begin);
        fill(halves.b_skip + shared, b_count - shared, b + halves.b_begin + shared);
    }
    if (b_count >= 2 * noise.n_lag) work.remember(block, b + halves.b_begin + b_count);
    clear_outside(b, halves.b_begin, halves.b_begin + b_count, n);
    noise.convolver->convolve(a, b, work.spectrum(block.kernel));
    return halves;
}

// Without correlations a block is a multiplication, in pieces that stay in the nearest cache.
template <class Fill, class Use>
void multiply_block(const Block& block, const InverseNoise& noise, const Fill& fill, const Use& use) {
    constexpr std::int64_t kPiece = 1024;
    double time[kPiece];
    const double weight = noise.lags[block.kernel * (noise.n_lag + 1)];
    for (std::int64_t done = 0; done < block.n_out; done += kPiece) {
        const std::int64_t count = std::min(kPiece, block.n_out - done);
        fill(block.n_left + done, count, time);
        for (std::int64_t i = 0; i < count; ++i) time[i] *= weight;
        use(done, count, time);
    }
}

template <class Fill, class Use>
void filter(const Block& block, const InverseNoise& noise, Workspace& work, const Fill& fill,
            const Use& use) {
    if (!noise.convolver) return multiply_block(block, noise, fill, use);
    const Halves halves = convolve_block(block, noise, work, fill);
    use(0, halves.n_first, work.a() + noise.n_lag);
    if (halves.n_second > 0) use(halves.n_first, halves.n_second, work.b() + noise.n_lag);
}

template <int kStokes, class Looks>
void apply_blocks(std::span<const Block> blocks, const Looks& looks, const InverseNoise& noise,
                  const double* map, const double* gaps, double scale, const Sums& sums, int n_threads) {
#pragma omp parallel num_threads(n_threads)
    {
        Workspace work(noise);
        typename Looks::Scratch scratch;
        const int thread = base::thread_number();
        std::int64_t* pixel_sums = sums.pixels + thread * sums.n_local * kStokes;
        std::int64_t* gap_sums = sums.gaps + thread * sums.n_gaps;
        // neighbours in turn, so that they share the inputs that both need; still many turns for each thread
        const int turn = std::clamp(static_cast<int>(blocks.size()) / (8 * n_threads), 1, 8);
#pragma omp for schedule(dynamic, turn)
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            const Block& block = blocks[i];
            const Samples samples = looks.of(block, i, scratch);
            const auto fill = [&](std::int64_t begin, std::int64_t n, double* to) {
                gather<kStokes>(samples, begin, n, map, gaps, to);
            };
            const auto use = [&](std::int64_t begin, std::int64_t n, const double* time) {
                scatter<kStokes>(samples, block.n_left + begin, n, time, scale, pixel_sums, gap_sums);
            };
            filter(block, noise, work, fill, use);
        }
    }
}

template <class Looks>
void apply_any(std::span<const Block> blocks, const Looks& looks, const InverseNoise& noise, int n_stokes,
               const double* map, const double* gaps, double scale, const Sums& sums, int n_threads) {
    const auto apply = n_stokes == 1   ? apply_blocks<1, Looks>
                       : n_stokes == 2 ? apply_blocks<2, Looks>
                                       : apply_blocks<3, Looks>;
    apply(blocks, looks, noise, map, gaps, scale, sums, n_threads);
}

}  // namespace

void apply_normal(std::span<const Block> blocks, const KeptLooks& looks, const InverseNoise& noise,
                  int n_stokes, const double* map, const double* gaps, double scale, const Sums& sums,
                  int n_threads) {
    apply_any(blocks, looks, noise, n_stokes, map, gaps, scale, sums, n_threads);
}

void apply_normal(std::span<const Block> blocks, const ExpandedLooks& looks, const InverseNoise& noise,
                  int n_stokes, const double* map, const double* gaps, double scale, const Sums& sums,
                  int n_threads) {
    apply_any(blocks, looks, noise, n_stokes, map, gaps, scale, sums, n_threads);
}

void filter_block(const Block& block, const InverseNoise& noise, const double* input, double* time) {
    Workspace work(noise);
    const auto fill = [input](std::int64_t begin, std::int64_t n, double* to) {
        std::copy_n(input + begin, n, to);
    };
    const auto use = [time](std::int64_t begin, std::int64_t n, const double* from) {
        std::copy_n(from, n, time + begin);
    };
    filter(block, noise, work, fill, use);
}

}  // namespace petamap::mapmaking
