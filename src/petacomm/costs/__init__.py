"""What reductions send and take on any number of ranks, without running them."""
