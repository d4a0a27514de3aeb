// Prediction error filters: the Yule-Walker equations by the recursion of Levinson and Durbin.
#pragma once

#include <cstddef>
#include <span>

namespace petamap::noise {

// Set filter, of covariance.size() values, to 1 and the coefficients of the prediction error of a process
// with these autocovariances, at lags 0 to p; return the power of the error. Sums are of eight parts,
// whatever the instruction set, so the bits depend on the covariance alone. Needs memory of 2 p doubles.
double prediction_error(std::span<const double> covariance, double* filter);

}  // namespace petamap::noise
