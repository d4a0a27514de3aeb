// A rank's share of the time domain, as the map-making kernels see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "petamap/mapmaking/halves.h"
#include "petamap/noise/convolver.h"

namespace petamap::mapmaking {

// Pixels and responses of samples: a local pixel number, or ~slot where the sample is an unknown of its own
// (a gap); the response is gain * (intensity, efficiency cos(angle), efficiency sin(angle)).
struct Samples {
    const std::int32_t* pixels;
    const std::uint32_t* angles;  // null where only intensity is mapped
    const float* gains;           // null where all are 1
    double intensity, efficiency;
    bool gaps = true;  // false only where none of them is a gap

    // Those of sample `begin` and later ones.
    Samples from(std::int64_t begin) const {
        return {pixels + begin,
                angles ? angles + begin : nullptr,
                gains ? gains + begin : nullptr,
                intensity,
                efficiency,
                gaps};
    }
};

// The block of another detector that looks at the same places as a block, at the same times.
struct Partner {
    std::int64_t block = -1;  // -1 where there is none
    bool opposite = false;    // whether response angles are half a turn apart
};

// The inverse noise: a symmetric band Toeplitz matrix a kernel.
struct InverseNoise {
    const noise::Convolver* convolver;  // null where all kernels are a number (n_lag = 0)
    const double* lags;                 // [n_kernel][n_lag + 1]
    std::int64_t n_lag;

    // Outputs of each of a block's two halves.
    std::int64_t half() const { return static_cast<std::int64_t>(convolver->size()) - 2 * n_lag; }
};

// Groups of blocks whose detectors share noise (joint_blocks.h).
struct JointBlocks {
    struct Group {
        std::int64_t first_member, n_members;
        std::int64_t first_coupling;  // [member][mode] from here on
        std::int64_t n_modes;
        std::int64_t first_kernel;  // of the modes
    };
    std::span<const Group> groups;
    std::span<const std::int64_t> members;  // blocks, of detectors in turn
    std::span<const std::int64_t> alone;    // blocks in no group
    const double *forward, *backward;       // A^T and B
};

}  // namespace petamap::mapmaking
