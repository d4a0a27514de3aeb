// The packets on the way, at places that are used again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace petacomm {

// `Packet::next`, the packet behind it in its queue, links free places while it is in none.
template <class Packet>
class PacketPool {
  public:
    // Return the place of a packet more; `most` becomes at least the number of packets now.
    std::int32_t add(std::int64_t& most) {
        most = std::max(most, ++n_);
        if (free_ < 0) {
            packets_.emplace_back();
            return static_cast<std::int32_t>(packets_.size() - 1);
        }
        const std::int32_t place = free_;
        free_ = packets_[place].next;
        return place;
    }

    void remove(std::int32_t place) {
        packets_[place].next = free_;
        free_ = place;
        --n_;
    }

    Packet& operator[](std::int32_t place) { return packets_[place]; }
    const Packet& operator[](std::int32_t place) const { return packets_[place]; }

    std::int64_t n() const { return n_; }
    std::int64_t bytes() const { return static_cast<std::int64_t>(packets_.size() * sizeof(Packet)); }

  private:
    std::vector<Packet> packets_;
    std::int32_t free_ = -1;
    std::int64_t n_ = 0;
};

}  // namespace petacomm
