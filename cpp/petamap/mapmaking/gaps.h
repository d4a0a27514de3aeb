// Samples that must not enter the map become unknowns of their own, and so are marginalised exactly.
#pragma once

#include <cstdint>

#include "petamap/mapmaking/pixel_index.h"

namespace petamap::mapmaking {

// Replace global pixel numbers by local ones; -1 where flagged (may be null), outside or not in the index.
void localize(const PixelIndex& index, const std::uint8_t* flags, std::int64_t n, std::int32_t* pixels);

// Number the samples with pixel < 0: ~slot, slots counted from `base`. A slot is one unknown; it ends where
// the gap ends and wherever (position + i) is a multiple of `length`: length 1 gives each sample its own, 0
// puts all of them into slot 0.
void number_gaps(std::int64_t length, std::int64_t position, std::int64_t base, std::int64_t n,
                 std::int32_t* pixels);

// The same for the samples of which bit (first + i) is set, whatever their pixels: bit b lies in byte b / 8.
void number_marked_gaps(const std::uint8_t* bits, std::int64_t first, std::int64_t length,
                        std::int64_t position, std::int64_t base, std::int64_t n, std::int32_t* pixels);

// The gaps among samples [begin, end).
std::int64_t count_gaps(const std::uint8_t* bits, std::int64_t begin, std::int64_t end);

// What follows is of slots of 1 or 64 samples, which are 64 samples long at the most from a multiple of 64
// on, and of bits in whole words of 64.

// The slots that begin among samples [begin, end), begin a multiple of 64.
std::int64_t count_slots(const std::uint8_t* bits, std::int64_t length, std::int64_t begin, std::int64_t end);

// Where they begin, plus `shift`; `out` has room for as many as there are.
void find_slots(const std::uint8_t* bits, std::int64_t length, std::int64_t begin, std::int64_t end,
                std::int64_t shift, std::int64_t* out);

// The slot of the first gap at or after a position; before[k]: the slots that begin before chunk k of so many
// samples, a multiple of 64.
std::int64_t first_slot(const std::uint8_t* bits, std::int64_t length, std::int64_t chunk,
                        const std::int64_t* before, std::int64_t position);

}  // namespace petamap::mapmaking
