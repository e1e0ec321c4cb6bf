"""A new op from outside the package: signature, shape function, kernel, gradient, builder.

``Smoothstep`` is 3x^2 - 2x^3 on [0, 1], constant outside.
"""

import numpy as np

import hpcflow as hf
from hpcflow.extending import RegisterGradient, kernel, raw_ops, register_op, unchanged

# Nothing but the signature and what follows from it: the output has the shape of the input.
register_op("Smoothstep", "x: T", "y: T", "T: {half, float, double}", shape=unchanged)


@kernel("Smoothstep", fresh=True)
def _smoothstep(node):
    xp = node.xp  # numpy, or the array module of the device

    def run(x):
        t = xp.clip(x, 0, 1)
        return t * t * (3 - 2 * t)

    return run


@RegisterGradient("Smoothstep")
def _smoothstep_grad(op, grad):
    x = hf.clip_by_value(op.inputs[0], 0.0, 1.0)
    return grad * 6.0 * x * (1.0 - x)


def smoothstep(x, name=None):
    """3x^2 - 2x^3 on [0, 1], 0 below, 1 above; of the shape and dtype of `x`."""
    return raw_ops.Smoothstep(x, name=name)


def main():
    x = hf.constant(np.linspace(-0.5, 1.5, 9), hf.float32)
    y = smoothstep(x)
    with hf.Session() as session:
        print("value   ", session.run(y))
        print("gradient", session.run(hf.gradients(y, x)[0]))


if __name__ == "__main__":
    main()
