"""``hpcflow.contrib.seq2seq``: decoders in a loop over time, attention, losses of sequences.

Beam search is not there.
"""

from hpcflow.contrib.seq2seq.attention import (
    AttentionWrapper,
    AttentionWrapperState,
    BahdanauAttention,
    LuongAttention,
)
from hpcflow.contrib.seq2seq.decoding import (
    BasicDecoder,
    BasicDecoderOutput,
    Decoder,
    dynamic_decode,
    tile_batch,
)
from hpcflow.contrib.seq2seq.helpers import (
    CustomHelper,
    GreedyEmbeddingHelper,
    Helper,
    SampleEmbeddingHelper,
    TrainingHelper,
)
from hpcflow.contrib.seq2seq.losses import sequence_loss

__all__ = [
    "AttentionWrapper", "AttentionWrapperState", "BahdanauAttention", "BasicDecoder",
    "BasicDecoderOutput", "CustomHelper", "Decoder", "GreedyEmbeddingHelper", "Helper",
    "LuongAttention", "SampleEmbeddingHelper", "TrainingHelper", "dynamic_decode",
    "sequence_loss", "tile_batch",
]  # fmt: skip
