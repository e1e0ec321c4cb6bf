"""A kernel compiled by Numba: a recurrence that no array function computes.

``Decaying`` is y[i] = x[i] + rate * y[i - 1].
"""

import numpy as np

import hpcflow as hf
from hpcflow.extending import RegisterGradient, kernel, raw_ops, register_op, unchanged

register_op("Decaying", "x: T", "y: T", "T: {float, double}; rate: float", shape=unchanged)


def compile_recurrence():
    """The machine code; made when the first step with the op is compiled, then kept."""
    import numba

    @numba.njit(nogil=True)
    def recurrence(x, rate, y):
        last = 0.0
        for i in range(x.size):
            last = x[i] + rate * last
            y[i] = last

    return recurrence


@kernel("Decaying", device="CPU", fresh=True)
def _decaying(node):
    recurrence, rate = compile_recurrence(), node.attr("rate")

    def run(x):
        x = np.ascontiguousarray(x)
        y = np.empty_like(x)
        recurrence(x.reshape(-1), rate, y.reshape(-1))
        return y

    return run


@RegisterGradient("Decaying")
def _decaying_grad(op, grad):
    """The same recurrence from the other end."""
    backwards = hf.reverse(hf.reshape(grad, [-1]), [0])
    found = hf.reverse(raw_ops.Decaying(backwards, rate=op.get_attr("rate")), [0])
    return hf.reshape(found, hf.shape(op.inputs[0]))


def main():
    x = hf.constant([1.0, 0.0, 0.0, 8.0])
    y = raw_ops.Decaying(x, rate=0.5)
    with hf.Session() as session:
        print("value   ", session.run(y))
        print("gradient", session.run(hf.gradients(y, x)[0]))


if __name__ == "__main__":
    main()
