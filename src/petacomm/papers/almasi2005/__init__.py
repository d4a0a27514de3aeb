"""Almasi et al. 2005: collectives of BlueGene/L."""
