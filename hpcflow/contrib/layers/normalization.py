"""Normalization layers in their older form: of batches, of layers, to unit length."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes, layers
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.framework.variables import model_variable
from hpcflow.contrib.layers.building import (
    collect,
    format_of_layers,
    layer_variable,
    names_of,
    older_variables,
)
from hpcflow.contrib.layers.weighted_normalization import Moving, weighted_batch_norm
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    add_to_collection,
    control_dependencies,
    get_collection_ref,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import BoolLike, Collections, InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.building import known_size
from hpcflow.layers.normalization import dtype_of_statistics
from hpcflow.nn import normalization
from hpcflow.ops.arrays.shape_ops import reshape
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.initializers import Ones, Zeros
from hpcflow.ops.state.variable_scope import variable_scope

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope


@add_arg_scope
def batch_norm(inputs: TensorLike, decay: float = 0.999, center: bool = True, scale: bool = False,
               epsilon: float = 0.001, activation_fn: Callable | None = None,
               param_initializers: dict | None = None, param_regularizers: dict | None = None,
               updates_collections: Collections | None = GraphKeys.UPDATE_OPS,
               is_training: BoolLike = True, reuse: bool | None = None,
               variables_collections: Collections | None = None,
               outputs_collections: Collections | None = None, trainable: bool = True,
               batch_weights: Any = None, fused: bool | None = None, data_format: str = "NHWC",
               zero_debias_moving_mean: bool = False, scope: str | VariableScope | None = None,
               renorm: bool = False, renorm_clipping: dict | None = None,
               renorm_decay: float = 0.99, adjustment: Callable | None = None) -> Tensor:
    """Return gamma (inputs - mean) / √(variance + epsilon) + beta (arXiv:1502.03167).

    Args:
        inputs: any shape of known rank, the size of the channels known.
        decay: of the moving statistics.
        center, scale: whether there is a beta, and a gamma.
        epsilon: added to the variance.
        activation_fn: a function of the result, or None.
        param_initializers: of ``beta``, ``gamma``, ``moving_mean``, ``moving_variance``.
        param_regularizers: of ``beta`` and ``gamma``.
        batch_weights: how much each example counts in mean and variance, ``[batch]``.
        zero_debias_moving_mean: divide the moving mean by ``1 - decay**updates``.
        updates_collections: names of collections for the updates of the moving statistics; None to
            run them whenever the result is computed.
        is_training: a bool or a scalar bool tensor.
        fused, renorm, renorm_clipping, renorm_decay, adjustment: as of
            ``layers.batch_normalization``, where the decay is called momentum.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        scope: variable scope; "BatchNorm" made unique if None.

    The other arguments are those of ``convolution``. Raises ``ValueError`` for `batch_weights` or
    `zero_debias_moving_mean` with `renorm` or `adjustment`.
    """
    weighted = batch_weights is not None or zero_debias_moving_mean
    if weighted and (renorm or adjustment is not None):
        raise ValueError("batch_norm: batch_weights and zero_debias_moving_mean go with neither "
                         "renorm nor adjustment")
    inputs = convert_to_tensor(inputs)
    axis = 1 if format_of_layers(data_format) == "channels_first" else -1
    initial, regular = param_initializers or {}, param_regularizers or {}
    kept = get_collection_ref(GraphKeys.UPDATE_OPS)
    before = len(kept)
    # As in 1.x, vectors are images of one pixel: their moving variance is over n - 1, too.
    rows = inputs if (len(inputs._dims or ()) == 2 and fused is not False and batch_weights is None
                      and not renorm and adjustment is None) else None
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as entered:
        if rows is not None:
            channels = known_size(rows, -1, "batch_norm", 2)
            inputs = reshape(rows, [-1, 1, 1, channels] if axis == -1 else [-1, channels, 1, 1])
        if weighted:
            kinds = (["beta"] if center else []) + (["gamma"] if scale else [])
            outputs, made = _weighted(inputs, axis, kinds, initial, regular, variables_collections,
                                      trainable, decay, zero_debias_moving_mean, epsilon,
                                      is_training, batch_weights, fused)
            kept.extend(made)
        else:
            with older_variables(variables_collections) as name:
                outputs = layers.batch_normalization(
                    inputs, axis, decay, epsilon, center, scale, initial.get("beta", Zeros()),
                    initial.get("gamma", Ones()), initial.get("moving_mean", Zeros()),
                    initial.get("moving_variance", Ones()), regular.get("beta"),
                    regular.get("gamma"), is_training, trainable, name, None, renorm,
                    renorm_clipping, renorm_decay, fused, adjustment=adjustment)
        if rows is not None:
            outputs = reshape(outputs, raw_ops.Shape(rows))
            outputs.set_shape(rows.shape)
        updates = kept[before:]
        del kept[before:]
        outputs = _with_updates(outputs, updates, updates_collections)
        outputs = outputs if activation_fn is None else activation_fn(outputs)
        return collect(outputs_collections, entered, outputs)


def _with_updates(outputs: Tensor, updates: list, collections: Collections | None) -> Tensor:
    """Put the updates into the collections; without any, they run before what is returned."""
    for collection in names_of(collections, ""):
        for update in updates:
            add_to_collection(collection, update)
    if collections is not None or not updates:
        return outputs
    with control_dependencies(updates):
        return raw_ops.Identity(outputs)


def _weighted(inputs: Tensor, axis: int, kinds: list[str], initial: dict, regular: dict,
              collections: Collections | None, trainable: bool, decay: float, zero_debias: bool,
              epsilon: float, is_training: BoolLike, weights: Any,
              fused: bool | None) -> tuple[Tensor, list[Tensor]]:
    """The normalized inputs and the updates, with what the layer itself does not know.

    `kinds`: which of ``beta`` and ``gamma`` there are.
    """
    def variable(kind: str, trained: bool = False) -> Any:
        start = Ones() if kind in ("gamma", "moving_variance") else Zeros()
        return model_variable(kind, [inputs.shape.as_list()[axis]], dtype_of_statistics(inputs),
                              initial.get(kind, start), regular.get(kind), trained,
                              names_of(collections, kind))

    trained = {kind: variable(kind, trainable) for kind in kinds}
    moving = Moving(variable("moving_mean"), variable("moving_variance"), decay, zero_debias)
    with older_variables(collections):  # for what the moving mean keeps
        return weighted_batch_norm(inputs, axis, moving, trained.get("beta"),
                                   trained.get("gamma"), epsilon, is_training, weights, fused)


@add_arg_scope
def layer_norm(inputs: TensorLike, center: bool = True, scale: bool = True,
               activation_fn: Callable | None = None, reuse: bool | None = None,
               variables_collections: Collections | None = None,
               outputs_collections: Collections | None = None, trainable: bool = True,
               begin_norm_axis: int = 1, begin_params_axis: int = -1,
               scope: str | VariableScope | None = None) -> Tensor:
    """Return `inputs` normalized over all but the first dimensions (arXiv:1607.06450).

    Mean and variance are over the dimensions from `begin_norm_axis` on; ``beta`` and ``gamma`` have
    the dimensions from `begin_params_axis` on. The scope is "LayerNorm".
    """
    inputs = convert_to_tensor(inputs)
    dims = inputs._dims
    if dims is None:
        raise ValueError("layer_norm: the inputs have an undefined rank")
    if begin_params_axis >= len(dims) or begin_norm_axis >= len(dims):
        raise ValueError(f"begin_params_axis ({begin_params_axis}) and begin_norm_axis "
                         f"({begin_norm_axis}) must be < rank(inputs) ({len(dims)})")
    first = begin_norm_axis % len(dims)
    shape = list(dims[begin_params_axis % len(dims):])
    if None in shape:
        raise ValueError(f"layer_norm: shape {inputs.shape} is not fully defined from "
                         f"dimension {begin_params_axis} on")
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as entered:
        def parameter(name: str, initializer: InitializerLike) -> Tensor:
            return layer_variable(name, shape, inputs.dtype.base_dtype, initializer, None,
                                  variables_collections, trainable)

        beta = parameter("beta", Zeros()) if center else None
        gamma = parameter("gamma", Ones()) if scale else None
        mean, variance = normalization.moments(inputs, list(range(first, len(dims))),
                                               keep_dims=True)
        epsilon = 1e-3 if inputs.dtype.base_dtype is dtypes.float16 else 1e-12
        outputs = normalization.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        outputs = outputs if activation_fn is None else activation_fn(outputs)
        return collect(outputs_collections, entered, outputs)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Tensor:
    """Return `inputs` divided by their length along the dimension `dim`."""
    with name_scope(scope, "UnitNorm", [inputs]):
        inputs = convert_to_tensor(inputs)
        if inputs._dims is None or dim < 0 or dim >= len(inputs._dims):
            raise ValueError(f"dim must be in [0, rank), got {dim} for shape {inputs.shape}")
        squares = reduce_sum(raw_ops.Square(inputs), dim, True)
        small = np.array(epsilon, inputs.dtype.base_dtype.np)
        return raw_ops.RealDiv(inputs, raw_ops.Sqrt(raw_ops.Add(squares, small)))


def poincare_normalize(x: TensorLike, axis: Any = 1, epsilon: float = 1e-5,
                       name: str | None = None) -> Tensor:
    """Return `x`, scaled down where its length along one or several axes is above 1 - epsilon.

    The points then lie in the Poincaré ball (arXiv:1705.08039).
    """
    with name_scope(name, "poincare_normalize", [x]):
        x = convert_to_tensor(x)
        inverse: Any = raw_ops.Rsqrt(reduce_sum(raw_ops.Square(x), axis, True))
        kind = x.dtype.base_dtype.np
        return raw_ops.Mul(x, raw_ops.Minimum(inverse * np.array(1 - epsilon, kind),
                                              np.array(1, kind)))
