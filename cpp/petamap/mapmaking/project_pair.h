// P and its transpose for two detectors that look at the same places: rows of pixels are looked up once for
// both. Each sample gets the operations that it gets alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "petacomm/base/simd.h"
#include "petamap/mapmaking/blocks.h"
#include "petamap/mapmaking/project.h"
#include "petamap/mapmaking/project_columns.h"
#include "petamap/sky/trig.h"

namespace petamap::mapmaking {

// Samples of two detectors: their pixels are the same wherever neither is a gap. Opposite: their response
// angles are half a turn apart, so that cosines and sines of the one are those of the other with the other
// sign, to the last bit.
struct SamplePair {
    Samples members[2];
    bool opposite;

    bool gaps() const { return members[0].gaps || members[1].gaps; }
};

// A map that pairs with gaps look at has so many rows at least.
constexpr std::int64_t kSpareRows = 8;

// Rows of the pixels of a pair that has gaps. A sample at which both have one is looked for in one of the
// first rows, in turn, since an addition waits for the one before: what it gives or takes there counts
// nowhere.
template <class T, int kStokes>
class PairPlaces {
  public:
    static constexpr bool kGaps = true;
    static constexpr std::uint64_t kRing = 512;
    using Few = typename PixelPlaces<T, kStokes>::Few;
    struct Ring {
        alignas(64) std::int32_t pixels[kRing] = {};
    };

    [[gnu::always_inline]] PairPlaces(const SamplePair& pair, std::int64_t begin, std::int64_t n, T* rows,
                                      Ring& ring)
        : first_(pair.members[0].pixels + begin),
          second_(pair.members[1].pixels + begin),
          n_(n),
          rows_(rows),
          ring_(ring) {
        find_first<kStokes>(*this, n);
    }

    template <int kLanes>
    [[gnu::always_inline]] void ahead(std::int64_t i) const {
        find_ahead<kStokes, kLanes>(*this, i, n_);
    }

    [[gnu::always_inline]] Few of(std::int64_t i) const {
        return {ring_.pixels + static_cast<std::uint64_t>(i) % kRing, rows_};
    }

    template <int kLanes>
    [[gnu::always_inline]] void find(std::int64_t i) const {
        using Pixels = typename petacomm::Registers<kLanes>::Narrow;
        const auto one = petacomm::load<Pixels>(first_ + i), other = petacomm::load<Pixels>(second_ + i);
        const auto spare = petacomm::load<Pixels>(kSpare + (kLanes == 1 ? i % kSpareRows : 0));
        const Pixels pixel = one > other ? one : other;  // gaps are below 0
        petacomm::store<Pixels>(ring_.pixels + static_cast<std::uint64_t>(i) % kRing,
                                pixel < 0 ? spare : pixel);
    }

  private:
    alignas(64) static constexpr std::int32_t kSpare[kSpareRows] = {0, 1, 2, 3, 4, 5, 6, 7};

    const std::int32_t *first_, *second_;
    std::int64_t n_;
    T* rows_;
    Ring& ring_;
};

// Call work(PixelPlaces or PairPlaces of samples [begin, begin + n)).
template <int kStokes, class T, class Work>
[[gnu::always_inline]] inline void for_places(const SamplePair& pair, std::int64_t begin, std::int64_t n,
                                              T* rows, const Work& work) {
    if (!pair.gaps()) return work(PixelPlaces<T, kStokes>(pair.members[0].pixels + begin, n, rows));
    typename PairPlaces<T, kStokes>::Ring ring;
    work(PairPlaces<T, kStokes>(pair, begin, n, rows, ring));
}

// Call work(member, i, slot) for those of samples [begin, begin + n) that are gaps. Where there are many, a
// branch for each sample would often be foreseen wrongly; one for each 64 samples is not much. Mostly both
// have the same gaps.
template <class Work>
[[gnu::always_inline]] inline void for_gaps(const SamplePair& pair, std::int64_t begin, std::int64_t n,
                                            const Work& work) {
    if (!pair.gaps()) return;
    const std::int32_t* pixels[] = {pair.members[0].pixels + begin, pair.members[1].pixels + begin};
    const auto found = [&](int member, std::int64_t i) __attribute__((always_inline)) {
        work(member, i, ~std::int64_t{pixels[member][i]});
    };
    std::int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        const std::uint64_t gaps[] = {petacomm::signs_of_64(pixels[0] + i),
                                      petacomm::signs_of_64(pixels[1] + i)};
        for (std::uint64_t left = gaps[0] & gaps[1]; left != 0; left &= left - 1)
            for (int member = 0; member < 2; ++member) found(member, i + std::countr_zero(left));
        for (int member = 0; member < 2; ++member)
            for (std::uint64_t left = gaps[member] & ~gaps[1 - member]; left != 0; left &= left - 1)
                found(member, i + std::countr_zero(left));
    }
    for (; i < n; ++i)
        for (int member = 0; member < 2; ++member)
            if (pixels[member][i] < 0) found(member, i);
}

// The responses of both detectors at some samples.
template <int kStokes, bool kOpposite, int kLanes>
[[gnu::always_inline]] inline void respond(const SamplePair& pair, std::int64_t i,
                                           petacomm::Reals<kLanes> (&responses)[2][kStokes]) {
    const auto& [one, other] = pair.members;
    if constexpr (!kOpposite || kStokes == 1) {
        respond<kStokes, kLanes>(one, i, responses[0]);
        respond<kStokes, kLanes>(other, i, responses[1]);
    } else {
        petacomm::Reals<kLanes> cosine, sine;
        sky::cos_sin<kLanes>(one.angles + i, cosine, sine);
        for (int member = 0; member < 2; ++member) {
            const double factor = member == 0 ? one.efficiency : -other.efficiency;
            auto& response = responses[member];
            if constexpr (kStokes == 3)
                response[0] = petacomm::Reals<kLanes>{} + pair.members[member].intensity;
            response[kStokes - 2] = factor * cosine;
            response[kStokes - 1] = factor * sine;
        }
    }
}

// time[member][0..n) = P map for samples [begin, begin + n) of both, but for gaps.
template <int kStokes, bool kOpposite>
void gather_rows(const SamplePair& pair, std::int64_t begin, std::int64_t n, const double* map,
                 const Streams<double>& time) {
    const auto from = [&](const auto& places) __attribute__((always_inline)) {
        petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            petacomm::Reals<lanes()> row[kStokes], responses[2][kStokes];
            places.template ahead<lanes()>(i);
            places.of(i).template read<lanes()>(row);
            respond<kStokes, kOpposite, lanes()>(pair, begin + i, responses);
            for (int member = 0; member < 2; ++member)
                petacomm::store(time.of(member) + i, see<kStokes, lanes()>(responses[member], row));
        });
    };
    for_places<kStokes>(pair, begin, n, map, from);
}

// sums += P^T time of both, in units of 1/scale, but for gaps.
template <int kStokes, bool kOpposite>
void scatter_rows(const SamplePair& pair, std::int64_t begin, std::int64_t n, const Streams<double>& time,
                  double scale, std::int64_t* sums) {
    constexpr std::int64_t kLag = Terms<kStokes>::kLag;
    const auto to = [&](const auto& places) __attribute__((always_inline)) {
        constexpr bool kGaps = std::remove_cvref_t<decltype(places)>::kGaps;
        Terms<kStokes> terms;
        petacomm::for_lanes(n, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
            using Real = petacomm::Reals<lanes()>;
            places.template ahead<lanes()>(i);
            if (i >= kLag) terms.template add<lanes()>(i - kLag, places.of(i - kLag));
            Real responses[2][kStokes];
            respond<kStokes, kOpposite, lanes()>(pair, begin + i, responses);
            petacomm::Wholes<lanes()> made[kStokes] = {};
            for (int member = 0; member < 2; ++member) {
                Real value = petacomm::load<Real>(time.of(member) + i) * scale;
                const std::int32_t* pixels = pair.members[member].pixels + begin + i;
                if constexpr (kGaps) value = petacomm::load_wide<lanes()>(pixels) < 0 ? Real{} : value;
                for (int k = 0; k < kStokes; ++k)
                    made[k] += petacomm::to_fixed<lanes()>(value * responses[member][k]);
            }
            terms.template keep<lanes()>(i, made);
        });
        for (std::int64_t i = std::max<std::int64_t>(0, n - kLag); i < n; ++i)
            terms.template add<1>(i, places.of(i));
    };
    for_places<kStokes>(pair, begin, n, sums, to);
}

template <int kStokes>
void gather(const SamplePair& pair, std::int64_t begin, std::int64_t n, const double* map, const double* gaps,
            const Streams<double>& time) {
    if (kStokes > 1 && pair.opposite)
        gather_rows<kStokes, true>(pair, begin, n, map, time);
    else
        gather_rows<kStokes, false>(pair, begin, n, map, time);
    for_gaps(pair, begin, n,
             [&](int member, std::int64_t i, std::int64_t slot) { time.of(member)[i] = gaps[slot]; });
}

template <int kStokes>
void scatter(const SamplePair& pair, std::int64_t begin, std::int64_t n, const Streams<double>& time,
             double scale, std::int64_t* sums, std::int64_t* gap_sums) {
    if (kStokes > 1 && pair.opposite)
        scatter_rows<kStokes, true>(pair, begin, n, time, scale, sums);
    else
        scatter_rows<kStokes, false>(pair, begin, n, time, scale, sums);
    for_gaps(pair, begin, n, [&](int member, std::int64_t i, std::int64_t slot) {
        gap_sums[slot] += to_fixed(time.of(member)[i] * scale);
    });
}

}  // namespace petamap::mapmaking
