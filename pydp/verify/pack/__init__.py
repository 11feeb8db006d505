"""The kernels of `pydp verify` as PTX, for machines that have NVIDIA's CUDA driver but no OpenCL library.

`make` compiles them on a machine with clang: a folder with one file for each kernel and `TARGET.json`, the list of
launches. `launch` runs these launches through the driver's library, or checks them without a GPU.
"""
