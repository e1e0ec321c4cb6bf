"""Networks: activations, convolutions, poolings, normalization, recurrent blocks.

May use the rooms of arrays and images. Begin reading with `activations`.
"""
