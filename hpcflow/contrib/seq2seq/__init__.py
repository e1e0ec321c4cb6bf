"""``hpcflow.contrib.seq2seq``: decoders in a loop over time, attention, losses of sequences."""

from hpcflow.contrib.seq2seq.attention import (
    AttentionWrapper,
    AttentionWrapperState,
    BahdanauAttention,
    LuongAttention,
)
from hpcflow.contrib.seq2seq.beam_search import (
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    FinalBeamSearchDecoderOutput,
    gather_tree,
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
from hpcflow.contrib.seq2seq.inference import InferenceHelper, hardmax
from hpcflow.contrib.seq2seq.losses import sequence_loss
from hpcflow.contrib.seq2seq.scheduled import (
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
)

__all__ = [
    "AttentionWrapper", "AttentionWrapperState", "BahdanauAttention", "BasicDecoder",
    "BasicDecoderOutput", "BeamSearchDecoder", "BeamSearchDecoderOutput",
    "BeamSearchDecoderState", "CustomHelper", "Decoder", "FinalBeamSearchDecoderOutput",
    "GreedyEmbeddingHelper", "Helper", "InferenceHelper", "LuongAttention",
    "SampleEmbeddingHelper", "ScheduledEmbeddingTrainingHelper", "ScheduledOutputTrainingHelper",
    "TrainingHelper", "dynamic_decode", "gather_tree", "hardmax", "sequence_loss", "tile_batch",
]  # fmt: skip
