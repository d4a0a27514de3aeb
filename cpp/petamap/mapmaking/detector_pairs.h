// Pairs of blocks whose detectors look at the same places at the same times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "petamap/mapmaking/blocks.h"

namespace petamap::mapmaking {

// Difference of response angles whose cosines and sines are each other's with the other sign.
constexpr std::uint32_t kHalfTurn = 1u << 31;

// Whether the partners given are other blocks of the same inputs and outputs, each the partner of its own
// partner; -1: of no block.
bool are_partners(std::span<const Block> blocks, std::span<const std::int64_t> partners);

// Partners whose pixels are the same wherever neither is a gap: the others have none. pixels, angles: of all
// held samples; angles may be null.
std::vector<Partner> agreeing_partners(std::span<const Block> blocks, std::span<const std::int64_t> partners,
                                       const std::int32_t* pixels, const std::uint32_t* angles);

}  // namespace petamap::mapmaking
