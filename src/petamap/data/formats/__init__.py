"""File formats of time-ordered data: MADmap version 1, TOAST HDF5 volumes, and petamap's own volume."""
