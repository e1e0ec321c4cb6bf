"""Rules of positions as plain integers: sliding windows, strided slices, bands of diagonals.

Ops and kernels share them, so they know neither graphs nor arrays. Begin reading with `windows`.
"""
