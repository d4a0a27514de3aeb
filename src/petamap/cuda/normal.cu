// P^T N^-1 P of a batch of blocks on a device. Between `gather` and `scatter`, a library transforms the
// blocks, two halves of each as the real and the imaginary part of n complex numbers (as `noise::Convolver`
// does).

#include <algorithm>
#include <cstdint>

#include "expansion.h"
#include "samples.h"

namespace petamap::cuda {

// Samples that a thread adds up, as neighbours often see one pixel; as in petamap.cuda.normal_pass.
constexpr int kRun = 4;

// One of vectors side by side, [n_local][n_stokes][width] and [n_gaps][width]. (Kernels take no structures:
// not every library passes them.)
struct Vector {
    const double *map, *gaps;
    std::int64_t width;
};

// Sums of one vector in units of 1/scale.
struct Sums {
    std::int64_t *map, *gaps;
    double scale;
};

inline double value_of(const Samples& s, const Sample& sample, const Vector& vector) {
    if (sample.pixel < 0) return s.n_gaps > 0 ? vector.gaps[~sample.pixel * vector.width] : 0.0;
    const double* row = vector.map + sample.pixel * s.n_stokes * vector.width;
    double sum = 0;
    for_stokes(s, [&](int k, std::int64_t place) { sum += sample.response[k] * row[place * vector.width]; });
    return sample.gain * sum;
}

// The terms of samples that follow each other in one pixel, added up.
struct Terms {
    std::int64_t pixel;  // negative where there are none
    std::int64_t values[3];
};

// What the threads of a block add to the sums: rows of terms, which threads that follow each other then add
// word by word, so that a row is one access of memory.
struct SharedTerms {
    Terms rows[kThreads * kRun];

    // The row of a thread's terms; those of its samples so far that are of another pixel.
    class Writer {
      public:
        Writer(SharedTerms& shared, int thread, const Samples& s, const Sums& sums)
            : to_(shared.rows + thread * kRun), s_(s), sums_(sums) {
            for (int k = 0; k < kRun; ++k) to_[k].pixel = -1;
        }

        void add(const Sample& sample, double time) {
            const double scaled = time * sums_.scale;
            if (sample.pixel < 0) {
                if (s_.n_gaps > 0) add_to(sums_.gaps + ~sample.pixel, nearest_integer(scaled));
                return;
            }
            const double value = scaled * sample.gain;
            std::int64_t terms[3];
            for (int k = 0; k < 3; ++k) terms[k] = nearest_integer(value * sample.response[k]);
            if (sample.pixel != open_.pixel) {
                finish();
                open_ = {sample.pixel, {terms[0], terms[1], terms[2]}};
            } else {
                for (int k = 0; k < 3; ++k) open_.values[k] += terms[k];
            }
        }

        void finish() {
            if (open_.pixel >= 0) *to_++ = open_;
        }

      private:
        Terms* to_;
        const Samples& s_;
        const Sums& sums_;
        Terms open_{-1, {0, 0, 0}};
    };

    void add_up(int thread, const Samples& s, const Sums& sums) const {
        const int n_stokes = static_cast<int>(s.n_stokes), first = n_stokes == 2;
        for (int word = thread; word < kThreads * kRun * n_stokes; word += kThreads) {
            const Terms& row = rows[word / n_stokes];
            const int place = word % n_stokes;
            if (row.pixel >= 0) add_to(sums.map + row.pixel * n_stokes + place, row.values[first + place]);
        }
    }
};

}  // namespace petamap::cuda

using namespace petamap::cuda;

// Kernels are what a block of threads does: in_threads(work) calls work(thread, number), in which `number`
// counts the threads of all blocks of a row, and returns when all threads of the block have done it. They
// copy what describes the samples: else it would be read again after every store.

// Number the gaps of each block: its first slot in, and those before each of its windows out.
extern "C" __global__ void number_gaps(const Samples* samples, const std::int64_t* first,
                                       std::int64_t n_blocks) {
    const Samples s = *samples;
    in_threads([&](int, std::int64_t number) {
        if (number >= n_blocks || s.gap_length == 0) return;
        const Block& block = s.blocks[number];
        std::int64_t slot = first[number];
        for (std::int64_t i = 0; i < block.n_in; ++i) {
            if (i % kWindow == 0)
                s.first_slots[s.first_windows[number] + i / kWindow] = static_cast<std::int32_t>(slot);
            slot += begins_slot(s, block, i);
        }
    });
}

// Expand the pointing of the batch's lines of sight, a window a thread; blocks[y] is one that has it.
extern "C" __global__ void expand(const Samples* samples, const std::int64_t* blocks) {
    SHARED(SharedArcs, shared);
    const Samples s = *samples;
    const Block& block = s.blocks[blocks[blockIdx.y]];
    const Stream& stream = s.streams[block.stream];
    const Pointing& p = s.pointings[stream.pointing];
    const std::int64_t start = block.first + stream.shift, stop = start + block.n_in;
    const std::int64_t begin = std::clamp(stream.recorded_start, start, stop);
    const std::int64_t end = std::clamp(stream.recorded_stop, begin, stop);
    const std::int64_t sight = s.sight_of[p.first_detector + stream.detector];
    const Quaternion q = petamap::pointing::at(s.sights, p.first_sight + sight);
    Expanded* out = s.expanded + blockIdx.y * s.stride - start;
    const Expansion expansion(s, p, q, out);
    in_threads([&](int thread, std::int64_t number) {
        const std::int64_t from = start + kWindow * number, to = std::min(from + kWindow, stop);
        // what lies outside the recorded samples are gaps
        for (std::int64_t k = from; k < to; ++k)
            if (k < begin || k >= end) out[k] = {-1, 0};
        expansion.expand(std::max(from, begin), std::min(to, end), begin, end, shared, thread);
    });
    in_threads([&](int thread, std::int64_t) { expansion.evaluate(shared, thread); });
}

// time[y] = P (map, gaps) of block y of the batch, in the places of its transform; zero beyond n_blocks.
extern "C" __global__ void gather(const Samples* samples, const std::int64_t* blocks,
                                  const std::int32_t* places, std::int64_t n_blocks, const double* map,
                                  const double* gaps, std::int64_t width, double* time) {
    const Samples s = *samples;
    const Vector vector{map, gaps, width};
    const std::int64_t y = blockIdx.y;
    in_threads([&](int, std::int64_t p) {
        if (p >= s.n) return;
        double a = 0, b = 0;
        if (y < n_blocks) {
            const std::int64_t number = blocks[y], place = places[y];
            const Block& block = s.blocks[number];
            const petamap::mapmaking::Halves halves(block, s.n_lag, s.n - 2 * s.n_lag);
            const std::int64_t i = p - halves.a_begin, j = p - halves.b_begin + halves.b_skip;
            if (i >= 0 && i < halves.a_count) a = value_of(s, sample_at(s, number, place, i), vector);
            if (p >= halves.b_begin && j < block.n_in)
                b = value_of(s, sample_at(s, number, place, j), vector);
        }
        time[2 * (y * s.n + p)] = a;
        time[2 * (y * s.n + p) + 1] = b;
    });
}

// Multiply the transforms by the spectra of their kernels, [n_kernel][n].
extern "C" __global__ void multiply(const Samples* samples, const std::int64_t* blocks, const double* spectra,
                                    double* time) {
    const Samples s = *samples;
    const std::int64_t y = blockIdx.y;
    in_threads([&](int, std::int64_t p) {
        if (p >= s.n) return;
        const double factor = spectra[s.blocks[blocks[y]].kernel * s.n + p];
        time[2 * (y * s.n + p)] *= factor;
        time[2 * (y * s.n + p) + 1] *= factor;
    });
}

// sums += P^T time of the batch's blocks.
extern "C" __global__ void scatter(const Samples* samples, const std::int64_t* blocks,
                                   const std::int32_t* places, const double* time, double scale,
                                   std::int64_t* map_sums, std::int64_t* gap_sums) {
    SHARED(SharedTerms, terms);
    const Samples s = *samples;
    const Sums sums{map_sums, gap_sums, scale};
    const std::int64_t y = blockIdx.y, number = blocks[y], place = places[y];
    const Block& block = s.blocks[number];
    const std::int64_t half = s.n - 2 * s.n_lag;
    const double* own = time + 2 * (y * s.n + s.n_lag);
    in_threads([&](int thread, std::int64_t run) {
        SharedTerms::Writer writer(terms, thread, s, sums);
        const std::int64_t begin = kRun * run, end = std::min(begin + kRun, block.n_out);
        for (std::int64_t k = begin; k < end; ++k)
            writer.add(sample_at(s, number, place, block.n_left + k),
                       own[k < half ? 2 * k : 2 * (k - half) + 1]);
        writer.finish();
    });
    in_threads([&](int thread, std::int64_t) { terms.add_up(thread, s, sums); });
}

// sums += P^T N^-1 P (map, gaps) of the batch's blocks where N^-1 is a number, `weights` of each kernel.
extern "C" __global__ void weigh(const Samples* samples, const std::int64_t* blocks,
                                 const std::int32_t* places, const double* weights, const double* map,
                                 const double* gaps, std::int64_t width, double scale, std::int64_t* map_sums,
                                 std::int64_t* gap_sums) {
    SHARED(SharedTerms, terms);
    const Samples s = *samples;
    const Vector vector{map, gaps, width};
    const Sums sums{map_sums, gap_sums, scale};
    const std::int64_t number = blocks[blockIdx.y], place = places[blockIdx.y];
    const Block& block = s.blocks[number];
    const double weight = weights[block.kernel];
    in_threads([&](int thread, std::int64_t run) {
        SharedTerms::Writer writer(terms, thread, s, sums);
        const std::int64_t begin = kRun * run, end = std::min(begin + kRun, block.n_out);
        for (std::int64_t k = begin; k < end; ++k) {
            const Sample sample = sample_at(s, number, place, block.n_left + k);
            writer.add(sample, value_of(s, sample, vector) * weight);
        }
        writer.finish();
    });
    in_threads([&](int thread, std::int64_t) { terms.add_up(thread, s, sums); });
}
