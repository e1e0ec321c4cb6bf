"""Products of matrices on GPUs by cuBLAS, called directly.

CuPy's own products refuse to be captured into a CUDA graph, and take four times as long to start.
`products.of` is for whoever multiplies on a device; nothing is loaded before it is asked.
"""
