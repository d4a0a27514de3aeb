// Events in integer time: a wheel of slots for what comes soon, a heap for the rest.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace petacomm {

struct Event {
    std::uint32_t what;  // the kind of event and its place
    std::int32_t packet;
};

// Events of one time come in the order in which they were scheduled, those of the heap first.
class Wheel {
  public:
    static constexpr std::int64_t n_slots = 4096;

    Wheel() : slots_(n_slots), filled_(n_slots / 64) {}

    std::int64_t now() const { return now_; }

    // Schedule an event `delay` ticks from now, 1 or more.
    void after(std::int64_t delay, Event event) {
        if (delay >= n_slots) {
            far_.push({now_ + delay, order_++, event});
            return;
        }
        add((now_ + delay) & (n_slots - 1), event);
        ++n_near_;
    }

    // Go on to the next time at which something happens and move its events to `due`; false if nothing does.
    bool advance(std::vector<Event>& due) {
        due.clear();
        if (n_near_ == 0 && far_.empty()) return false;
        const std::int64_t near = n_near_ > 0 ? next_filled() : INT64_MAX;
        const std::int64_t far = far_.empty() ? INT64_MAX : far_.top().time;
        now_ = near < far ? near : far;
        for (; !far_.empty() && far_.top().time == now_; far_.pop()) due.push_back(far_.top().event);
        auto& slot = slots_[now_ & (n_slots - 1)];
        if (near == now_) {
            n_near_ -= static_cast<std::int64_t>(slot.size());
            if (due.empty()) {
                due.swap(slot);
            } else {
                due.insert(due.end(), slot.begin(), slot.end());
                slot.clear();
            }
            const std::int64_t place = now_ & (n_slots - 1);
            filled_[place >> 6] &= ~(std::uint64_t{1} << (place & 63));
        }
        return true;
    }

  private:
    struct Far {
        std::int64_t time, order;
        Event event;
        bool operator<(const Far& other) const {
            return time != other.time ? time > other.time : order > other.order;
        }
    };

    void add(std::int64_t place, Event event) {
        slots_[place].push_back(event);
        filled_[place >> 6] |= std::uint64_t{1} << (place & 63);
    }

    // The time of the next slot that holds events; there is one, after now.
    std::int64_t next_filled() const {
        const std::int64_t start = now_ + 1;
        std::int64_t word = (start & (n_slots - 1)) >> 6;
        std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (start & 63));
        std::int64_t base = start & ~std::int64_t{63};
        while (bits == 0) {
            word = (word + 1) & (n_slots / 64 - 1);
            base += 64;
            bits = filled_[word];
        }
        return base + __builtin_ctzll(bits);
    }

    std::vector<std::vector<Event>> slots_;
    std::vector<std::uint64_t> filled_;
    std::priority_queue<Far> far_;
    std::int64_t now_ = 0, n_near_ = 0, order_ = 0;
};

// Dispatch all events until nothing happens any more and return how many there were; `look` is called every
// few milliseconds.
template <class Dispatch, class Look>
std::int64_t run_events(Wheel& wheel, Dispatch&& dispatch, Look&& look) {
    constexpr std::int64_t events_a_look = 1 << 16;
    std::vector<Event> due;
    std::int64_t n_events = 0, next_look = events_a_look;
    while (wheel.advance(due)) {
        n_events += static_cast<std::int64_t>(due.size());
        for (const Event& event : due) dispatch(event);
        if (n_events >= next_look) {
            next_look = n_events + events_a_look;
            look();
        }
    }
    return n_events;
}

}  // namespace petacomm
