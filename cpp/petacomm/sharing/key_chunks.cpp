#include "petacomm/sharing/key_chunks.h"

#include <bit>
#include <vector>

namespace petacomm {

namespace {

constexpr int kChunkBits = 6;

std::uint64_t bit_of(std::int64_t key) { return std::uint64_t{1} << (key & 63); }

// Open addressing over the places of chunks already seen; grows, so that memory follows the distinct ones.
class Table {
  public:
    Table() : slots_(std::size_t{1} << kFirstBits, -1) {}

    // The place of chunk `number` in `united`, -1 if it is new and has just been given the place `next`.
    std::int32_t find_or_add(std::int64_t number, std::int32_t next, const Chunk* united) {
        if (2 * static_cast<std::size_t>(next) >= slots_.size()) grow(united, next);
        std::size_t slot = begin(number);
        for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1))
            if (united[slots_[slot]].number == number) return slots_[slot];
        slots_[slot] = next;
        return -1;
    }

  private:
    // Another hash than the one that has dealt the chunks to ranks.
    std::size_t begin(std::int64_t number) const {
        return static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15u >> shift_;
    }

    void grow(const Chunk* united, std::int32_t n) {
        slots_.assign(2 * slots_.size(), -1);
        --shift_;
        for (std::int32_t place = 0; place < n; ++place) {
            std::size_t slot = begin(united[place].number);
            while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
            slots_[slot] = place;
        }
    }

    static constexpr int kFirstBits = 10;
    int shift_ = 64 - kFirstBits;
    std::vector<std::int32_t> slots_;
};

}  // namespace

std::int64_t count_chunks(const std::int64_t* keys, std::int64_t n) {
    std::int64_t count = n > 0;
    for (std::int64_t i = 1; i < n; ++i) count += (keys[i] >> kChunkBits) != (keys[i - 1] >> kChunkBits);
    return count;
}

bool chunk_keys(const std::int64_t* keys, std::int64_t n, Chunk* chunks, std::int64_t n_chunks) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++count) {
        if (count == n_chunks) return false;
        Chunk chunk{keys[i] >> kChunkBits, 0};
        for (; i < n && keys[i] >> kChunkBits == chunk.number; ++i) chunk.held |= bit_of(keys[i]);
        chunks[count] = chunk;
    }
    return true;
}

std::int64_t count_keys(const Chunk* chunks, std::int64_t n) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) count += std::popcount(chunks[i].held);
    return count;
}

void key_offsets(const Chunk* chunks, std::int64_t n, std::int64_t* offsets) {
    offsets[0] = 0;
    for (std::int64_t i = 0; i < n; ++i) offsets[i + 1] = offsets[i] + std::popcount(chunks[i].held);
}

void unchunk_keys(const Chunk* chunks, std::int64_t n, std::int64_t* keys) {
    for (std::int64_t i = 0; i < n; ++i)
        for (std::uint64_t left = chunks[i].held; left != 0; left &= left - 1)
            *keys++ = (chunks[i].number << kChunkBits) | std::countr_zero(left);
}

std::int64_t unite_chunks(const Chunk* chunks, std::int64_t n, std::int32_t* groups, Chunk* united) {
    Table table;
    std::int32_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int32_t place = table.find_or_add(chunks[i].number, count, united);
        groups[i] = place < 0 ? count : place;
        if (place < 0)
            united[count++] = chunks[i];
        else
            united[place].held |= chunks[i].held;
    }
    return count;
}

void places_of_keys(const Chunk* chunks, const std::int32_t* groups, std::int64_t n, const Chunk* united,
                    std::int64_t n_united, std::int32_t* places) {
    std::vector<std::int64_t> offsets(n_united + 1);
    key_offsets(united, n_united, offsets.data());
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int32_t begin = static_cast<std::int32_t>(offsets[groups[i]]);
        const std::uint64_t every = united[groups[i]].held;
        for (std::uint64_t left = chunks[i].held; left != 0; left &= left - 1) {
            const std::uint64_t below = (left & -left) - 1;
            *places++ = begin + std::popcount(every & below);
        }
    }
}

}  // namespace petacomm
