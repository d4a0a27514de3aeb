#include "petacomm/reduction/node_runs.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace petacomm {

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// The key after an interval; of lengths that no interval has, some number.
std::int64_t after(const Interval& interval) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(interval.key) +
                                     static_cast<std::uint64_t>(interval.length));
}

// Walks along one list: where it stands, and whether the key at hand lies in that interval.
class Walk {
  public:
    Walk(const IntervalLists& lists, std::int64_t l, std::int64_t low)
        : at_(lists.intervals + lists.offsets[l]), end_(lists.intervals + lists.offsets[l + 1]) {
        at_ = std::partition_point(at_, end_, [=](const Interval& i) { return after(i) <= low; });
        inside_ = at_ != end_ && at_->key <= low;
    }
    bool inside() const { return inside_; }
    const Interval& interval() const { return *at_; }
    // The next key at which something changes.
    std::int64_t next() const { return at_ == end_ ? never : inside_ ? after(*at_) : at_->key; }
    // Whether something changes above a key only: along intervals that increase it does.
    bool goes_on(std::int64_t key) const { return at_ == end_ || next() > key; }
    // Go to key `next()`.
    void step() {
        const std::int64_t key = next();
        if (inside_) ++at_;
        inside_ = at_ != end_ && at_->key == key;
    }

  private:
    const Interval *at_, *end_;
    bool inside_;
};

std::int64_t keys_below(const IntervalLists& lists, std::int64_t key) {
    std::int64_t n = 0;
    for (std::int64_t l = 0; l < lists.n_lists; ++l) {
        const Interval* begin = lists.intervals + lists.offsets[l];
        const Interval* end = lists.intervals + lists.offsets[l + 1];
        const Interval* after =
            std::partition_point(begin, end, [=](const Interval& i) { return i.key < key; });
        if (after != begin) n += after[-1].before + std::min(after[-1].length, key - after[-1].key);
    }
    return n;
}

}  // namespace

std::int64_t cut_intervals(const std::int64_t* keys, const std::int32_t* groups, std::int64_t n,
                           std::int64_t first_row, Interval* out, std::int64_t room) {
    std::int64_t n_intervals = 0, before = 0, begin = 0;
    while (begin < n) {
        const std::int32_t group = groups ? groups[begin] : 0;
        std::int64_t end = begin + 1;
        while (end < n && keys[end] == keys[end - 1] + 1 && (!groups || groups[end] == group)) ++end;
        if (group >= 0) {
            if (n_intervals < room)
                out[n_intervals] = {keys[begin], end - begin, first_row + begin, before, group};
            ++n_intervals;
            before += end - begin;
        }
        begin = end;
    }
    return n_intervals;
}

std::int64_t split_key(const IntervalLists& lists, std::int64_t target) {
    if (target <= 0) return 0;
    std::int64_t low = 0, high = 0;  // keys_below(low) < target, and high is above all keys
    for (std::int64_t l = 0; l < lists.n_lists; ++l)
        if (lists.offsets[l + 1] > lists.offsets[l]) {
            const Interval& last = lists.intervals[lists.offsets[l + 1] - 1];
            high = std::max(high, last.key + last.length);
        }
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (keys_below(lists, middle) < target ? low : high) = middle;
    }
    return high;
}

std::pair<std::int64_t, std::int64_t> merge_runs(const IntervalLists& lists, std::int64_t low,
                                                 std::int64_t high, const RunOutputs& out) {
    std::vector<Walk> walks;
    std::vector<std::int64_t> next;
    for (std::int64_t l = 0; l < lists.n_lists; ++l) {
        walks.emplace_back(lists, l, low);
        if (!walks.back().goes_on(low)) return {-1, -1};
        next.push_back(walks.back().next());
    }
    const auto n_lists = static_cast<std::size_t>(lists.n_lists);
    std::int64_t n_runs = 0, n_entries = 0;
    for (std::int64_t key = low; key < high;) {
        std::int64_t end = high;
        for (std::size_t l = 0; l < n_lists; ++l) end = std::min(end, next[l]);
        const std::int64_t first = n_entries;
        Run run{key, end - key, 0, 0};
        for (std::size_t l = 0; l < n_lists; ++l) {
            if (!walks[l].inside()) continue;
            const Interval& in = walks[l].interval();
            if (n_entries == first) run.group = in.group;
            if (n_entries < out.entry_room)
                out.entries[n_entries] = static_cast<std::uint32_t>(in.row + (key - in.key));
            ++n_entries;
        }
        run.n_entries = n_entries - first;
        if (run.n_entries) {
            if (n_runs < out.run_room) out.runs[n_runs] = run;
            ++n_runs;
        }
        for (std::size_t l = 0; l < n_lists; ++l)
            if (next[l] == end) {
                walks[l].step();
                if (!walks[l].goes_on(end)) return {-1, -1};
                next[l] = walks[l].next();
            }
        key = end;
    }
    return {n_runs, n_entries};
}

}  // namespace petacomm
