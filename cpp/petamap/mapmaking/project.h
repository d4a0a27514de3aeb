// P and its transpose over a run of samples: un-pointing gathers from a map, pointing scatters into sums.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "petacomm/base/simd.h"
#include "petamap/mapmaking/blocks.h"
#include "petamap/sky/trig.h"

namespace petamap::mapmaking {

constexpr std::int64_t kChunk = 128;

[[gnu::always_inline]] inline std::int64_t to_fixed(double value) { return petacomm::to_fixed<1>(value); }

// The response of some samples to each Stokes parameter solved for, but for their gains.
template <int kStokes, int kLanes>
[[gnu::always_inline]] inline void respond(const Samples& samples, std::int64_t i,
                                           petacomm::Reals<kLanes> (&response)[kStokes]) {
    using Real = petacomm::Reals<kLanes>;
    if constexpr (kStokes != 2) response[0] = Real{} + samples.intensity;
    if constexpr (kStokes > 1) {
        Real cosine, sine;
        sky::cos_sin<kLanes>(samples.angles + i, cosine, sine);
        response[kStokes - 2] = samples.efficiency * cosine;
        response[kStokes - 1] = samples.efficiency * sine;
    }
}

// The response of a chunk of samples, but for their gains.
template <int kStokes>
struct Response {
    alignas(64) double cosine[kStokes > 1 ? kChunk : 1], sine[kStokes > 1 ? kChunk : 1];
    double intensity = 1.0;

    Response() = default;
    Response(const Samples& samples, std::int64_t begin, std::int64_t n) : intensity(samples.intensity) {
        if constexpr (kStokes > 1)
            petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
                petacomm::Reals<lanes()> response[kStokes];
                respond<kStokes, lanes()>(samples, begin + i, response);
                petacomm::store(cosine + i, response[kStokes - 2]);
                petacomm::store(sine + i, response[kStokes - 1]);
            });
    }

    // The response of sample i to each Stokes parameter solved for.
    [[gnu::always_inline]] void of(std::int64_t i, double gain, double* out) const {
        if constexpr (kStokes != 2) out[0] = gain * intensity;
        if constexpr (kStokes > 1) {
            out[kStokes - 2] = gain * cosine[i];
            out[kStokes - 1] = gain * sine[i];
        }
    }
};

// Asks for the rows of pixels long before they are used: the loops' arithmetic then hides the time that
// memory takes. Measured for short rows: 128 samples ahead are too few, 384 no better; what is asked for must
// not fill the nearest cache.
template <class T, std::int64_t kRow>
class Ahead {
  public:
    [[gnu::always_inline]] Ahead(const std::int32_t* pixels, std::int64_t n, const T* rows)
        : pixels_(pixels), n_(n), rows_(rows) {
        for (std::int64_t i = -kDistance; i < std::min<std::int64_t>(0, n - kDistance); ++i) of(i);
    }

    // Sample i is at hand: ask for the one kDistance later. Its row may begin anywhere in a cache line. Gaps
    // ask for the first pixel, which costs less than a branch. Inlined by order: a compiler sees no effect in
    // a call to it.
    [[gnu::always_inline]] void of(std::int64_t i) const {
        if (i + kDistance >= n_) return;
        const std::int64_t pixel = pixels_[i + kDistance];
        const T* there = rows_ + (pixel & ~(pixel >> 63)) * kRow;
        for (std::int64_t at = 0; at < kRow; at += kLine) __builtin_prefetch(there + at);
        __builtin_prefetch(there + kRow - 1);
    }

  private:
    static constexpr std::int64_t kLine = 64 / sizeof(T), kDistance = kRow <= 2 * kLine ? 256 : 64;
    const std::int32_t* pixels_;
    std::int64_t n_;
    const T* rows_;
};

// How long before its use the memory of a sample's row is asked for, in samples, where rows are short.
constexpr std::int64_t kRowsAhead = 256;

// Ask for the memory of the rows of some samples: of both ends, as a row may lie in two lines of the cache.
template <int kStokes, int kLanes, class Few>
[[gnu::always_inline]] inline void prefetch_rows(const Few& few) {
    for (int lane = 0; lane < kLanes; ++lane) {
        __builtin_prefetch(few.first(lane));
        if constexpr (kStokes > 1) __builtin_prefetch(few.first(lane) + kStokes - 1);
    }
}

// Find where the values of the first of n samples lie, and ask for their memory.
template <int kStokes, class Found>
[[gnu::always_inline]] inline void find_first(const Found& places, std::int64_t n) {
    const std::int64_t near = std::min(n, kRowsAhead);
    petacomm::for_lanes(near, [&](auto lanes, std::int64_t i) { places.template find<lanes()>(i); });
    petacomm::for_lanes(near,
                        [&](auto lanes, std::int64_t i) { prefetch_rows<kStokes, lanes()>(places.of(i)); });
}

// Samples [i, i + kLanes) are at hand: find those that are kRowsAhead later, and ask for the memory of those
// before them, as what was just found may still be on its way to the ring.
template <int kStokes, int kLanes, class Found>
[[gnu::always_inline]] inline void find_ahead(const Found& places, std::int64_t i, std::int64_t n) {
    const std::int64_t later = i + kRowsAhead;
    if (later + kLanes <= n)
        places.template find<kLanes>(later);
    else
        for (std::int64_t k = later; k < n; ++k) places.template find<1>(k);
    prefetch_rows<kStokes, kLanes>(places.of(later - kLanes));
}

// Where the values of samples lie of which none is a gap: in the rows of their pixels. Memory is asked for
// long before it is used: the arithmetic in between hides the time that it takes.
template <class T, int kStokes>
class PixelPlaces {
  public:
    static constexpr bool kGaps = false;
    // Those of a sample, and of the lanes behind it.
    struct Few {
        const std::int32_t* pixels;
        T* rows;

        [[gnu::always_inline]] T* first(int lane) const {
            return rows + std::int64_t{pixels[lane]} * kStokes;
        }
        [[gnu::always_inline]] T* rest(int lane) const { return first(lane) + 1; }

        template <int kLanes>
        [[gnu::always_inline]] void read(petacomm::Reals<kLanes> (&row)[kStokes]) const {
            const auto at = [this](int lane) __attribute__((always_inline)) { return first(lane); };
            if constexpr (kStokes > 1) petacomm::collect_pairs<kLanes>(at, row[0], row[1]);
            if constexpr (kStokes != 2)
                row[kStokes - 1] = petacomm::collect<kLanes>([&](int lane) { return at(lane)[kStokes - 1]; });
        }
    };

    [[gnu::always_inline]] PixelPlaces(const std::int32_t* pixels, std::int64_t n, T* rows)
        : pixels_(pixels), n_(n), rows_(rows) {
        for (std::int64_t i = 0; i < std::min(n, kRowsAhead); ++i) prefetch_rows<kStokes, 1>(of(i));
    }

    // Samples [i, i + kLanes) are at hand: ask for those that are kRowsAhead later.
    template <int kLanes>
    [[gnu::always_inline]] void ahead(std::int64_t i) const {
        if (i + kRowsAhead + kLanes <= n_) prefetch_rows<kStokes, kLanes>(of(i + kRowsAhead));
    }

    [[gnu::always_inline]] Few of(std::int64_t i) const { return {pixels_ + i, rows_}; }

  private:
    const std::int32_t* pixels_;
    std::int64_t n_;
    T* rows_;
};

// Where the values of samples lie of which some are gaps: the first of a sample's row, and behind it the
// rest. A gap has its one value elsewhere, and the rest of a row that counts nowhere, one of several, since
// an addition waits for the one before. Found without branches, as none could foresee whether a sample is a
// gap; and long before they are used, with the memory there asked for.
template <class T, int kStokes>
class Places {
  public:
    static constexpr bool kGaps = true;
    static constexpr std::uint64_t kRing = 512;
    // Apart, so that what is written here need not make a compiler read the rest again.
    struct Ring {
        std::remove_const_t<T> nowhere[8][2] = {};
        alignas(64) std::int64_t firsts[kRing] = {}, rests[kRing];  // addresses
    };
    // Those of a sample, and of the lanes behind it.
    struct Few {
        const std::int64_t *firsts, *rests;

        T* first(int lane) const { return std::bit_cast<T*>(firsts[lane]); }
        T* rest(int lane) const { return std::bit_cast<T*>(rests[lane]); }

        template <int kLanes>
        [[gnu::always_inline]] void read(petacomm::Reals<kLanes> (&row)[kStokes]) const {
            row[0] = petacomm::collect<kLanes>([this](int lane) { return *first(lane); });
            for (int k = 1; k < kStokes; ++k)
                row[k] = petacomm::collect<kLanes>([this, k](int lane) { return rest(lane)[k - 1]; });
        }
    };

    [[gnu::always_inline]] Places(const std::int32_t* pixels, std::int64_t n, T* rows, T* gaps, Ring& ring)
        : pixels_(pixels), n_(n), rows_(rows), gaps_(gaps), ring_(ring) {
        static_assert(sizeof(T) == kSize && sizeof(T*) == kSize);
        find_first<kStokes>(*this, n);
    }

    template <int kLanes>
    [[gnu::always_inline]] void ahead(std::int64_t i) const {
        find_ahead<kStokes, kLanes>(*this, i, n_);
    }

    [[gnu::always_inline]] Few of(std::int64_t i) const {
        return {ring_.firsts + static_cast<std::uint64_t>(i) % kRing,
                ring_.rests + static_cast<std::uint64_t>(i) % kRing};
    }

    template <int kLanes>
    [[gnu::always_inline]] void find(std::int64_t i) const {
        using Words = petacomm::Wholes<kLanes>;
        const auto row_0 = std::bit_cast<std::int64_t>(rows_), slot_0 = std::bit_cast<std::int64_t>(gaps_);
        const auto nowhere = std::bit_cast<std::int64_t>(&ring_.nowhere[0][0]);
        const Words pixel = petacomm::load_wide<kLanes>(pixels_ + i), offset = pixel << 3;
        const auto gap = pixel < 0;
        Words row = offset + row_0;
        for (int k = 1; k < kStokes; ++k) row += offset;
        const Words slot = (slot_0 - kSize) - offset;
        const std::uint64_t to = static_cast<std::uint64_t>(i) % kRing;
        petacomm::store<Words>(ring_.firsts + to, gap ? slot : row);
        if constexpr (kStokes > 1) {
            const Words nothing = petacomm::load<Words>(kApart + (kLanes == 1 ? i % 8 : 0)) + nowhere;
            petacomm::store<Words>(ring_.rests + to, gap ? nothing : row + kSize);
        }
    }

  private:
    static constexpr std::int64_t kSize = sizeof(std::int64_t);
    alignas(64) static constexpr std::int64_t kApart[8] = {0, 16, 32, 48, 64, 80, 96, 112};

    const std::int32_t* pixels_;
    std::int64_t n_;
    T *rows_, *gaps_;
    Ring& ring_;
};

// The gains of samples, or ones: loops that ask for each sample whether there are gains convert what is no
// number where there are none, which takes a hundred times as long.
struct KeptGains {
    const float* gains;

    template <int kLanes>
    [[gnu::always_inline]] petacomm::Reals<kLanes> of(std::int64_t i) const {
        return petacomm::load_wide<kLanes>(gains + i);
    }
};
struct NoGains {
    template <int kLanes>
    [[gnu::always_inline]] double of(std::int64_t) const {
        return 1.0;
    }
};

// Call work(KeptGains or NoGains).
template <class Work>
[[gnu::always_inline]] inline void for_gains(const float* gains, const Work& work) {
    if (gains)
        work(KeptGains{gains});
    else
        work(NoGains{});
}

// Call work(PixelPlaces or Places of samples [begin, begin + n)).
template <int kStokes, class T, class Work>
[[gnu::always_inline]] inline void for_places(const Samples& samples, std::int64_t begin, std::int64_t n,
                                              T* rows, T* gaps, const Work& work) {
    const std::int32_t* pixels = samples.pixels + begin;
    if (!samples.gaps) return work(PixelPlaces<T, kStokes>(pixels, n, rows));
    typename Places<T, kStokes>::Ring ring;
    work(Places<T, kStokes>(pixels, n, rows, gaps, ring));
}

// What samples with these responses see of rows.
template <int kStokes, int kLanes>
[[gnu::always_inline]] inline petacomm::Reals<kLanes> see(const petacomm::Reals<kLanes> (&response)[kStokes],
                                                          const petacomm::Reals<kLanes> (&row)[kStokes]) {
    petacomm::Reals<kLanes> value = response[0] * row[0];
    if constexpr (kStokes == 2) value = value + response[1] * row[1];
    if constexpr (kStokes == 3) value = value + (response[1] * row[1] + response[2] * row[2]);
    return value;
}

// What samples with these responses and gains see of the rows at their places; with kGaps, a gap its value.
template <bool kGaps, int kStokes, int kLanes, class Few, class Gain>
[[gnu::always_inline]] inline petacomm::Reals<kLanes> look(const petacomm::Reals<kLanes> (&response)[kStokes],
                                                           const Few& few, Gain gain,
                                                           const std::int32_t* pixels) {
    using Real = petacomm::Reals<kLanes>;
    Real row[kStokes];
    few.template read<kLanes>(row);
    const Real value = gain * see<kStokes, kLanes>(response, row);
    if constexpr (kGaps) return petacomm::load_wide<kLanes>(pixels) < 0 ? row[0] : value;
    return value;
}

// time[0..n) = P map for samples [begin, begin + n).
template <int kStokes>
void gather(Samples samples, std::int64_t begin, std::int64_t n, const double* map, const double* gaps,
            double* time) {
    const auto from = [&](const auto& places) __attribute__((always_inline)) {
        constexpr bool kGaps = std::remove_cvref_t<decltype(places)>::kGaps;
        for_gains(samples.gains, [&](auto gains) __attribute__((always_inline)) {
            petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
                places.template ahead<lanes()>(i);
                petacomm::Reals<lanes()> response[kStokes];
                respond<kStokes, lanes()>(samples, begin + i, response);
                const auto gain = gains.template of<lanes()>(begin + i);
                const std::int32_t* pixels = samples.pixels + begin + i;
                petacomm::store(time + i,
                                look<kGaps, kStokes, lanes()>(response, places.of(i), gain, pixels));
            });
        });
    };
    for_places<kStokes>(samples, begin, n, map, gaps, from);
}

// The terms of samples as integers, on their way to the sums: they are added a few samples after they are
// made, since what has just been written as a vector cannot be read as numbers at once.
template <int kStokes>
class Terms {
  public:
    static constexpr std::int64_t kLag = petacomm::kNativeLanes;

    template <int kLanes>
    [[gnu::always_inline]] void keep(std::int64_t i, const petacomm::Wholes<kLanes> (&terms)[kStokes]) {
        petacomm::store(firsts_ + slot(i), terms[0]);
        if constexpr (kStokes == 2) petacomm::store(rests_ + slot(i), terms[1]);
        if constexpr (kStokes == 3) petacomm::store_pairs<kLanes>(rests_ + 2 * slot(i), terms[1], terms[2]);
    }

    template <int kLanes, class Few>
    [[gnu::always_inline]] void add(std::int64_t i, const Few& few) const {
        for (int lane = 0; lane < kLanes; ++lane) {
            const std::uint64_t from = slot(i) + static_cast<std::uint64_t>(lane);
            std::int64_t *const first = few.first(lane), *const rest = few.rest(lane);
            *first += firsts_[from];
            if constexpr (kStokes == 2) *rest += rests_[from];
            if constexpr (kStokes == 3) {
                using Pair = petacomm::Wholes<2>;
                petacomm::store(rest, petacomm::load<Pair>(rest) + petacomm::load<Pair>(rests_ + 2 * from));
            }
        }
    }

  private:
    static constexpr std::uint64_t kRing = 4 * kLag;
    static std::uint64_t slot(std::int64_t i) { return static_cast<std::uint64_t>(i) % kRing; }

    alignas(64) std::int64_t firsts_[kRing];
    alignas(64) std::int64_t rests_[2 * kRing];
};

// sums += P^T time, gap_sums likewise, in units of 1/scale.
template <int kStokes>
void scatter(Samples samples, std::int64_t begin, std::int64_t n, const double* time, double scale,
             std::int64_t* sums, std::int64_t* gap_sums) {
    constexpr std::int64_t kLag = Terms<kStokes>::kLag;
    const auto to = [&](const auto& places) __attribute__((always_inline)) {
        constexpr bool kGaps = std::remove_cvref_t<decltype(places)>::kGaps;
        Terms<kStokes> terms;
        for_gains(samples.gains, [&](auto gains) __attribute__((always_inline)) {
            petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
                using Real = petacomm::Reals<lanes()>;
                places.template ahead<lanes()>(i);
                if (i >= kLag) terms.template add<lanes()>(i - kLag, places.of(i - kLag));
                Real response[kStokes];
                respond<kStokes, lanes()>(samples, begin + i, response);
                const Real scaled = petacomm::load<Real>(time + i) * scale;
                const Real value = scaled * gains.template of<lanes()>(begin + i);
                Real first = value * response[0];
                if constexpr (kGaps)
                    first = petacomm::load_wide<lanes()>(samples.pixels + begin + i) < 0 ? scaled : first;
                petacomm::Wholes<lanes()> made[kStokes];
                made[0] = petacomm::to_fixed<lanes()>(first);
                for (int k = 1; k < kStokes; ++k) made[k] = petacomm::to_fixed<lanes()>(value * response[k]);
                terms.template keep<lanes()>(i, made);
            });
        });
        for (std::int64_t i = std::max<std::int64_t>(0, n - kLag); i < n; ++i)
            terms.template add<1>(i, places.of(i));
    };
    for_places<kStokes>(samples, begin, n, sums, gap_sums, to);
}

}  // namespace petamap::mapmaking
