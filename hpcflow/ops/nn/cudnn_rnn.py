"""Recurrent networks of several layers as one op, with all parameters in one vector: CudnnRNN.

The parameters lie in the vector as cuDNN lays them out, the *canonical* ones are its matrices and
vectors: first the matrices of all layers, then the biases. For each layer, and for each direction
in it, matrices by which the gates see the input, and then those by which they see the state.
"""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, with_rank

_T = "T: {half, float, double}"
_KIND = ("rnn_mode: {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'} = 'lstm'; "
         "input_mode: {'linear_input', 'skip_input', 'auto_select'} = 'linear_input'; "
         "direction: {'unidirectional', 'bidirectional'} = 'unidirectional'; "
         "dropout: float = 0.0; seed: int = 0; seed2: int = 0")
_INPUTS = "input: T; input_h: T; input_c: T; params: T"
_OUTPUTS = "output: T; output_h: T; output_c: T"
_BACKPROPS = "output_backprop: T; output_h_backprop: T; output_c_backprop: T; reserve_space: T"
_BY_INPUTS = "input_backprop: T; input_h_backprop: T; input_c_backprop: T; params_backprop: T"
_TRAINING = "is_training: bool = true"
_LENGTHS = "sequence_lengths: int32"
_PROJECTED, _MAJOR = "num_proj: int = 0", "time_major: bool = true"
# Of each version: what else goes in, comes out, and is said of the network.
_VERSIONS = {"": ("", "", ""), "V2": ("", "; host_reserved: int8", ""),
             "V3": (f"; {_LENGTHS}", "; host_reserved: int8", f"; {_PROJECTED}; {_MAJOR}")}
_SAME = ("rnn_mode", "input_mode", "direction", "dropout", "seed", "seed2")


def _forward_shape(op: Operation) -> list[Dims]:
    x = with_rank(op.input_dims(0), 3, "input")
    h = with_rank(op.input_dims(1), 3, "input_h")
    rows = 1 if op.attr("time_major") in (None, True) else 0
    both = 2 if op.attr("direction") == b"bidirectional" else 1
    batch = merge_dim(x[rows], h[rows])
    out = (*x[:2], None if h[2] is None else both * h[2])
    out = (x[0], batch, out[2]) if rows else (batch, x[1], out[2])
    if op.attr("rnn_mode") != b"lstm":
        by_memory: Dims = ()
    else:
        by_memory = with_rank(op.input_dims(2), 3, "input_c")
    reserved: list[Dims] = [(None,)] * (len(op.op_def.outputs) - 3)
    return [out, h, by_memory, *reserved]


def _backward_shape(op: Operation) -> list[Dims]:
    return [op.input_dims(i) for i in range(4)]


for _version, (_more, _kept, _said) in _VERSIONS.items():
    register_op(f"CudnnRNN{_version}", _INPUTS + _more, f"{_OUTPUTS}; reserve_space: T{_kept}",
                f"{_T}; {_KIND}{_said}; {_TRAINING}", stateful=True, shape=_forward_shape)
    register_op(f"CudnnRNNBackprop{_version}",
                f"{_INPUTS}{_more}; {_OUTPUTS}; {_BACKPROPS}{_kept}", _BY_INPUTS,
                f"{_T}; {_KIND}{_said}", stateful=True, shape=_backward_shape)


@RegisterGradient("CudnnRNN")
@RegisterGradient("CudnnRNNV2")
@RegisterGradient("CudnnRNNV3")
def _rnn_grad(op: Operation, *grads: Any) -> tuple:
    """By input, first state and parameters; ``ValueError`` for an op that is not for training."""
    if not op.attr("is_training"):
        raise ValueError(f"the gradients of {op.type} need is_training=True, but {op.name} has "
                         "is_training=False")
    version = op.type.removeprefix("CudnnRNN")
    same = (*_SAME, *(("num_proj", "time_major") if version == "V3" else ()))
    found = getattr(raw_ops, f"CudnnRNNBackprop{version}")(
        *op.inputs, *op.outputs[:3], *grads[:3], *op.outputs[3:],
        **{name: op.attr(name) for name in same})
    return (*found, None) if version == "V3" else tuple(found)


# ---------------------------------------------------------------- parameters

_SIZES = "num_layers: int32; num_units: int32; input_size: int32"


def _vectors_shape(op: Operation) -> list[Dims]:
    """Matrices, and as many vectors or fewer; their sizes follow from values."""
    matrices = op.attr("num_params_weights") or op.attr("num_params")
    ranks: list[Dims] = [(None, None)] * matrices
    return ranks + [(None,)] * (len(op.outputs) - matrices)


def _params_shape(op: Operation) -> list[Dims]:
    """All elements of the canonical ones, unless some are left out."""
    total = 0
    for i in range(3, len(op.inputs)):
        dims = op.input_dims(i)
        if dims is None or None in dims or op.attr("input_mode") != b"linear_input":
            return [(None,)]
        count = 1
        for dim in dims:
            count *= dim  # type: ignore[operator]
        total += count
    return [(total,)]


register_op("CudnnRNNParamsSize", _SIZES, "params_size: S",
            f"{_T}; S: {{int32, int64}}; {_KIND}; {_PROJECTED}", shape=lambda op: [(1,)])
for _version, _counts, _said, _names in (
        ("", "num_params: int >= 1", "", ("num_params", "num_params")),
        ("V2", "num_params_weights: int >= 1; num_params_biases: int >= 1", f"; {_PROJECTED}",
         ("num_params_weights", "num_params_biases"))):
    _lists = "weights: {} * T; biases: {} * T".format(*_names)
    register_op(f"CudnnRNNParamsToCanonical{_version}", f"{_SIZES}; params: T", _lists,
                f"{_T}; {_counts}; {_KIND}{_said}", shape=_vectors_shape)
    register_op(f"CudnnRNNCanonicalToParams{_version}", f"{_SIZES}; {_lists}", "params: T",
                f"{_T}; {_counts}; {_KIND}{_said}", shape=_params_shape)


def _same_attrs(op: Operation) -> dict[str, Any]:
    return {name: op.attr(name) for name in (
        *_SAME, *(("num_proj",) if op.type.endswith("V2") else ()))}


@RegisterGradient("CudnnRNNParamsToCanonical")
@RegisterGradient("CudnnRNNParamsToCanonicalV2")
def _to_canonical_grad(op: Operation, *grads: Any) -> tuple:
    """By the vector."""
    count = op.attr("num_params_weights") or op.attr("num_params")
    build = getattr(raw_ops, op.type.replace("ParamsToCanonical", "CanonicalToParams"))
    sizes: tuple[Tensor, ...] = tuple(op.inputs[:3])
    return None, None, None, build(*sizes, list(grads[:count]), list(grads[count:]),
                                   **_same_attrs(op))


@RegisterGradient("CudnnRNNCanonicalToParams")
@RegisterGradient("CudnnRNNCanonicalToParamsV2")
def _to_params_grad(op: Operation, grad: Any) -> tuple:
    """By each matrix and vector."""
    build = getattr(raw_ops, op.type.replace("CanonicalToParams", "ParamsToCanonical"))
    counts = {name: op.attr(name) for name in (
        "num_params", "num_params_weights", "num_params_biases") if op.attr(name)}
    found = build(*op.inputs[:3], grad, **counts, **_same_attrs(op))
    parts = [*found[0], *found[1]]
    like = op.inputs[3:]
    return (None, None, None, *[raw_ops.Reshape(part, raw_ops.Shape(one))
                                for part, one in zip(parts, like, strict=True)])


not_differentiable("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3",
                   "CudnnRNNParamsSize")
