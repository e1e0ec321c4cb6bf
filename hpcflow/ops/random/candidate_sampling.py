"""Op types that draw candidate classes, for losses over very many classes."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import show, with_rank


def _sampled_shapes(op: Operation) -> list[Dims]:
    dims = with_rank(op.input_dims(0), 2, "true_classes")
    count = op.get_attr("num_true")
    if dims[1] not in (None, count):
        raise ValueError(f"true_classes must have num_true = {count} columns, got {show(dims)}")
    sampled = (op.get_attr("num_sampled"),)
    return [sampled, (dims[0], count), sampled]


def _hit_shapes(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 2, "true_classes")
    with_rank(op.input_dims(1), 1, "sampled_candidates")
    return [(None,)] * 3


_OUTPUTS = "sampled_candidates: int64; true_expected_count: float; sampled_expected_count: float"
_COMMON = "num_true: int >= 1; num_sampled: int >= 1; unique: bool"
_SEEDS = "seed: int = 0; seed2: int = 0"
_UNIGRAMS = ("vocab_file: string = ''; distortion: float = 1.0; num_reserved_ids: int = 0; "
             "num_shards: int >= 1 = 1; shard: int = 0; unigrams: list(float) = []")

register_op("AllCandidateSampler", "true_classes: int64", _OUTPUTS, f"{_COMMON}; {_SEEDS}",
            stateful=True, shape=_sampled_shapes)
for _kind in ("Uniform", "LogUniform", "LearnedUnigram", "ThreadUnsafeUnigram"):
    register_op(f"{_kind}CandidateSampler", "true_classes: int64", _OUTPUTS,
                f"{_COMMON}; range_max: int >= 1; {_SEEDS}", stateful=True, shape=_sampled_shapes)
register_op("FixedUnigramCandidateSampler", "true_classes: int64", _OUTPUTS,
            f"{_COMMON}; range_max: int >= 1; {_UNIGRAMS}; {_SEEDS}", stateful=True,
            shape=_sampled_shapes)
register_op("ComputeAccidentalHits", "true_classes: int64; sampled_candidates: int64",
            "indices: int32; ids: int64; weights: float", f"num_true: int; {_SEEDS}",
            shape=_hit_shapes)
not_differentiable("AllCandidateSampler", "UniformCandidateSampler", "LogUniformCandidateSampler",
                   "LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler",
                   "FixedUnigramCandidateSampler", "ComputeAccidentalHits")
