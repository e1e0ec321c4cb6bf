"""Data sets: what their variants stand for, and the iterators that go over their elements."""
