"""The floors of `programs.forward`: only the products of each model, in plain NumPy."""

from __future__ import annotations

from types import ModuleType

# Kind -> (rows, inner, columns, how many) of the products of its forward pass.
PRODUCTS = {
    "perceptron": [(64, 784, 100, 1), (64, 100, 10, 1)],
    "language_model": [(32, 1024, 2048, 20), (640, 512, 512, 1)],
    "looped_lstm": [(64, 156, 512, 28), (64, 128, 10, 1)],
    "wide_and_deep": [(256, 429, 256, 1), (256, 256, 128, 1), (256, 128, 1, 1)],
    "loop": [(128, 128, 128, 100)],
    "branches": [(768, 768, 768, 4)],
}


def open_case(numpy: ModuleType, case, options):
    """The products of a case: (function that computes them, close)."""
    random = numpy.random.RandomState(0)
    work = []
    for rows, inner, columns, count in PRODUCTS[options.get("plain") or options["kind"]]:
        a = random.standard_normal((rows, inner)).astype(numpy.float32)
        b = random.standard_normal((inner, columns)).astype(numpy.float32)
        c = random.standard_normal((rows, columns)).astype(numpy.float32)
        work.append((a, b, count))
        if options.get("training"):  # the gradients by both factors
            work += [(c, b.T, count), (a.T, c, count)]

    def step():
        for a, b, count in work:
            for _ in range(count):
                numpy.matmul(a, b)

    return step, lambda: None
