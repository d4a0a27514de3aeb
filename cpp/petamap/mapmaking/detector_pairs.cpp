#include "petamap/mapmaking/detector_pairs.h"

#include <algorithm>

namespace petamap::mapmaking {
namespace {

constexpr std::int64_t kPiece = 4096;  // samples compared between two questions whether to go on

// Whether no sample of n differs: differs(i) says which do, without branches.
template <class Differs>
bool none_differs(std::int64_t n, const Differs& differs) {
    for (std::int64_t done = 0; done < n; done += kPiece) {
        const std::int64_t end = std::min(n, done + kPiece);
        bool any = false;
        for (std::int64_t i = done; i < end; ++i) any |= differs(i);
        if (any) return false;
    }
    return true;
}

bool pixels_agree(const std::int32_t* one, const std::int32_t* other, std::int64_t n) {
    return none_differs(n, [=](std::int64_t i) { return one[i] != other[i] && (one[i] | other[i]) >= 0; });
}

// The angles of `other` are made of those of `one`, wherever that other is no gap.
bool are_opposite(const std::uint32_t* one, const std::uint32_t* other, const std::int32_t* other_pixels,
                  std::int64_t n) {
    return none_differs(
        n, [=](std::int64_t i) { return other[i] - one[i] != kHalfTurn && other_pixels[i] >= 0; });
}

}  // namespace

bool are_partners(std::span<const Block> blocks, std::span<const std::int64_t> partners) {
    const auto n = static_cast<std::int64_t>(blocks.size());
    if (partners.size() != blocks.size()) return false;
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t partner = partners[static_cast<std::size_t>(i)];
        if (partner == -1) continue;
        if (partner < 0 || partner >= n || partner == i) return false;
        const Block &one = blocks[static_cast<std::size_t>(i)],
                    &other = blocks[static_cast<std::size_t>(partner)];
        if (partners[static_cast<std::size_t>(partner)] != i || one.n_in != other.n_in ||
            one.n_left != other.n_left || one.n_out != other.n_out)
            return false;
    }
    return true;
}

std::vector<Partner> agreeing_partners(std::span<const Block> blocks, std::span<const std::int64_t> partners,
                                       const std::int32_t* pixels, const std::uint32_t* angles) {
    std::vector<Partner> found(blocks.size());
    for (std::size_t i = 0; i < partners.size(); ++i) {
        const auto number = static_cast<std::int64_t>(i);
        const std::int64_t partner = partners[i];
        if (partner <= number) continue;
        const auto k = static_cast<std::size_t>(partner);
        const std::int64_t first = blocks[i].first, second = blocks[k].first, n = blocks[i].n_in;
        if (!pixels_agree(pixels + first, pixels + second, n)) continue;
        const bool opposite =
            angles != nullptr && are_opposite(angles + first, angles + second, pixels + second, n);
        found[i] = {partner, opposite};
        found[k] = {number, opposite};
    }
    return found;
}

}  // namespace petamap::mapmaking
