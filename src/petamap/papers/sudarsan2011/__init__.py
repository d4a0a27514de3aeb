"""Sudarsan et al. 2011: the reductions of MADmap on 16,384 cores."""
