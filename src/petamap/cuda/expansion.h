// Compressed pointing to local pixels and angles: the numbers of `pointing::expand_sight`, to the bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "petamap/pointing/arcs.h"
#include "petamap/pointing/response_angle.h"
#include "samples.h"

namespace petamap::cuda {

using pointing::Arc, pointing::Piece, pointing::Quaternion, pointing::Segment;

inline std::int32_t local_pixel(const Samples& s, std::int32_t pixel) {
    if (pixel < 0) return -1;
    const std::uint64_t word = s.words[pixel / 64];
    const int place = pixel % 64;
    if (!(word >> place & 1)) return -1;
    return s.before[pixel / 64] + std::popcount(word & ~(~std::uint64_t{0} << place));
}

// Four times the angle of the half-wave plate.
inline std::uint32_t plate_angle(const Samples& s, const Pointing& p, std::int64_t sample) {
    if (p.plate == 1)
        return static_cast<std::uint32_t>(
            (p.plate_phase + p.plate_rate * static_cast<std::uint64_t>(sample)) >> 30);
    if (p.plate != 2) return 0;
    const pointing::Knots knots{p.n_turns, p.plate_spacing, p.plate_offset};
    const double* turns = s.plate_turns + p.first_turn;
    const std::int64_t i = knots.interval_of(sample);
    const double u = knots.position(sample) - static_cast<double>(i);
    const double turn = turns[i] + u * (turns[i + 1] - turns[i]);
    return pointing::wrapped(4.0 * (turn - std::floor(turn)));
}

// Arcs that the threads of a block have fitted, one each, and of which all threads then evaluate the samples,
// so that those that follow each other are written together. Stored without constructors, as memory that
// threads share is.
struct SharedArcs {
    static constexpr int kMost = kThreads;
    double factors[kMost][Arc::kQuantities][Arc::kNodes];
    std::int64_t first[kMost];              // sample of the observation
    std::int32_t begin[kMost], end[kMost];  // of its samples, from 0; nothing to do where they are equal
    Arc::Zone zones[kMost];
};

// Expands samples of one line of sight; `out` is that of sample 0 of the observation.
class Expansion {
  public:
    Expansion(const Samples& s, const Pointing& p, const Quaternion& sight, Expanded* out)
        : s_(s),
          p_(p),
          sight_(sight),
          out_(out),
          healpix_{static_cast<std::int32_t>(s.n_side), static_cast<std::int32_t>(s.order),
                   static_cast<std::int32_t>(s.n_pix), static_cast<std::int32_t>(s.n_cap)} {}

    // Samples [from, to) of a window of [begin, end). An arc is expanded whole by the window in which the
    // first of its samples that are wanted lies. The first one of a thread waits for `evaluate`.
    void expand(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end, SharedArcs& shared,
                int thread) const {
        shared.begin[thread] = shared.end[thread] = 0;
        const pointing::Boresight boresight{s_.knots + 4 * p_.first_knot, s_.ranges + 2 * p_.first_range,
                                            s_.interpolation + 3 * p_.first_piece, p_.n_pieces};
        for (std::int64_t sample = from; sample < to;) {
            const Piece piece = pointing::piece_of(boresight, sample);
            const std::int64_t stop = std::min(end, piece.stop);
            if (!Arc::suit(piece.knots)) {
                const std::int64_t last = std::min(to, stop);
                for (; sample < last; ++sample) write(piece, sample);
                continue;
            }
            const std::int64_t local = sample - piece.first;
            const std::int64_t i = piece.knots.interval_of(local), first = piece.knots.interval_begin(i);
            const std::int64_t arc_begin = local - (local - first) % Arc::kSamples;
            const std::int64_t arc_end =
                std::min(arc_begin + Arc::kSamples, piece.knots.interval_end(i, local, stop - piece.first));
            if (sample == std::max(begin, piece.first + arc_begin))
                fit_arc(piece, i, arc_begin, local, arc_end, shared, thread);
            sample = piece.first + arc_end;
        }
    }

    // Write the samples of all arcs that wait; a thread takes every kThreads-th.
    void evaluate(const SharedArcs& shared, int thread) const {
        for (int i = thread; i < SharedArcs::kMost * Arc::kSamples; i += kThreads) {
            const int number = i / Arc::kSamples, k = i % Arc::kSamples;
            if (k < shared.begin[number] || k >= shared.end[number]) continue;
            write(shared.first[number] + k, shared.factors[number], shared.zones[number], k);
        }
    }

  private:
    void fit_arc(const Piece& piece, std::int64_t interval, std::int64_t first, std::int64_t begin,
                 std::int64_t end, SharedArcs& shared, int thread) const {
        const Segment segment = piece.segment(interval, sight_);
        pointing::ArcFits<1> fits;
        fits.set(0, segment, piece.knots, interval, first);
        fits.fit(1);
        const Arc arc = fits.arc(0);
        if (arc.smooth && shared.begin[thread] == shared.end[thread])
            return keep(arc, piece.first + first, begin - first, end - first, shared, thread);
        for (std::int64_t k = begin; k < end; ++k) {
            if (arc.smooth)
                write(piece.first + k, arc.factors, arc.zone, static_cast<std::int32_t>(k - first));
            else
                write(piece.first + k, pointing::interpolate(segment, position(piece, interval, k)));
        }
    }

    static void keep(const Arc& arc, std::int64_t first, std::int64_t begin, std::int64_t end,
                     SharedArcs& shared, int thread) {
        for (int i = 0; i < Arc::kQuantities; ++i)
            for (int j = 0; j < Arc::kNodes; ++j) shared.factors[thread][i][j] = arc.factors[i][j];
        shared.first[thread] = first;
        shared.begin[thread] = static_cast<std::int32_t>(begin);
        shared.end[thread] = static_cast<std::int32_t>(end);
        shared.zones[thread] = arc.zone;
    }

    void write(std::int64_t sample, const double (&factors)[Arc::kQuantities][Arc::kNodes], Arc::Zone zone,
               std::int32_t k) const {
        const double t = Arc::place_of(k), height = Arc::value_at(factors[Arc::kHeight], t);
        const double longitude = Arc::value_at(factors[Arc::kLongitude], t);
        const std::int32_t pixel =
            s_.nested ? pixel_of<true>(zone, height, longitude) : pixel_of<false>(zone, height, longitude);
        put(sample, pixel, pointing::wrapped(Arc::value_at(factors[Arc::kAngle], t)));
    }

    template <bool nested>
    std::int32_t pixel_of(Arc::Zone zone, double height, double longitude) const {
        using Zone = Arc::Zone;
        if (zone == Zone::kBelt) return Arc::pixel_of<Zone::kBelt, nested>(healpix_, height, longitude);
        if (zone == Zone::kCap) return Arc::pixel_of<Zone::kCap, nested>(healpix_, height, longitude);
        return Arc::pixel_of<Zone::kBoth, nested>(healpix_, height, longitude);
    }

    // A sample of a piece, between knots or at one.
    void write(const Piece& piece, std::int64_t sample) const {
        const std::int64_t local = sample - piece.first;
        if (piece.at_full_rate(local + 1))
            return write(sample, pointing::at(piece.boresight, local) * sight_);
        const std::int64_t i = piece.knots.interval_of(local);
        write(sample, pointing::interpolate(piece.segment(i, sight_), position(piece, i, local)));
    }

    static double position(const Piece& piece, std::int64_t interval, std::int64_t local) {
        return (static_cast<double>(local) - piece.knots.offset) / piece.knots.spacing -
               static_cast<double>(interval);
    }

    void write(std::int64_t sample, const Quaternion& q) const {
        const pointing::Sight sight = pointing::sight_of(q);
        const std::int32_t pixel = s_.nested ? sky::healpix_pixel<true>(healpix_, sight.x, sight.y, sight.z)
                                             : sky::healpix_pixel<false>(healpix_, sight.x, sight.y, sight.z);
        put(sample, pixel, pointing::wrapped(pointing::twice_the_angle(sight.sine, sight.cosine)));
    }

    void put(std::int64_t sample, std::int32_t pixel, std::uint32_t angle) const {
        out_[sample] = {local_pixel(s_, pixel), angle + plate_angle(s_, p_, sample)};
    }

    const Samples& s_;
    const Pointing& p_;
    Quaternion sight_;
    Expanded* out_;
    sky::Healpix healpix_;
};

}  // namespace petamap::cuda
