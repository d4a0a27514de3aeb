// Attitudes of detectors, given as angles or quaternions of each sample.
#pragma once

#include <cstdint>

namespace petamap::pointing {

// Write the unit quaternions Rz(phi) Ry(theta) Rz(psi) of n samples, (n, 4): colatitude, longitude, and the
// polarization angle from the southward meridian to the east (COSMO), radians; nan where they are not finite.
void attitudes(const double* theta, const double* phi, const double* psi, std::int64_t n, double* out);

// Write n quaternions, (n, 4), at length 1; nan where they are not finite, or 0.
void unit(const double* quaternions, std::int64_t n, double* out);

// Write the response angles of n polarization angles, radians.
void response_angles(const double* psi, std::int64_t n, std::uint32_t* angles);

}  // namespace petamap::pointing
