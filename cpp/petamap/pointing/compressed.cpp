#include "petamap/pointing/compressed.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "petacomm/base/simd.h"
#include "petamap/pointing/arcs.h"
#include "petamap/pointing/response_angle.h"
#include "petamap/pointing/segment.h"

namespace petamap::pointing {
namespace {

constexpr std::int64_t kChunk = 512;  // 9 arrays of doubles stay in the first-level cache

struct Chunk {
    alignas(64) double qx[kChunk], qy[kChunk], qz[kChunk], qw[kChunk];
    alignas(64) double x[kChunk], y[kChunk], z[kChunk];
    alignas(64) double cosine[kChunk], sine[kChunk];
};

[[gnu::always_inline]] inline void put(Chunk& chunk, std::int64_t k, const Quaternion& q) {
    chunk.qx[k] = q.x;
    chunk.qy[k] = q.y;
    chunk.qz[k] = q.z;
    chunk.qw[k] = q.w;
}

// Quaternions of n samples from `sample`, all in one interval, at `to` in the chunk.
void fill_segment(const Segment& segment, const Knots& knots, std::int64_t interval, std::int64_t sample,
                  std::int64_t n, std::int64_t to, Chunk& chunk) {
    const Segment s = segment;  // not reloaded after every store
    const double knot = static_cast<double>(interval), spacing = knots.spacing;
    const double first = static_cast<double>(sample), offset = knots.offset;
#pragma omp simd
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(n); ++k)
        put(chunk, to + k, interpolate(s, ((first + static_cast<double>(k)) - offset) / spacing - knot));
}

void fill_full_rate(const Piece& p, const Quaternion& d, std::int64_t start, std::int64_t n, std::int64_t to,
                    Chunk& chunk) {
    const double* knots = p.boresight + 4 * start;
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) put(chunk, to + k, at(knots, k) * d);
}

// Quaternions of samples [start, stop) of a piece, at `to` in the chunk.
void fill_piece(const Piece& p, const Quaternion& detector, std::int64_t start, std::int64_t stop,
                std::int64_t to, Chunk& chunk) {
    if (p.at_full_rate(stop)) return fill_full_rate(p, detector, start, stop - start, to, chunk);
    for (std::int64_t sample = start; sample < stop;) {
        const std::int64_t i = p.knots.interval_of(sample);
        const std::int64_t end = p.knots.interval_end(i, sample, stop);
        fill_segment(p.segment(i, detector), p.knots, i, sample, end - sample, to, chunk);
        to += end - sample;
        sample = end;
    }
}

void fill_quaternions(const CompressedPointing& p, const Quaternion& detector, std::int64_t start,
                      std::int64_t n, Chunk& chunk) {
    const std::int64_t stop = start + n;
    for (std::int64_t sample = start; sample < stop;) {
        const Piece piece = piece_of(p.boresight, sample);
        const std::int64_t end = std::min(stop, piece.stop);
        fill_piece(piece, detector, sample - piece.first, end - piece.first, sample - start, chunk);
        sample = end;
    }
}

void fill_sights(std::int64_t n, Chunk& c) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) {
        const Sight sight = sight_of({c.qx[k], c.qy[k], c.qz[k], c.qw[k]});
        c.x[k] = sight.x;
        c.y[k] = sight.y;
        c.z[k] = sight.z;
        c.cosine[k] = sight.cosine;
        c.sine[k] = sight.sine;
    }
}

void fill_angles(const Chunk& c, std::int64_t n, std::uint32_t* angles) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) angles[k] = wrapped(twice_the_angle(c.sine[k], c.cosine[k]));
}

// Four times the angle of the half-wave plate.
void add_uniform_plate(const CompressedPointing& p, std::int64_t start, std::int64_t n,
                       std::uint32_t* angles) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) {
        const std::uint64_t turns = p.plate_phase + p.plate_rate * static_cast<std::uint64_t>(start + k);
        angles[k] += static_cast<std::uint32_t>(turns >> 30);
    }
}

[[gnu::always_inline]] inline std::uint32_t four_times(double turns) {
    return wrapped(4.0 * (turns - std::floor(turns)));
}

void add_plate_at_knots(const double* turns, std::int64_t n, std::uint32_t* angles) {
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) angles[k] += four_times(turns[k]);
}

// Of n samples from `sample`, all in one interval, which begins at the knot of `turns`.
void add_plate_between(const Knots& knots, const double* turns, std::int64_t interval, std::int64_t sample,
                       std::int64_t n, std::uint32_t* angles) {
    const double spacing = knots.spacing, offset = knots.offset, knot = static_cast<double>(interval);
    const double first = static_cast<double>(sample), from = turns[0], step = turns[1] - turns[0];
#pragma omp simd
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(n); ++k) {
        const double u = ((first + static_cast<double>(k)) - offset) / spacing - knot;
        angles[k] += four_times(from + u * step);
    }
}

void add_sampled_plate(const CompressedPointing& p, std::int64_t start, std::int64_t n,
                       std::uint32_t* angles) {
    const Knots& knots = p.plate_knots;
    const std::int64_t stop = start + n;
    const std::int64_t at_knots =
        knots.at_every_sample() ? knots.n - 1 : 0;  // beyond, from the last interval
    for (std::int64_t sample = start, end = 0; sample < stop; sample = end) {
        std::uint32_t* to = angles + (sample - start);
        if (sample < at_knots) {
            end = std::min(stop, at_knots);
            add_plate_at_knots(p.plate_turns + sample, end - sample, to);
        } else {
            const std::int64_t i = knots.interval_of(sample);
            end = knots.interval_end(i, sample, stop);
            add_plate_between(knots, p.plate_turns + i, i, sample, end - sample, to);
        }
    }
}

// With a plate phi = -2 theta, theta = 2 (gamma - plate) - a; what depends on gamma is the detector's turn.
void add_plate(const CompressedPointing& p, std::int64_t start, std::int64_t n, std::uint32_t* angles) {
    if (p.plate == WavePlate::uniform) add_uniform_plate(p, start, n, angles);
    if (p.plate == WavePlate::sampled) add_sampled_plate(p, start, n, angles);
}

template <Arc::Zone zone, bool nested>
void write_pixels(const sky::Healpix& grid, const double* heights, const double* longitudes,
                  std::int32_t* pixels) {
    const sky::Healpix healpix = grid;  // not reloaded after every store
#pragma omp simd
    for (std::int32_t k = 0; k < Arc::kSamples; ++k)
        pixels[k] = Arc::pixel_of<zone, nested>(healpix, heights[k], longitudes[k]);
}

template <bool nested>
void write_pixels(const Arc& arc, const sky::Healpix& healpix, const double* heights,
                  const double* longitudes, std::int32_t* pixels) {
    using Zone = Arc::Zone;
    switch (arc.zone) {
        case Zone::kBelt:
            return write_pixels<Zone::kBelt, nested>(healpix, heights, longitudes, pixels);
        case Zone::kCap:
            return write_pixels<Zone::kCap, nested>(healpix, heights, longitudes, pixels);
        case Zone::kBoth:
            return write_pixels<Zone::kBoth, nested>(healpix, heights, longitudes, pixels);
    }
}

constexpr std::array kSamplePlaces = [] {
    std::array<double, Arc::kSamples> places{};
    for (int k = 0; k < Arc::kSamples; ++k) places[k] = Arc::place_of(k);
    return places;
}();

// Pixels of HEALPix and, unless `angles` is null, response angles in turns / 2^32 of the samples of an arc.
[[gnu::always_inline]] inline void expand_arc(const Arc& arc, const sky::Grid& grid,
                                              std::int32_t (&pixels)[Arc::kSamples], std::uint32_t* angles) {
    alignas(64) double values[Arc::kQuantities][Arc::kSamples];
#pragma omp simd
    for (std::int32_t k = 0; k < Arc::kSamples; ++k) {
        const double t = kSamplePlaces[k];
        for (int i = 0; i < Arc::kQuantities; ++i) values[i][k] = Arc::value_at(arc.factors[i], t);
    }
    const bool nested = grid.kind == sky::GridKind::healpix_nest;
    const auto write = nested ? write_pixels<true> : write_pixels<false>;
    write(arc, grid.healpix, values[Arc::kHeight], values[Arc::kLongitude], pixels);
    if (!angles) return;
#pragma omp simd
    for (int k = 0; k < Arc::kSamples; ++k) angles[k] = wrapped(values[Arc::kAngle][k]);
}

template <typename Use>
void in_chunks(const CompressedPointing& p, const Quaternion& quaternion, std::int64_t start,
               std::int64_t stop, Use use) {
    Chunk chunk;
    for (std::int64_t begin = start; begin < stop; begin += kChunk) {
        const std::int64_t n = std::min(kChunk, stop - begin);
        fill_quaternions(p, quaternion, begin, n, chunk);
        use(begin, n, chunk);
    }
}

// Writes pixels and angles of samples [start, ...) of a line of sight, without the plate.
class Expansion {
  public:
    Expansion(const Quaternion& sight, const sky::Grid& grid, std::int64_t start, std::int32_t* pixels,
              std::uint32_t* angles)
        : sight_(sight), grid_(grid), start_(start), pixels_(pixels), angles_(angles) {}

    void by_samples(const CompressedPointing& p, std::int64_t start, std::int64_t stop) {
        in_chunks(p, sight_, start, stop,
                  [&](std::int64_t begin, std::int64_t n, Chunk& chunk) { write(begin, n, chunk); });
    }

    // Samples [start, stop) of a piece.
    void by_arcs(const Piece& piece, std::int64_t start, std::int64_t stop) {
        const Knots& knots = piece.knots;
        for (std::int64_t sample = start; sample < stop;) {
            const std::int64_t i = knots.interval_of(sample), first = knots.interval_begin(i);
            const std::int64_t end = knots.interval_end(i, sample, stop);
            const Segment segment = piece.segment(i, sight_);
            while (sample < end) {
                const std::int64_t begin = sample - (sample - first) % Arc::kSamples;
                const std::int64_t n = std::min(begin + Arc::kSamples, end) - sample;
                arcs_.set(n_parts_, segment, knots, i, begin);
                parts_[n_parts_++] = {segment, i, sample, sample - begin, n};
                if (n_parts_ == kBatch) finish(piece);
                sample += n;
            }
        }
        finish(piece);
    }

  private:
    static constexpr int kBatch = 8;  // numbers in the longest vector
    struct Part {
        Segment segment;
        std::int64_t interval, sample, skip, n;
    };

    void finish(const Piece& piece) {
        if (n_parts_ > 0) arcs_.fit(n_parts_);
        for (int k = 0; k < n_parts_; ++k) {
            const Part& part = parts_[k];
            const Arc arc = arcs_.arc(k);
            if (arc.smooth)
                copy(arc, part, piece.first + part.sample - start_);
            else
                write_part(piece, part);
        }
        n_parts_ = 0;
    }

    void copy(const Arc& arc, const Part& part, std::int64_t to) {
        alignas(64) std::int32_t pixels[Arc::kSamples];
        alignas(64) std::uint32_t angles[Arc::kSamples];
        expand_arc(arc, grid_, pixels, angles_ ? angles : nullptr);
        std::copy_n(pixels + part.skip, part.n, pixels_ + to);
        if (angles_) std::copy_n(angles + part.skip, part.n, angles_ + to);
    }

    void write_part(const Piece& piece, const Part& part) {
        fill_segment(part.segment, piece.knots, part.interval, part.sample, part.n, 0, chunk_);
        write(piece.first + part.sample, part.n, chunk_);
    }

    void write(std::int64_t begin, std::int64_t n, Chunk& chunk) {
        fill_sights(n, chunk);
        sky::pixels_of(grid_, chunk.x, chunk.y, chunk.z, n, pixels_ + (begin - start_));
        if (angles_) fill_angles(chunk, n, angles_ + (begin - start_));
    }

    Quaternion sight_;
    const sky::Grid& grid_;
    std::int64_t start_;
    std::int32_t* pixels_;
    std::uint32_t* angles_;
    ArcFits<kBatch, petacomm::Reals<petacomm::kNativeLanes>> arcs_;
    Part parts_[kBatch];
    int n_parts_ = 0;
    Chunk chunk_;
};

bool is_healpix(const sky::Grid& grid) {
    return grid.kind == sky::GridKind::healpix_nest || grid.kind == sky::GridKind::healpix_ring;
}

}  // namespace

void expand_sight(const CompressedPointing& p, std::int64_t sight, const sky::Grid& grid, std::int64_t start,
                  std::int64_t stop, std::int32_t* pixels, std::uint32_t* angles) {
    Expansion expansion(at(p.sights, sight), grid, start, pixels, angles);
    for (std::int64_t sample = start; sample < stop;) {
        const Piece piece = piece_of(p.boresight, sample);
        const std::int64_t end = std::min(stop, piece.stop);
        if (is_healpix(grid) && Arc::suit(piece.knots))
            expansion.by_arcs(piece, sample - piece.first, end - piece.first);
        else
            expansion.by_samples(p, sample, end);
        sample = end;
    }
    if (angles) add_plate(p, start, stop - start, angles);
}

void expand(const CompressedPointing& p, std::int64_t detector, const sky::Grid& grid, std::int64_t start,
            std::int64_t stop, std::int32_t* pixels, std::uint32_t* angles) {
    expand_sight(p, p.sight_of[detector], grid, start, stop, pixels, angles);
    if (!angles) return;
    const std::uint32_t turn = p.turns[detector];
    for (std::int64_t k = 0; k < stop - start; ++k) angles[k] += turn;
}

void directions(const CompressedPointing& p, std::int64_t detector, std::int64_t start, std::int64_t stop,
                double* vectors, std::uint32_t* angles) {
    in_chunks(p, at(p.sights, p.sight_of[detector]), start, stop,
              [&](std::int64_t begin, std::int64_t n, Chunk& chunk) {
                  fill_sights(n, chunk);
                  double* out = vectors + 3 * (begin - start);
                  for (std::int64_t k = 0; k < n; ++k) {
                      out[3 * k] = chunk.x[k];
                      out[3 * k + 1] = chunk.y[k];
                      out[3 * k + 2] = chunk.z[k];
                  }
                  fill_angles(chunk, n, angles + (begin - start));
              });
    add_plate(p, start, stop - start, angles);
    for (std::int64_t k = 0; k < stop - start; ++k) angles[k] += p.turns[detector];
}

void quaternions(const CompressedPointing& pointing, std::int64_t detector, std::int64_t start,
                 std::int64_t stop, double* out) {
    const Quaternion own = at(pointing.detectors, detector);
    in_chunks(pointing, own, start, stop, [&](std::int64_t begin, std::int64_t n, Chunk& chunk) {
        double* q = out + 4 * (begin - start);
        for (std::int64_t k = 0; k < n; ++k) {
            q[4 * k] = chunk.qx[k];
            q[4 * k + 1] = chunk.qy[k];
            q[4 * k + 2] = chunk.qz[k];
            q[4 * k + 3] = chunk.qw[k];
        }
    });
}

}  // namespace petamap::pointing
