"""Small graphs made by public functions: the nodes must have the names, types and inputs that the
reference gives them, because users refer to tensors by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BUILDERS: dict[str, Callable] = {}


def _x(tf: Any, *shape: int, name: str = "x", dtype: str = "float32") -> Any:
    return tf.placeholder(tf.as_dtype(dtype), shape or [2, 3], name=name)


def _of_one(function: str, *args: Any, **options: Any) -> Callable:
    return lambda tf: _find(tf, function)(_x(tf), *args, **options)


def _of_two(function: str) -> Callable:
    return lambda tf: _find(tf, function)(_x(tf), _x(tf, name="y"))


def _find(tf: Any, path: str) -> Callable:
    for part in path.split("."):
        tf = getattr(tf, part)
    return tf  # type: ignore[return-value]


for _name in ("abs", "negative", "sign", "square", "sqrt", "rsqrt", "exp", "log", "log1p", "expm1",
              "sin", "cos", "tan", "asin", "acos", "atan", "tanh", "sigmoid", "lgamma", "digamma",
              "erf", "erfc", "ceil", "floor", "rint", "round", "is_nan", "is_inf", "is_finite",
              "identity", "shape", "size", "rank", "zeros_like", "ones_like", "stop_gradient",
              "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "argmax",
              "reduce_logsumexp", "transpose", "to_int32", "to_double", "matrix_diag", "unstack",
              "cumsum", "cumprod", "nn.relu", "nn.relu6", "nn.elu",
              "nn.softplus", "nn.softsign", "nn.softmax", "nn.log_softmax", "nn.l2_loss",
              "nn.zero_fraction", "nn.crelu"):
    BUILDERS[_name] = _of_one(_name)
for _name in ("add", "subtract", "multiply", "divide", "div", "truediv", "floordiv", "mod",
              "maximum", "minimum", "pow", "squared_difference", "equal", "not_equal", "less",
              "less_equal", "greater", "greater_equal"):
    BUILDERS[_name] = _of_two(_name)

BUILDERS |= {
    "operators": lambda tf: [_x(tf) + 1.0, 2.0 * _x(tf), -_x(tf), _x(tf) / 3.0, _x(tf) - _x(tf),
                             abs(_x(tf)), _x(tf) ** 2.0, 1.0 - _x(tf), _x(tf) > 0.0, _x(tf) % 2.0,
                             _x(tf) // 2.0],
    "indexing": lambda tf: [_x(tf)[0], _x(tf)[:, 1:], _x(tf)[..., None], _x(tf)[-1, ::2]],
    "constant": lambda tf: [tf.constant(3.0), tf.constant([1, 2], name="c"), tf.zeros([2, 2]),
                            tf.ones([3], tf.int32), tf.fill([2], 7.0), tf.range(5)],
    "names": lambda tf: [tf.constant(1.0, name="a"), tf.constant(1.0, name="a"),
                         tf.constant(1.0, name="a_1"), tf.constant(1.0, name="a")],
    "scopes": lambda tf: [_scoped(tf, "s"), _scoped(tf, "s"), _scoped(tf, "t/u")],
    "keep": lambda tf: [tf.reduce_sum(_x(tf), 1, keep_dims=True), tf.reduce_mean(_x(tf), [0, 1])],
    "cast": lambda tf: [tf.cast(_x(tf), tf.int32), tf.cast(_x(tf), tf.float32),
                        tf.saturate_cast(_x(tf), tf.uint8)],
    "matmul": lambda tf: tf.matmul(_x(tf), _x(tf, 3, 4, name="y")),
    "matmul3": lambda tf: tf.matmul(_x(tf, 2, 2, 3), _x(tf, 2, 3, 4, name="y")),
    "concat": lambda tf: [tf.concat([_x(tf), _x(tf)], 1), tf.stack([_x(tf), _x(tf)]),
                          tf.split(_x(tf), 3, 1)],
    "shapes": lambda tf: [tf.reshape(_x(tf), [-1]), tf.expand_dims(_x(tf), 0),
                          tf.squeeze(_x(tf, 1, 3)), tf.tile(_x(tf), [1, 2]),
                          tf.pad(_x(tf), [[1, 0], [0, 1]]), tf.slice(_x(tf), [0, 1], [1, 1]),
                          tf.shape(tf.placeholder(tf.float32))],
    "gather": lambda tf: [tf.gather_nd(_x(tf), [[0, 1]]), tf.one_hot(np.int64([0, 2]), 3)],
    "select": lambda tf: [tf.where(_x(tf) > 0, _x(tf), _x(tf)), tf.where(_x(tf) > 0)],
    "segments": lambda tf: [tf.segment_sum(_x(tf), [0, 0]),
                            tf.unsorted_segment_sum(_x(tf), [0, 1], 2)],
    "add_n": lambda tf: [tf.add_n([_x(tf), _x(tf)]), tf.add_n([_x(tf)]),
                         tf.accumulate_n([_x(tf), _x(tf)])],
    "clip": lambda tf: [tf.clip_by_value(_x(tf), -1.0, 1.0), tf.clip_by_norm(_x(tf), 2.0),
                        tf.clip_by_global_norm([_x(tf), _x(tf)], 1.0)[0], tf.global_norm([_x(tf)])],
    "random": lambda tf: [tf.random_normal([2]), tf.random_uniform([2], 1, 3),
                          tf.truncated_normal([2]), tf.random_shuffle(_x(tf)),
                          tf.random_uniform([2], 0, 9, tf.int32)],
    "losses": lambda tf: [
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=_x(tf), labels=[0, 2]),
        tf.nn.sigmoid_cross_entropy_with_logits(logits=_x(tf), labels=_x(tf, name="y"))],
    "bias": lambda tf: [tf.nn.bias_add(_x(tf), [1.0, 2.0, 3.0]),
                        tf.nn.xw_plus_b(_x(tf), _x(tf, 3, 2), [1.0, 2.0])],
    "top_k": lambda tf: tf.nn.top_k(_x(tf), 2),
    "batch_norm": lambda tf: tf.nn.batch_normalization(
        _x(tf), _x(tf, 3, name="m"), _x(tf, 3, name="v"), 0.5, 2.0, 1e-3),
    "l2_normalize": lambda tf: tf.nn.l2_normalize(_x(tf), 1),
    "dropout": lambda tf: tf.nn.dropout(_x(tf), 0.5),
    "embedding": lambda tf: tf.nn.embedding_lookup(_x(tf, 5, 3), [0, 1]),
    "variable": lambda tf: _variables(tf),
    "get_variable": lambda tf: _get_variables(tf),
    "group": lambda tf: [tf.group(_x(tf), _x(tf)), tf.tuple([_x(tf), _x(tf)]), tf.no_op()],
    "queue": lambda tf: _queue(tf),
    "gradients": lambda tf: _gradients(tf),
    "cond": lambda tf: tf.cond(_x(tf)[0, 0] > 0, lambda: tf.constant(1.0),
                               lambda: tf.constant(2.0)),
    "while_loop": lambda tf: tf.while_loop(lambda i: i < 5, lambda i: i + 1, [0]),
    "print": lambda tf: tf.check_numerics(_x(tf), "message"),
    "decay": lambda tf: tf.train.exponential_decay(0.1, _x(tf, name="step")[0, 0], 10, 0.9),
}  # fmt: skip

for _optimizer, _arguments in (("GradientDescent", (0.1,)), ("Momentum", (0.1, 0.9)),
                               ("Adagrad", (0.1,)), ("Adam", (0.1,)), ("RMSProp", (0.1,)),
                               ("Ftrl", (0.1,)), ("Adadelta", (0.1,))):
    BUILDERS["train." + _optimizer] = lambda tf, n=_optimizer, a=_arguments: _train(tf, n, a)


# The reference builds these from other ops than 1.0 did, or ours from fewer: only what is returned
# is compared, the names outside of scopes, and those of variables and their updates.
CHANGED = {"ones_like", "reduce_logsumexp", "matrix_diag", "nn.zero_fraction", "cast", "clip",
           "losses", "batch_norm", "dropout", "embedding", "gradients", "cond", "decay",
           *[n for n in BUILDERS if n.startswith("train.")]}  # fmt: skip

# What 1.0 returned where the reference has changed the name.
RETURNED = {"matrix_diag": "MatrixDiag:0", "dropout": "dropout/mul:0",
            "embedding": "embedding_lookup:0"}  # fmt: skip


def _scoped(tf: Any, scope: str) -> list:
    with tf.name_scope(scope):
        return [tf.constant(1.0, name="a"), _x(tf) + 1.0]


def _gradients(tf: Any) -> list:
    x, w = _x(tf), _x(tf, 3, 2, name="w")
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + 1.0))
    return tf.gradients(loss, [w, x])


def _variables(tf: Any) -> list:
    v = tf.Variable(np.ones((2, 2), np.float32), name="v")
    w = tf.Variable(tf.truncated_normal([2, 2], stddev=0.1))
    return [v, w, tf.assign(v, w), tf.assign_add(v, w), v + 1.0, tf.scatter_add(v, [0], [[1., 2.]]),
            tf.global_variables_initializer(), tf.matmul(v, w)]


def _get_variables(tf: Any) -> list:
    with tf.variable_scope("layer"):
        w = tf.get_variable("w", [3, 2])
        b = tf.get_variable("b", [2], initializer=tf.constant_initializer(0.5))
    with tf.variable_scope("layer", reuse=True):
        again = tf.get_variable("w", [3, 2])
    return [tf.nn.relu(tf.matmul(_x(tf), w) + b), again]


def _queue(tf: Any) -> list:
    queue = tf.FIFOQueue(5, [tf.float32, tf.int32], [[2], []], name="q")
    return [queue.enqueue([[1.0, 2.0], 3]), queue.enqueue_many([[[1.0, 2.0]], [3]]),
            queue.dequeue(), queue.dequeue_many(2), queue.size(), queue.close()]


def _train(tf: Any, name: str, arguments: tuple) -> Any:
    w = tf.Variable(np.ones((3, 2), np.float32), name="w")
    b = tf.Variable(np.zeros(2, np.float32), name="b")
    step = tf.Variable(0, trainable=False, name="global_step")
    loss = tf.reduce_mean(tf.square(tf.nn.bias_add(tf.matmul(_x(tf), w), b)))
    optimizer = getattr(tf.train, name + "Optimizer")(*arguments)
    return optimizer.minimize(loss, global_step=step)


def build(tf: Any, name: str) -> tuple[Any, bytes]:
    """The names of what `name` returns (or the error), and its GraphDef, serialized."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        try:
            result = BUILDERS[name](tf)
        except Exception as error:  # noqa: BLE001 - an outcome like others
            return {"error": f"{type(error).__name__}: {error}"[:300]}, b""
        return _names(result), graph.as_graph_def().SerializeToString()


def _names(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [_names(r) for r in result]
    return getattr(result, "name", None)
