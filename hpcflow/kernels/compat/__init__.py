"""Kernels of op types that are examples or of other versions."""
