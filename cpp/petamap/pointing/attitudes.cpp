#include "petamap/pointing/attitudes.h"

#include <cmath>

#include "petacomm/base/simd.h"
#include "petamap/pointing/response_angle.h"
#include "petamap/sky/trig.h"

namespace petamap::pointing {

void attitudes(const double* theta, const double* phi, const double* psi, std::int64_t n, double* out) {
    petacomm::for_lanes(n, [=](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        constexpr int kLanes = lanes();
        using Real = petacomm::Reals<kLanes>;
        const Real lon = petacomm::load<Real>(phi + i), roll = petacomm::load<Real>(psi + i);
        Real cosine, sine, cosine_plus, sine_plus, cosine_minus, sine_minus;
        sky::cos_sin_of_radians<kLanes>(0.5 * petacomm::load<Real>(theta + i), cosine, sine);
        sky::cos_sin_of_radians<kLanes>(0.5 * (lon + roll), cosine_plus, sine_plus);
        sky::cos_sin_of_radians<kLanes>(0.5 * (roll - lon), cosine_minus, sine_minus);
        double parts[4][kLanes];
        petacomm::store(parts[0], sine * sine_minus);
        petacomm::store(parts[1], sine * cosine_minus);
        petacomm::store(parts[2], cosine * sine_plus);
        petacomm::store(parts[3], cosine * cosine_plus);
        for (int lane = 0; lane < kLanes; ++lane)
            for (int part = 0; part < 4; ++part) out[4 * (i + lane) + part] = parts[part][lane];
    });
}

void unit(const double* quaternions, std::int64_t n, double* out) {
    for (std::int64_t i = 0; i < n; ++i) {
        const double *q = quaternions + 4 * i,
                     length = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        for (int part = 0; part < 4; ++part) out[4 * i + part] = q[part] / length;
    }
}

void response_angles(const double* psi, std::int64_t n, std::uint32_t* angles) {
    for (std::int64_t i = 0; i < n; ++i) angles[i] = response_angle(psi[i]);
}

}  // namespace petamap::pointing
