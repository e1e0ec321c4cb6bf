"""``hpcflow.contrib.seq2seq``: decoders in a loop over time, attention, losses of sequences."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.seq2seq.attention import (
    AttentionMechanism,
    BahdanauAttention,
    BaseAttentionMechanism,
    LuongAttention,
)
from hpcflow.contrib.seq2seq.attention_wrapper import AttentionWrapper, AttentionWrapperState
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
from hpcflow.contrib.seq2seq.monotonic import (
    BahdanauMonotonicAttention,
    LuongMonotonicAttention,
    monotonic_attention,
    safe_cumprod,
)
from hpcflow.contrib.seq2seq.scheduled import (
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
)

__all__ = [
    "AttentionMechanism", "AttentionWrapper", "AttentionWrapperState", "BahdanauAttention",
    "BahdanauMonotonicAttention", "BaseAttentionMechanism", "BasicDecoder", "BasicDecoderOutput",
    "BeamSearchDecoder", "BeamSearchDecoderOutput", "BeamSearchDecoderState", "CustomHelper",
    "Decoder", "FinalBeamSearchDecoderOutput", "GreedyEmbeddingHelper", "Helper",
    "InferenceHelper", "LuongAttention", "LuongMonotonicAttention", "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper", "ScheduledOutputTrainingHelper", "TrainingHelper",
    "dynamic_decode", "gather_tree", "hardmax", "monotonic_attention", "safe_cumprod",
    "sequence_loss", "tile_batch",
]  # fmt: skip

__getattr__ = named_otherwise(__name__)
