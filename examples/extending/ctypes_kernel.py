"""A kernel in a C library, called through ctypes; the library here is the C library's own ``erf``.

Replace ``math_library()`` by ``ctypes.CDLL("./libmine.so")`` for a library of one's own.
"""

import ctypes
import ctypes.util

import numpy as np

import hpcflow as hf
from hpcflow.extending import kernel, not_differentiable, raw_ops, register_op, unchanged

register_op("CErf", "x: double", "y: double", shape=unchanged)
not_differentiable("CErf")


def math_library():
    """The C library of mathematics."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.erf.argtypes, library.erf.restype = [ctypes.c_double], ctypes.c_double
    return library


@kernel("CErf", device="CPU", fresh=True)
def _c_erf(node):
    erf = math_library().erf  # found once, when a step is compiled

    def run(x):
        # Inputs are read-only and may lie anywhere in memory; the output is new.
        return np.array([erf(v) for v in np.ravel(x)], np.float64).reshape(np.shape(x))

    return run


def main():
    y = raw_ops.CErf(hf.constant([0.0, 0.5, 1.0, np.inf], hf.float64))
    with hf.Session() as session:
        print(session.run(y))


if __name__ == "__main__":
    main()
