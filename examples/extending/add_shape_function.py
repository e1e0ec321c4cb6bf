"""A shape function of one's own: what is known of the output, from what is known of the inputs.

``Outer`` multiplies every element of a vector by every element of another.
"""

import numpy as np

import hpcflow as hf
from hpcflow.extending import RegisterGradient, invalid, kernel, raw_ops, register_op, with_rank


def _outer_shape(op):
    """[m] and [n] give [m, n]; None stands for what is not known yet."""
    (m,), (n,) = with_rank(op.input_dims(0), 1), with_rank(op.input_dims(1), 1)
    return [(m, n)]


register_op("Outer", "a: T; b: T", "product: T", "T: {float, double}", shape=_outer_shape)


@kernel("Outer", fresh=True)
def _outer(node):
    xp = node.xp

    def run(a, b):
        # Shapes that the graph does not know are checked in the step.
        if a.ndim != 1 or b.ndim != 1:
            raise invalid(f"expected two vectors, got {list(a.shape)} and {list(b.shape)}")
        return xp.multiply(a[:, None], b[None])

    return run


@RegisterGradient("Outer")
def _outer_grad(op, grad):
    a, b = op.inputs
    return hf.reduce_sum(grad * b, 1), hf.reduce_sum(grad * a[:, None], 0)


def outer(a, b, name=None):
    """``a[i] * b[j]`` as a matrix; ValueError unless both are vectors."""
    return raw_ops.Outer(a, b, name=name)


def main():
    a, b = hf.placeholder(hf.float32, [None]), hf.constant([1.0, 2.0])
    product = outer(a, b)
    print("static shape", product.shape)
    with hf.Session() as session:
        print(session.run(product, {a: np.float32([1, 10, 100])}))
    try:
        outer(hf.zeros([2, 2]), b)
    except ValueError as error:
        print("refused:", str(error).splitlines()[0])


if __name__ == "__main__":
    main()
