"""Kernels: (op type, device type, dtypes) -> a function of arrays. One file per family."""
