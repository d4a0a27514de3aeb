"""What every room stands on: errors, units, typing, timers, random numbers, exact sums, whole files."""
