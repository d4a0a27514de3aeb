// P and its transpose for several maps at once: a sample's pixel is looked up and its response computed once,
// and one register holds the values of all columns. Every column gets the operations that it gets alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "petacomm/base/columns.h"
#include "petamap/mapmaking/project.h"

namespace petamap::mapmaking {

using petacomm::load, petacomm::store, petacomm::RealColumns, petacomm::WholeColumns;

// Time streams of one thread: sample i of column c is at first[c * stride + i].
template <class T>
struct Streams {
    T* first;
    std::int64_t stride;

    T* of(int column) const { return first + column * stride; }
    Streams from(std::int64_t sample) const { return {first + sample, stride}; }
};

// The samples of a chunk, side by side: [sample][column].
template <int kWidth>
struct Chunk {
    alignas(64) double values[kChunk * kWidth];

    void write(std::int64_t n, const Streams<double>& to) const {
        const std::int64_t squares = kLanes > 1 ? n / kLanes * kLanes : 0;
        for (std::int64_t i = 0; i < squares; i += kLanes)
            for (int column = 0; column < kWidth; column += kLanes)
                transpose(values + i * kWidth + column, kWidth, to.of(column) + i, to.stride);
        for (int column = 0; column < kWidth; ++column)
            for (std::int64_t i = squares; i < n; ++i) to.of(column)[i] = values[i * kWidth + column];
    }

    void read(std::int64_t n, const Streams<const double>& from) {
        const std::int64_t squares = kLanes > 1 ? n / kLanes * kLanes : 0;
        for (std::int64_t i = 0; i < squares; i += kLanes)
            for (int column = 0; column < kWidth; column += kLanes)
                transpose(from.of(column) + i, from.stride, values + i * kWidth + column, kWidth);
        for (int column = 0; column < kWidth; ++column)
            for (std::int64_t i = squares; i < n; ++i) values[i * kWidth + column] = from.of(column)[i];
    }

  private:
    static constexpr int kLanes = std::min(kWidth, petacomm::kNativeLanes);

    static void transpose(const double* from, std::int64_t stride, double* to, std::int64_t to_stride) {
        petacomm::Reals<kLanes> rows[kLanes];
        for (int k = 0; k < kLanes; ++k) rows[k] = load<petacomm::Reals<kLanes>>(from + k * stride);
        petacomm::transpose(rows);
        for (int k = 0; k < kLanes; ++k) store(to + k * to_stride, rows[k]);
    }
};

// time[column][0..n) = P map for samples [begin, begin + n). map: [n_local][kStokes][kWidth].
template <int kStokes, int kWidth>
void gather(const Samples& samples, std::int64_t begin, std::int64_t n, const double* map, const double* gaps,
            const Streams<double>& time) {
    using Real = RealColumns<kWidth>;
    constexpr std::int64_t kRow = kStokes * kWidth;
    const Ahead<double, kRow> ahead(samples.pixels + begin, n, map);
    Chunk<kWidth> chunk;
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + begin + done;
        const float* gains = samples.gains ? samples.gains + begin + done : nullptr;
        const Response<kStokes> response(samples, begin + done, count);
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            const std::int64_t pixel = pixels[i];
            const double* row = map + pixel * kRow;
            const auto of = [row](int k) { return load<Real>(row + k * kWidth); };
            Real value;
            if (pixel < 0) {
                value = load<Real>(gaps + ~pixel * kWidth);
            } else {
                if constexpr (kStokes == 1) value = response.intensity * of(0);
                if constexpr (kStokes == 2) value = response.cosine[i] * of(0) + response.sine[i] * of(1);
                if constexpr (kStokes == 3)
                    value =
                        response.intensity * of(0) + (response.cosine[i] * of(1) + response.sine[i] * of(2));
                if (gains) value = static_cast<double>(gains[i]) * value;
            }
            store(chunk.values + i * kWidth, value);
        }
        chunk.write(count, time.from(done));
    }
}

// Add integers to a row of sums.
template <int kWidth>
[[gnu::always_inline]] inline void add_columns(std::int64_t* sums, WholeColumns<kWidth> values) {
    store(sums, load<WholeColumns<kWidth>>(sums) + values);
}

// sums += P^T time, gap_sums likewise, in units of 1/scale of each column.
template <int kStokes, int kWidth>
void scatter(const Samples& samples, std::int64_t begin, std::int64_t n, const Streams<const double>& time,
             const double* scales, std::int64_t* sums, std::int64_t* gap_sums) {
    using Real = RealColumns<kWidth>;
    constexpr std::int64_t kRow = kStokes * kWidth;
    const Ahead<std::int64_t, kRow> ahead(samples.pixels + begin, n, sums);
    const Real scale = load<Real>(scales);
    Chunk<kWidth> chunk;
    for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t count = std::min(kChunk, n - done);
        const std::int32_t* pixels = samples.pixels + begin + done;
        const float* gains = samples.gains ? samples.gains + begin + done : nullptr;
        const Response<kStokes> response(samples, begin + done, count);
        chunk.read(count, time.from(done));
        for (std::int64_t i = 0; i < count; ++i) {
            ahead.of(done + i);
            const std::int64_t pixel = pixels[i];
            const Real scaled = load<Real>(chunk.values + i * kWidth) * scale;
            if (pixel < 0) {
                add_columns<kWidth>(gap_sums + ~pixel * kWidth, petacomm::to_fixed<kWidth>(scaled));
                continue;
            }
            const Real value = gains ? scaled * static_cast<double>(gains[i]) : scaled;
            std::int64_t* row = sums + pixel * kRow;
            if constexpr (kStokes != 2)
                add_columns<kWidth>(row, petacomm::to_fixed<kWidth>(value * response.intensity));
            if constexpr (kStokes > 1) {
                add_columns<kWidth>(row + (kStokes - 2) * kWidth,
                                    petacomm::to_fixed<kWidth>(value * response.cosine[i]));
                add_columns<kWidth>(row + (kStokes - 1) * kWidth,
                                    petacomm::to_fixed<kWidth>(value * response.sine[i]));
            }
        }
    }
}

}  // namespace petamap::mapmaking
