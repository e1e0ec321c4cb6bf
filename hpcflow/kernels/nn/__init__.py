"""Kernels of networks by NumPy: activations, convolutions, poolings, normalization, recurrent
blocks.

`kernels.onednn` computes most of them where its library is there. Begin reading with `convolution`.
"""
