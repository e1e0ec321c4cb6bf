"""``keras.backend``: sessions, variables, and functions of tensors that programs use directly."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.dtypes import DTypeLike
from hpcflow.keras.activations import (  # noqa: F401
    elu,
    hard_sigmoid,
    relu,
    softmax,
    softplus,
    softsign,
)
from hpcflow.keras.backend_images import (  # noqa: F401
    batch_normalization,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    normalize_batch_in_training,
    pool2d,
    pool3d,
    resize_volumes,
    separable_conv2d,
    spatial_2d_padding,
    spatial_3d_padding,
)
from hpcflow.keras.backend_losses import (  # noqa: F401
    binary_crossentropy,
    categorical_crossentropy,
    ctc_batch_cost,
    ctc_decode,
    ctc_label_dense_to_sparse,
    sparse_categorical_crossentropy,
)
from hpcflow.keras.backend_random import (  # noqa: F401
    random_binomial,
    random_normal,
    random_normal_variable,
    random_uniform,
    random_uniform_variable,
    truncated_normal,
)
from hpcflow.keras.backend_rnn import local_conv, local_conv1d, local_conv2d, rnn  # noqa: F401
from hpcflow.keras.session import (  # noqa: F401
    batch_get_value,
    batch_set_value,
    clear_session,
    function,
    get_graph,
    get_session,
    get_uid,
    get_value,
    learning_phase,
    learning_phase_scope,
    reset_uids,
    set_learning_phase,
    set_value,
    symbolic_learning_phase,
)
from hpcflow.keras.settings import (  # noqa: F401
    backend,
    cast_to_floatx,
    epsilon,
    floatx,
    image_data_format,
    set_epsilon,
    set_floatx,
    set_image_data_format,
)
from hpcflow.shapes import ShapeLike
from hpcflow.train.shared_session import (  # noqa: F401
    manual_variable_initialization,
    set_session,
)

if TYPE_CHECKING:
    from hpcflow.graph.likes import AxisLike, BoolLike, Sizes, TensorHandle, TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.ops.state.variables import Variable

abs, exp, log, sqrt, square, sign, round = (
    hf.abs, hf.exp, hf.log, hf.sqrt, hf.square, hf.sign, hf.round)
sin, cos, tanh, sigmoid, maximum, minimum = (
    hf.sin, hf.cos, hf.tanh, hf.sigmoid, hf.maximum, hf.minimum)
equal, not_equal, less, less_equal = hf.equal, hf.not_equal, hf.less, hf.less_equal
greater, greater_equal, stop_gradient, transpose = (
    hf.greater, hf.greater_equal, hf.stop_gradient, hf.transpose)
reshape, identity, tile, control_dependencies, name_scope = (
    hf.reshape, hf.identity, hf.tile, hf.control_dependencies, hf.name_scope)
shape, stack, squeeze, gather = hf.shape, hf.stack, hf.squeeze, hf.gather
foldl, foldr, map_fn = hf.foldl, hf.foldr, hf.map_fn


# ---------------------------------------------------------------- tensors and variables


def variable(value: TensorLike, dtype: DTypeLike | None = None, name: str | None = None,
             constraint: Callable | None = None) -> Any:
    """Return a variable that begins with `value`."""
    dtype = dtype or floatx()
    return hf.Variable(hf.convert_to_tensor(np.asarray(value, hf.as_dtype(dtype).as_numpy_dtype)),
                       name=name or "Variable", constraint=constraint)


def constant(value: TensorLike, dtype: Any = None, shape: TensorLike | None = None,
             name: str | None = None) -> Any:
    """Return a constant of :func:`floatx`, or of another type."""
    return hf.constant(value, dtype or floatx(), shape, name or "Const")


def placeholder(shape: ShapeLike | None = None, ndim: int | None = None,
                dtype: DTypeLike | None = None, sparse: bool = False,
                name: str | None = None) -> Any:
    """Return a placeholder of a shape, or of a number of dimensions."""
    if shape is None and ndim:
        shape = [None] * ndim
    make = hf.sparse_placeholder if sparse else hf.placeholder
    return make(hf.as_dtype(dtype or floatx()), shape, name)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return a variable of zeros."""
    return variable(np.zeros(shape), dtype, name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return a variable of ones."""
    return variable(np.ones(shape), dtype, name)


def eye(size: int, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    """Return a variable that is a unit matrix."""
    return variable(np.eye(size), dtype, name)


def zeros_like(x: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    """Return zeros in the shape of `x`."""
    return hf.zeros_like(x, dtype=dtype, name=name)


def ones_like(x: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    """Return ones in the shape of `x`."""
    return hf.ones_like(x, dtype=dtype, name=name)


def is_keras_tensor(x: TensorLike) -> bool:
    """True if `x` is the output of a layer. ``ValueError`` if it is not a tensor."""
    if not isinstance(x, (hf.Tensor, hf.Variable, hf.SparseTensor)):
        raise ValueError(f"Unexpectedly found an instance of type `{type(x)}`. Expected a symbolic "
                         "tensor instance.")
    return hasattr(x, "_keras_history")


def is_placeholder(x: Any) -> bool:
    """True if `x` is a placeholder."""
    return isinstance(x, hf.Tensor) and x.op.type == "Placeholder"


def int_shape(x: Any) -> tuple | None:
    """Return the static shape as a tuple, None for sizes that are not known."""
    dims = x.get_shape()
    return None if dims.ndims is None else tuple(dims.as_list())


def ndim(x: Any) -> int | None:
    """Return the number of dimensions."""
    return x.get_shape().ndims


def dtype(x: Any) -> str:
    """Return the name of the element type."""
    return x.dtype.base_dtype.name


def count_params(x: Any) -> int:
    """Return the number of elements."""
    return int(np.prod(x.get_shape().as_list()))


def cast(x: TensorLike, dtype: DTypeLike) -> Any:
    """Return `x` with elements of another type."""
    return hf.cast(x, dtype)


def is_sparse(tensor: TensorLike) -> bool:
    """True if `tensor` is sparse."""
    return isinstance(tensor, hf.SparseTensor)


def to_dense(tensor: TensorLike) -> Any:
    """Return a dense tensor."""
    return hf.sparse_tensor_to_dense(tensor) if is_sparse(tensor) else tensor


def update(x: TensorLike, new_x: Any) -> Any:
    """Return an operation that assigns `new_x` to `x`."""
    return hf.assign(x, new_x)


def update_add(x: TensorLike, increment: Any) -> Any:
    """Return an operation that adds to `x`."""
    return hf.assign_add(x, increment)


def update_sub(x: TensorLike, decrement: Any) -> Any:
    """Return an operation that subtracts from `x`."""
    return hf.assign_sub(x, decrement)


def moving_average_update(x: Any, value: Any, momentum: float) -> Any:
    """Return an operation that moves `x` towards `value` by 1 - momentum of the way."""
    return hf.assign_sub(x, (x - value) * (1 - momentum))


def gradients(loss: TensorLike, variables: Sequence[Variable]) -> list:
    """Return the gradients of `loss`."""
    return hf.gradients(loss, variables)


def eval(x: Any) -> Any:
    """Return the value of a variable or tensor, computed in the session of the models."""
    return get_session().run(x)


def print_tensor(x: TensorLike, message: str = "") -> Any:
    """Return `x`, which is printed to the standard output whenever it is computed."""
    with hf.control_dependencies([hf.print(message, x, output_stream=sys.stdout)]):
        return hf.identity(x)


# ---------------------------------------------------------------- arithmetic


def dot(x: Any, y: Any) -> Any:
    """Return the product over the last dimension of `x` and the last but one of `y`."""
    x, y = hf.convert_to_tensor(x), hf.convert_to_tensor(y)
    if (x.shape.ndims or 2) <= 2 and (y.shape.ndims or 2) == 2:
        return hf.matmul(x, y)
    return hf.tensordot(x, y, [[x.shape.ndims - 1], [builtins.max(y.shape.ndims - 2, 0)]])


def batch_dot(x: TensorHandle, y: TensorHandle, axes: Sizes | None = None) -> Any:
    """Return the products of the examples of `x` and `y` over one axis of each.

    The results of vectors keep a dimension of size 1.
    """
    x_rank, y_rank = len(x.get_shape()), len(y.get_shape())
    if isinstance(axes, int):
        axes = (axes, axes)
    if axes is None:
        axes = (x_rank - 1, y_rank - 2) if y_rank > 2 else (x_rank - 1, y_rank - 1)
    a, b = (axis % rank for axis, rank in zip(axes, (x_rank, y_rank), strict=True))
    letters = "abcdefgh"
    of_x = ["z", *letters[:x_rank - 1]]
    of_y = ["z", *letters[x_rank - 1:x_rank + y_rank - 2]]
    of_y[b] = of_x[a]
    kept = [n for n in [*of_x, *of_y[1:]] if n != of_x[a]]
    result = hf.einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(kept)}", x, y)
    return hf.expand_dims(result, 1) if len(kept) == 1 else result


def _reduction(name: str) -> Callable:
    reduce = getattr(hf, f"reduce_{name}")

    def reduced(x: TensorLike, axis: AxisLike | None = None, keepdims: bool = False) -> Any:
        x = hf.convert_to_tensor(x)
        if x.dtype.base_dtype is hf.bool and name == "mean":
            x = hf.cast(x, floatx())
        return reduce(x, axis, keepdims=keepdims)

    reduced.__name__, reduced.__doc__ = name, f"As ``reduce_{name}``."
    return reduced


sum, mean, max, min, prod, any, all = map(
    _reduction, ("sum", "mean", "max", "min", "prod", "any", "all"))


def var(x: TensorLike, axis: AxisLike | None = None, keepdims: bool = False) -> Any:
    """Return the variance along `axis`."""
    return hf.reduce_mean(hf.square(x - hf.reduce_mean(x, axis, keepdims=True)), axis,
                          keepdims=keepdims)


def std(x: TensorLike, axis: AxisLike | None = None, keepdims: bool = False) -> Any:
    """Return the standard deviation along `axis`."""
    return hf.sqrt(var(x, axis, keepdims))


def argmax(x: TensorLike, axis: int = -1) -> Any:
    """Return the positions of the largest along `axis`."""
    return hf.argmax(x, axis)


def argmin(x: TensorLike, axis: int = -1) -> Any:
    """Return the positions of the smallest along `axis`."""
    return hf.argmin(x, axis)


def cumsum(x: TensorLike, axis: int = 0) -> Any:
    """Return the running sums along `axis`."""
    return hf.cumsum(x, axis)


def cumprod(x: TensorLike, axis: int = 0) -> Any:
    """Return the running products along `axis`."""
    return hf.cumprod(x, axis)


def pow(x: TensorLike, a: TensorLike) -> Any:
    """Return x to the power of a."""
    return hf.pow(x, a)


def clip(x: Tensor, min_value: Tensor, max_value: Tensor) -> Any:
    """Return `x` between two numbers."""
    return hf.clip_by_value(x, min_value, np.maximum(min_value, max_value)
                            if max_value is not None else np.inf)


def l2_normalize(x: TensorLike, axis: AxisLike | None = None) -> Any:
    """Return `x` over its norms along `axis`."""
    return hf.nn.l2_normalize(x, axis)


def dropout(x: TensorLike, level: float, noise_shape: ShapeLike | None = None,
            seed: int | None = None) -> Any:
    """Return `x` with a fraction of its elements set to 0, the others scaled."""
    return hf.nn.dropout(x, 1 - level, noise_shape, seed)


def in_top_k(predictions: TensorLike, targets: TensorLike, k: int) -> Any:
    """Return a boolean for each target: it is among the k largest predictions."""
    return hf.nn.in_top_k(predictions, targets, k)


# ---------------------------------------------------------------- shapes


def concatenate(tensors: list, axis: int = -1) -> Any:
    """Return the tensors joined along `axis`."""
    if axis < 0:
        axis %= ndim(tensors[0]) or 1
    return hf.concat([to_dense(t) for t in tensors], axis)


def expand_dims(x: TensorLike, axis: int = -1) -> Any:
    """Return `x` with another dimension of size 1."""
    return hf.expand_dims(x, axis)


def flatten(x: TensorHandle) -> Any:
    """Return the elements as a vector."""
    return hf.reshape(x, [-1])


def batch_flatten(x: TensorLike) -> Any:
    """Return a matrix with a row for each example."""
    return hf.reshape(x, hf.stack([-1, hf.reduce_prod(hf.shape(x)[1:])]))


def permute_dimensions(x: TensorLike, pattern: TensorLike) -> Any:
    """Return `x` with its dimensions in another order."""
    return hf.transpose(x, pattern)


def repeat(x: TensorLike, n: int) -> Any:
    """Return the rows of a matrix `n` times each, as a dimension of their own."""
    return hf.tile(hf.expand_dims(x, 1), [1, n, 1])


def repeat_elements(x: TensorLike, rep: int, axis: int) -> Any:
    """Return `x` with each of its entries along `axis` `rep` times."""
    result = hf.repeat(x, rep, axis)
    dims = int_shape(x)
    if dims is not None:
        axis %= len(dims)
        result.set_shape([d and d * rep if n == axis else d for n, d in enumerate(dims)])
    return result


def reverse(x: TensorLike, axes: AxisLike) -> Any:
    """Return `x` backwards along `axes`."""
    return hf.reverse(x, [axes] if isinstance(axes, int) else axes)


def arange(start: TensorLike, stop: Any = None, step: TensorLike = 1,
           dtype: DTypeLike = "int32") -> Any:
    """Return numbers from `start` to before `stop`."""
    if stop is None:
        start, stop = 0, start
    return hf.cast(hf.range(start, stop, step), dtype)


def one_hot(indices: TensorLike, num_classes: int) -> Any:
    """Return vectors with a one at each index."""
    return hf.one_hot(indices, num_classes)


def temporal_padding(x: Tensor, padding: str | Sequence[Any] = (1, 1)) -> Any:
    """Return `x` with zeros before and after dimension 1."""
    return hf.pad(x, [[0, 0], list(padding), [0, 0]])


def resize_images(x: TensorLike, height_factor: int, width_factor: int, data_format: str,
                  interpolation: str = "nearest") -> Any:
    """Return images that are larger by whole factors. ``ValueError`` for other names."""
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"Invalid `data_format` argument: {data_format}")
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError('interpolation should be one of "nearest" or "bilinear".')
    first = data_format == "channels_first"
    if first:
        x = hf.transpose(x, [0, 2, 3, 1])
    dims = int_shape(x)
    size = hf.shape(x)[1:3] * np.array([height_factor, width_factor], np.int32)
    resize = {"nearest": hf.raw_ops.ResizeNearestNeighbor,
              "bilinear": hf.raw_ops.ResizeBilinear}[interpolation]
    result = resize(x, size, half_pixel_centers=True)
    if dims is not None:
        result.set_shape([dims[0], dims[1] and dims[1] * height_factor,
                          dims[2] and dims[2] * width_factor, dims[3]])
    return hf.transpose(result, [0, 3, 1, 2]) if first else result


# ---------------------------------------------------------------- networks


def bias_add(x: TensorLike, bias: TensorLike, data_format: str | None = None) -> Any:
    """Return `x` plus a bias for each channel."""
    first = (data_format or image_data_format()) == "channels_first"
    if first and (ndim(x) or 0) > 2:
        return x + hf.reshape(bias, [1, -1] + [1] * ((ndim(x) or 2) - 2))
    return hf.nn.bias_add(x, bias)


def switch(condition: TensorLike, then_expression: Any, else_expression: Any) -> Any:
    """Return one of two values, or results of functions, for a condition or element by element."""
    condition = hf.cast(condition, hf.bool)
    of = [e if callable(e) else (lambda e=e: e) for e in (then_expression, else_expression)]
    if not ndim(condition):
        return hf.cond(condition, *of)
    yes, no = (hf.convert_to_tensor(f()) for f in of)
    extra = (ndim(yes) or 1) - (ndim(condition) or 1)
    if extra:
        condition = hf.reshape(condition, hf.concat([hf.shape(condition), [1] * extra], 0))
        condition = hf.logical_and(condition, hf.ones_like(yes, dtype=hf.bool))
    return hf.where(condition, yes, no)


def in_train_phase(x: TensorLike, alt: Any, training: BoolLike | None = None) -> Any:
    """Return `x` in training and `alt` otherwise; both may be functions."""
    of = [e if callable(e) else (lambda e=e: e) for e in (x, alt)]
    training = learning_phase() if training is None else training
    if isinstance(training, int):
        return of[0]() if training else of[1]()
    return hf.cond(hf.cast(training, hf.bool), *of)


def in_test_phase(x: TensorLike, alt: Any, training: BoolLike | None = None) -> Any:
    """Return `alt` in training and `x` otherwise."""
    return in_train_phase(alt, x, training)


__getattr__ = named_otherwise(__name__)
