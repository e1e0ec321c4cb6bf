"""Op types that train word vectors: skip-grams of a text, updates by negative sampling."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import merge_dim, merge_dims, with_rank


def _skipgram_shape(op: Operation) -> list[Dims]:
    batch = (op.attr("batch_size"),)
    return [(None,), (None,), (), (), (), batch, batch]


def _train_shape(op: Operation) -> list[Dims]:
    merge_dims(with_rank(op.input_dims(0), 2, "w_in"), with_rank(op.input_dims(1), 2, "w_out"))
    examples = with_rank(op.input_dims(2), 1, "examples")
    merge_dim(examples[0], with_rank(op.input_dims(3), 1, "labels")[0])
    with_rank(op.input_dims(4), 0, "lr")
    return []


register_op("Skipgram", "",
            "vocab_word: string; vocab_freq: int32; words_per_epoch: int64; "
            "current_epoch: int32; total_words_processed: int64; examples: int32; labels: int32",
            "filename: string; batch_size: int; window_size: int = 5; min_count: int = 5; "
            "subsample: float = 0.001", shape=_skipgram_shape, stateful=True,
            deprecated="of an example of 1.x; programs make their pairs themselves")
register_op("NegTrain",
            "w_in: Ref(float); w_out: Ref(float); examples: int32; labels: int32; lr: float", "",
            "vocab_count: list(int); num_negative_samples: int", shape=_train_shape,
            stateful=True, deprecated="nn.nce_loss takes its place")
not_differentiable("Skipgram", "NegTrain")
