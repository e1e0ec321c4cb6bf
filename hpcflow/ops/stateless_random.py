"""Random op types without state: their numbers follow from seeds, or a key and a counter, alone."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import constant_value_as_dims, merge_dim, scalar, with_rank
from hpcflow.ops.type_sets import INDEX

__all__: list[str] = []

_FLOATS = "{half, bfloat16, float, double}"
_SEED = f"Tseed: {INDEX} = int64"


def _seeded_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "shape")
    merge_dim(with_rank(op.input_dims(1), 1, "seed")[0], 2)
    return [constant_value_as_dims(op.inputs[0])]


def _keyed_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "shape")
    merge_dim(with_rank(op.input_dims(1), 1, "key")[0], 1)
    with_rank(op.input_dims(2), 1, "counter")
    with_rank(op.input_dims(3), 0, "alg")
    return [constant_value_as_dims(op.inputs[0])]


def _key_shapes(op: Operation) -> list[Dims]:
    merge_dim(with_rank(op.input_dims(0), 1, "seed")[0], 2)
    found: list[Dims] = [(1,), (2,), ()]
    return found[: len(op.outputs)]


_BOUNDS = "minval: dtype; maxval: dtype"
_KEY = "key: uint64; counter: uint64; alg: int32"
for _name, _bounds, _old, _new in (
        ("RandomUniform", "", f"{_FLOATS} = float", f"{_FLOATS} = float"),
        ("RandomNormal", "", f"{_FLOATS} = float", f"{_FLOATS} = float"),
        ("TruncatedNormal", "", f"{_FLOATS} = float", f"{_FLOATS} = float"),
        ("RandomUniformInt", f"; {_BOUNDS}", INDEX, "{int32, int64, uint32, uint64}"),
        ("RandomUniformFullInt", "", "{int32, int64, uint32, uint64} = uint64",
         "{int32, int64, uint32, uint64} = uint64")):
    register_op(f"Stateless{_name}", f"shape: T; seed: Tseed{_bounds}", "output: dtype",
                f"dtype: {_old}; T: {INDEX} = int32; Tseed: {{int32, int64, uint32, uint64}} = "
                "int64", shape=_seeded_shape)
    register_op(f"Stateless{_name}V2", f"shape: Tshape; {_KEY}{_bounds}", "output: dtype",
                f"dtype: {_new}; Tshape: {INDEX} = int32", shape=_keyed_shape)
    not_differentiable(f"Stateless{_name}", f"Stateless{_name}V2")
register_op("StatelessRandomGetKeyCounter", "seed: Tseed", "key: uint64; counter: uint64", _SEED,
            shape=_key_shapes)
register_op("StatelessRandomGetKeyCounterAlg", "seed: Tseed",
            "key: uint64; counter: uint64; alg: int32", _SEED, shape=_key_shapes)
register_op("StatelessRandomGetAlg", outputs="alg: int32", stateful=True, shape=scalar)
not_differentiable("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg",
                   "StatelessRandomGetAlg")
