"""``hpcflow.contrib.legacy_seq2seq``: sequence to sequence networks unrolled in the graph."""

from hpcflow.contrib.legacy_seq2seq.attention import (
    attention_decoder,
    embedding_attention_decoder,
    embedding_attention_seq2seq,
)
from hpcflow.contrib.legacy_seq2seq.decoders import (
    basic_rnn_seq2seq,
    embedding_rnn_decoder,
    embedding_rnn_seq2seq,
    embedding_tied_rnn_seq2seq,
    one2many_rnn_seq2seq,
    rnn_decoder,
    tied_rnn_seq2seq,
)
from hpcflow.contrib.legacy_seq2seq.losses import (
    model_with_buckets,
    sequence_loss,
    sequence_loss_by_example,
)
