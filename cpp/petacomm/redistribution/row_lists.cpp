#include "petacomm/redistribution/row_lists.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "petacomm/base/row_widths.h"
#include "petacomm/base/threads.h"
#include "petacomm/redistribution/operations.h"

namespace petacomm {

namespace {

constexpr std::int64_t longest = std::numeric_limits<std::uint8_t>::max();
// Values that are added up at once: they stay in the nearest caches.
constexpr std::int64_t block_bytes = 1 << 15;

// A walk along runs. Without lists it goes along all rows there are.
class Walk {
  public:
    explicit Walk(const RowLists* lists, std::int64_t run = 0) : lists_(lists), run_(run) { enter(); }

    std::int64_t row() const { return row_; }
    std::int64_t run() const { return run_; }
    std::int64_t left() const { return left_; }

    // Go on by n <= left() rows.
    void step(std::int64_t n) {
        row_ += n;
        left_ -= n;
        if (left_ == 0) {
            ++run_;
            enter();
        }
    }

    void skip(std::int64_t n) {
        while (n > 0) {
            const std::int64_t few = std::min(n, left_);
            step(few);
            n -= few;
        }
    }

  private:
    void enter() {
        if (lists_ && run_ < lists_->n_runs) {
            row_ = lists_->starts[run_];
            left_ = lists_->lengths[run_];
        } else if (!lists_) {
            left_ = std::numeric_limits<std::int64_t>::max();
        }
    }

    const RowLists* lists_;
    std::int64_t run_, row_ = 0, left_ = 0;
};

template <typename T, typename Width>
void move_part(const T* from, Walk source, T* to, Walk target, std::int64_t n, Width k) {
    while (n > 0) {
        const std::int64_t rows = std::min({n, source.left(), target.left()});
        const T* here = from + source.row() * k;
        T* there = to + target.row() * k;
        if (rows == 1)
            for (std::int64_t c = 0; c < k; ++c) there[c] = here[c];
        else
            std::copy_n(here, rows * k, there);
        source.step(rows);
        target.step(rows);
        n -= rows;
    }
}

// One list of what was received, from some row on.
struct Turn {
    Walk walk;
    std::int64_t end;  // of its runs
    std::int64_t received;
    bool at_end() const { return walk.run() >= end; }
};

// Where each list begins in what was received.
std::vector<std::int64_t> begins_of(const RowLists& lists, const std::int64_t* bounds, std::int64_t n_lists) {
    std::vector<std::int64_t> begins(n_lists, 0);
    std::int64_t rows = 0;
    for (std::int64_t list = 0; list < n_lists; ++list) {
        begins[list] = rows;
        for (std::int64_t run = bounds[list]; run < bounds[list + 1]; ++run) rows += lists.lengths[run];
    }
    return begins;
}

// Call body(row, row received, number of rows) for the rows of a list before `stop`.
template <typename Body>
void advance(Turn& turn, std::int64_t stop, Body body) {
    while (!turn.at_end() && turn.walk.row() < stop) {
        const std::int64_t rows = std::min(turn.walk.left(), stop - turn.walk.row());
        body(turn.walk.row(), turn.received, rows);
        turn.received += rows;
        turn.walk.step(rows);
    }
}

template <typename T, typename Width, typename Reduce>
class Combiner {
  public:
    Combiner(const T* received, std::int64_t own_list, const std::uint8_t* own, Width k, Reduce reduce,
             T* values)
        : received_(received), own_list_(own_list), own_(own), k_(k), reduce_(reduce), values_(values) {}

    void run(std::vector<Turn>& turns, std::int64_t begin, std::int64_t end) {
        const std::int64_t size = std::max<std::int64_t>(16, block_bytes / (k_ * sizeof(T)));
        totals_.resize(size * k_);
        has_.resize(size);
        for (begin_ = begin; begin_ < end; begin_ += size) block(turns, std::min(size, end - begin_));
    }

  private:
    void block(std::vector<Turn>& turns, std::int64_t n) {
        std::fill_n(has_.begin(), n, 0);
        const std::int64_t n_lists = static_cast<std::int64_t>(turns.size());
        for (std::int64_t list = 0; list < own_list_; ++list)
            advance(turns[list], begin_ + n, [&](std::int64_t row, std::int64_t from, std::int64_t rows) {
                for (std::int64_t i = 0; i < rows; ++i)
                    take(totals_.data() + (row - begin_ + i) * k_, received_ + (from + i) * k_,
                         has_[row - begin_ + i]);
            });
        for (std::int64_t i = 0; i < n; ++i) own_turn(i);
        for (std::int64_t list = own_list_; list < n_lists; ++list)
            advance(turns[list], begin_ + n, [&](std::int64_t row, std::int64_t from, std::int64_t rows) {
                T* to = values_ + row * k_;
                const T* value = received_ + from * k_;
                if (own_) {
                    for (std::int64_t i = 0; i < rows; ++i)
                        take(to + i * k_, value + i * k_, has_[row - begin_ + i]);
                } else {
                    for (std::int64_t c = 0; c < rows * k_; ++c) to[c] = reduce_(to[c], value[c]);
                }
            });
    }

    // The first value of a row stands as it is.
    void take(T* total, const T* value, std::uint8_t& has) {
        if (has)
            for (std::int64_t c = 0; c < k_; ++c) total[c] = reduce_(total[c], value[c]);
        else
            for (std::int64_t c = 0; c < k_; ++c) total[c] = value[c];
        has = 1;
    }

    void own_turn(std::int64_t i) {
        T* value = values_ + (begin_ + i) * k_;
        const T* total = totals_.data() + i * k_;
        const bool own = !own_ || own_[begin_ + i];
        if (has_[i])
            for (std::int64_t c = 0; c < k_; ++c) value[c] = own ? reduce_(total[c], value[c]) : total[c];
        else
            has_[i] = own;
    }

    const T* received_;
    std::int64_t own_list_;
    const std::uint8_t* own_;
    Width k_;
    Reduce reduce_;
    T* values_;
    std::int64_t begin_ = 0;
    std::vector<T> totals_;
    std::vector<std::uint8_t> has_;
};

}  // namespace

std::int64_t cut_lists(const std::int32_t* positions, const std::int64_t* offsets, std::int64_t n_lists,
                       std::int32_t* starts, std::uint8_t* lengths, std::int64_t room, std::int64_t* bounds) {
    std::int64_t n_runs = 0;
    bounds[0] = 0;
    for (std::int64_t list = 0; list < n_lists; ++list) {
        std::int64_t next = -1, length = longest;
        for (std::int64_t i = offsets[list]; i < offsets[list + 1]; ++i) {
            if (positions[i] != next || length == longest) {
                if (n_runs < room) starts[n_runs] = positions[i];
                ++n_runs;
                length = 0;
            }
            ++length;
            if (n_runs <= room) lengths[n_runs - 1] = static_cast<std::uint8_t>(length);
            next = std::int64_t{positions[i]} + 1;
        }
        bounds[list + 1] = n_runs;
    }
    return n_runs;
}

template <typename T>
void move_rows(const T* from, const RowLists* from_rows, T* to, const RowLists* to_rows, std::int64_t n,
               std::int64_t k, int n_threads) {
    with_constant(k, [=](auto width) {
#pragma omp parallel for schedule(static) num_threads(n_threads)
        for (int part = 0; part < n_threads; ++part) {
            const std::int64_t begin = n * part / n_threads, end = n * (part + 1) / n_threads;
            Walk source(from_rows), target(to_rows);
            source.skip(begin);
            target.skip(begin);
            move_part(from, source, to, target, end - begin, width);
        }
    });
}

template <typename T>
void combine_lists(const T* received, const RowLists& lists, const std::int64_t* bounds, std::int64_t n_lists,
                   std::int64_t own_list, const std::uint8_t* own, std::int64_t n_rows, std::int64_t k,
                   Operation operation, T* values, int n_threads) {
    if (k == 0) return;
    const std::vector<std::int64_t> begins = begins_of(lists, bounds, n_lists);
    const auto combine_part = [&](int part, auto width, auto reduce) {
        const std::int64_t begin = n_rows * part / n_threads, end = n_rows * (part + 1) / n_threads;
        std::vector<Turn> turns;
        for (std::int64_t list = 0; list < n_lists; ++list) {
            turns.push_back({Walk(&lists, bounds[list]), bounds[list + 1], begins[list]});
            advance(turns.back(), begin, [](std::int64_t, std::int64_t, std::int64_t) {});
        }
        Combiner<T, decltype(width), decltype(reduce)>(received, own_list, own, width, reduce, values)
            .run(turns, begin, end);
    };
    with_operation<T>(operation, [&](auto reduce) {
        with_constant(k, [&](auto width) {
            in_parts(n_threads, [&](int part) { combine_part(part, width, reduce); });
        });
    });
}

#define PETAMAP_INSTANTIATE(T)                                                                               \
    template void move_rows<T>(const T*, const RowLists*, T*, const RowLists*, std::int64_t, std::int64_t,   \
                               int);                                                                         \
    template void combine_lists<T>(const T*, const RowLists&, const std::int64_t*, std::int64_t,             \
                                   std::int64_t, const std::uint8_t*, std::int64_t, std::int64_t, Operation, \
                                   T*, int);
PETAMAP_INSTANTIATE(std::int64_t)
PETAMAP_INSTANTIATE(double)
PETAMAP_INSTANTIATE(float)
PETAMAP_INSTANTIATE(std::uint8_t)
#undef PETAMAP_INSTANTIATE

}  // namespace petacomm
