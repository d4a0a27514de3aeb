"""The normal operator on NVIDIA's accelerators: kernels compiled at run time, by way of CuPy.

`normal.cu` and its headers are the kernels, with formulas from the headers of ``cpp/petamap``; `source` puts
their text together; `device` is what they run on; `sample_tables` describes a rank's samples to them, and
`normal_pass` runs them, batch by batch. CuPy is imported where a device is asked for, and nowhere else.

Must not import: any other room of petamap.
"""
