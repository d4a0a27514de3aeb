// Sorted keys by chunks of 64 neighbours, each the number of the chunk and the mask of the keys held: what
// ranks send to each other when they find out who shares what. Where keys are dense, 16 bytes stand for up to
// 64 of them.
#pragma once

#include <cstdint>

namespace petacomm {

struct Chunk {
    std::int64_t number;
    std::uint64_t held;
};
static_assert(sizeof(Chunk) == 16);

// How many chunks the sorted keys fall into.
std::int64_t count_chunks(const std::int64_t* keys, std::int64_t n);

// The chunks of sorted, distinct keys, in their order. Returns false where there are more than n_chunks.
bool chunk_keys(const std::int64_t* keys, std::int64_t n, Chunk* chunks, std::int64_t n_chunks);

// How many keys the chunks have.
std::int64_t count_keys(const Chunk* chunks, std::int64_t n);

// offsets[i] keys stand before chunk i; offsets[n] in all.
void key_offsets(const Chunk* chunks, std::int64_t n, std::int64_t* offsets);

// The keys of the chunks, chunk by chunk: the inverse of chunk_keys.
void unchunk_keys(const Chunk* chunks, std::int64_t n, std::int64_t* keys);

// Unite chunks of the same number: groups[i] is the place in `united` of chunk i. Places are given in the
// order in which numbers first occur. `united` has room for n; returns how many there are.
std::int64_t unite_chunks(const Chunk* chunks, std::int64_t n, std::int32_t* groups, Chunk* united);

// The place of each key of the chunks among the keys of the united ones.
void places_of_keys(const Chunk* chunks, const std::int32_t* groups, std::int64_t n, const Chunk* united,
                    std::int64_t n_united, std::int32_t* places);

}  // namespace petacomm
