"""Element-wise ops and formulas of the 1.x graph API for `bench elementwise`; the same file runs in
hpcflow and a peer.

Inputs are variables, so that nothing is fed and nothing can be folded; a step fetches the results.
A case is given by its options: ``op`` is an op type (with ``dtype`` and ``size``), or ``formula``
names a function here.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

ROWS, COLUMNS, CLASSES = 4096, 512, 10

# Op type -> (names of its tensor inputs, lowest, highest value of each).
_UNARY = {
    **dict.fromkeys(("Abs", "Neg", "Square", "Sign", "Floor", "Ceil", "Round", "Rint", "Sin", "Cos",
                     "Tan", "Atan", "Tanh", "Sigmoid", "Exp", "Expm1", "Erf", "Erfc", "Sinh",
                     "Cosh", "Asinh", "IsNan", "IsInf", "IsFinite", "Inv", "Reciprocal"), (-4, 4)),
    **dict.fromkeys(("Sqrt", "Rsqrt", "Log", "Log1p", "Lgamma", "Digamma"), (0.01, 9)),
    **dict.fromkeys(("Asin", "Acos", "Atanh"), (-0.99, 0.99)),
    "Acosh": (1, 9),
}
_ACTIVATIONS = ("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "LeakyRelu")
_BINARY = ("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "Mod", "FloorMod",
           "FloorDiv", "Pow", "SquaredDifference", "Atan2", "DivNoNan", "MulNoNan", "Xdivy",
           "Xlogy", "Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual")
_BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")

SIGNATURES: dict[str, list] = {
    **{op: [("x", *limits)] for op, limits in _UNARY.items()},
    **{op: [("features", -4, 8)] for op in _ACTIVATIONS},
    **{op: [("x", 0.5, 4), ("y", 1, 4)] for op in _BINARY},
    **{op: [("x", 0, 9), ("y", 0, 9)] for op in _BITS},
    "TruncateDiv": [("x", 0, 9), ("y", 1, 9)],
    "TruncateMod": [("x", 0, 9), ("y", 1, 9)],
    "Invert": [("x", 0, 9)],
    "LogicalAnd": [("x", 0, 2), ("y", 0, 2)],
    "LogicalOr": [("x", 0, 2), ("y", 0, 2)],
    "LogicalNot": [("x", 0, 2)],
    **{op: [("y", 0.1, 0.9), ("dy", -1, 1)]
       for op in ("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad")},
    **{op: [("gradients", -1, 1), ("features", -4, 8)]
       for op in ("ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad")},
    **{op: [("gradients", -1, 1), ("outputs", -1, 4)] for op in ("EluGrad", "SeluGrad")},
}


def open_case(tf: ModuleType, case, options):
    """Build a case in a graph and session of its own: (function that runs one step, close)."""
    threads = options["threads"]
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    with tf.Graph().as_default() as graph:
        session = tf.Session(graph=graph, config=config)
        if "formula" in options:
            fetches = FORMULAS[options["formula"]](tf)
        else:
            fetches = single(tf, options["op"], options["dtype"], options["size"])
        session.run(tf.global_variables_initializer())
    return lambda: session.run(fetches), session.close


def uniform(dims, low, high, dtype: str = "float32", seed: int = 0):
    """Random numbers between two limits."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(dims) < 0.5
    return (low + (high - low) * random.random(dims)).astype(dtype)


def variable(tf: ModuleType, *arguments, **options):
    """A variable of random numbers; see `uniform`."""
    return tf.Variable(tf.constant(uniform(*arguments, **options)))


def single(tf: ModuleType, op, dtype, size: int):
    """One op over vectors."""
    if op in ("Cast", "Select", "SelectV2", "AddN"):
        return _special(tf, op, dtype, size)
    inputs = {}
    for seed, (name, low, high) in enumerate(SIGNATURES[op]):
        inputs[name] = tf.identity(variable(tf, [size], low, high, dtype, seed))
    return _built(getattr(tf.raw_ops, op), inputs)


def _built(build, inputs):
    """The first versions of some ops had other names for their inputs."""
    try:
        return build(**inputs)
    except TypeError:
        return build(*inputs.values())


def _special(tf: ModuleType, op, dtype, size: int):
    x, y, z = (tf.identity(variable(tf, [size], -4, 4, dtype, seed)) for seed in range(3))
    if op == "Cast":
        return tf.cast(x, "int32" if dtype == "float32" else "float32")
    if op == "AddN":
        return tf.add_n([x, y, z])
    condition = tf.identity(variable(tf, [size], 0, 1, "bool", 4))
    return _built(getattr(tf.raw_ops, op), {"condition": condition, "t": x, "e": y} if (
        op == "SelectV2") else {"condition": condition, "x": x, "y": y})


# ---------------------------------------------------------------- formulas


def _matrix(tf: ModuleType, low=-2.0, high: float = 2.0, seed: int = 0):
    return variable(tf, [ROWS, COLUMNS], low, high, seed=seed)


def _vector(tf: ModuleType, low: float = 0.5, high: float = 2.0, seed: int = 1):
    return variable(tf, [COLUMNS], low, high, seed=seed)


def layer_norm(tf: ModuleType):
    """Rows to mean 0 and variance 1, scaled and shifted."""
    x, gamma, beta = _matrix(tf), _vector(tf), _vector(tf, seed=2)
    centered = x - tf.reduce_mean(x, 1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), 1, keepdims=True)
    return centered * tf.rsqrt(variance + 1e-6) * gamma + beta


def batch_norm(tf: ModuleType):
    """The inference form, by moving averages of each channel."""
    x, mean, variance = _matrix(tf), _vector(tf), _vector(tf, seed=2)
    gamma, beta = _vector(tf, seed=3), _vector(tf, seed=4)
    return (x - mean) * tf.rsqrt(variance + 1e-3) * gamma + beta


def gelu(tf: ModuleType):
    """By the hyperbolic tangent."""
    x = _matrix(tf)
    return 0.5 * x * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def swish(tf: ModuleType):
    """With a bias before it."""
    x = _matrix(tf) + _vector(tf)
    return x * tf.sigmoid(x)


def leaky_relu(tf: ModuleType):
    """By a choice."""
    x = _matrix(tf) + _vector(tf)
    return tf.where(tf.greater(x, 0.0), x, 0.2 * x)


def huber_loss(tf: ModuleType):
    """Quadratic near zero, linear far from it; its mean."""
    error = tf.abs(_matrix(tf) - _matrix(tf, seed=3))
    quadratic = tf.minimum(error, 1.0)
    return tf.reduce_mean(0.5 * tf.square(quadratic) + (error - quadratic))


def log_loss(tf: ModuleType):
    """The mean cross entropy of probabilities."""
    p, y = _matrix(tf, 0.01, 0.99), _matrix(tf, 0.0, 1.0, seed=3)
    return tf.reduce_mean(-y * tf.log(p + 1e-7) - (1.0 - y) * tf.log(1.0 - p + 1e-7))


def masked_loss(tf: ModuleType):
    """The mean square where a label is positive."""
    x, y = _matrix(tf), _matrix(tf, seed=3)
    mask = tf.cast(tf.greater(y, 0.0), tf.float32)
    return tf.reduce_sum(tf.square(x - y) * mask) / tf.reduce_sum(mask)


def clip_by_value(tf: ModuleType):
    """Two sides at once."""
    return tf.minimum(tf.maximum(_matrix(tf) * 0.5, -0.5), 0.5)


def clip_by_global_norm(tf: ModuleType):
    """Four gradients by the norm of all of them."""
    gradients = [_matrix(tf, seed=seed) for seed in range(4)]
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(g)) for g in gradients]))
    scale = 5.0 / tf.maximum(norm, 5.0)
    return [g * scale for g in gradients]


def dropout(tf: ModuleType):
    """By a mask of given random numbers."""
    x, random = _matrix(tf), _matrix(tf, 0.0, 1.0, seed=3)
    return x / 0.9 * tf.floor(random + 0.9)


def softmax(tf: ModuleType):
    """Of rows."""
    x = _matrix(tf)
    e = tf.exp(x - tf.reduce_max(x, 1, keepdims=True))
    return e / tf.reduce_sum(e, 1, keepdims=True)


def adam(tf: ModuleType):
    """An update written out of plain ops."""
    var, m, v = _matrix(tf), _matrix(tf, seed=1), _matrix(tf, 0.0, 1.0, seed=2)
    grad = tf.identity(_matrix(tf, -1e-3, 1e-3, seed=3))
    new_m = tf.assign(m, 0.9 * m + 0.1 * grad)
    new_v = tf.assign(v, 0.999 * v + 0.001 * tf.square(grad))
    return tf.assign_sub(var, 1e-3 * new_m / (tf.sqrt(new_v) + 1e-8)).op


def standardize(tf: ModuleType):
    """Images of bytes to mean 0 and variance 1."""
    x = tf.cast(variable(tf, [32, 224, 224, 3], 0, 256, "uint8"), tf.float32)
    mean = variable(tf, [3], 100, 150)
    return (x - mean) / variable(tf, [3], 50, 60, seed=1)


FORMULAS = {f.__name__: f for f in (
    layer_norm, batch_norm, gelu, swish, leaky_relu, huber_loss, log_loss, masked_loss,
    clip_by_value, clip_by_global_norm, dropout, softmax, adam, standardize)}
