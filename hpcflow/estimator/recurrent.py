"""Estimators whose models are recurrent networks over sequence columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes, layers, summary
from hpcflow.estimator.base import Estimator
from hpcflow.estimator.canned import _DEEP_RATE, get_optimizer_instance
from hpcflow.estimator.heads import classification
from hpcflow.estimator.spec import EstimatorSpec
from hpcflow.feature_column import input_layer
from hpcflow.feature_column.sequence import concatenate_context_input, sequence_input_layer
from hpcflow.graph.likes import Identifier
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.losses import Reduction
from hpcflow.nn import rnn_cell as cells
from hpcflow.nn.rnn import dynamic_rnn
from hpcflow.ops.arrays.indexing import sequence_mask
from hpcflow.ops.state.initializers import glorot_uniform_initializer
from hpcflow.ops.state.variable_scope import variable_scope
from hpcflow.optimizers.global_step import get_global_step

if TYPE_CHECKING:
    from google.protobuf.message import Message

_CELLS: dict[str, Callable[[int], Any]] = {
    "basic_rnn": cells.BasicRNNCell, "lstm": cells.BasicLSTMCell, "gru": cells.GRUCell}


class RNNEstimator(Estimator):
    """A recurrent network over sequence columns, with a head of one's own.

    Args:
        head: what makes loss, predictions and metrics of the logits.
        sequence_feature_columns: columns of sequences.
        context_feature_columns: columns of what is the same for a whole sequence.
        num_units: the size of each layer's cells.
        cell_type: ``basic_rnn`` (the default), ``lstm``, ``gru`` or a class of cells.
        rnn_cell_fn: makes the cell from the mode, instead of the two above.
        return_sequences: whether there are logits for each step, not for the last one alone.
        model_dir: where checkpoints are.
        optimizer: a name, an optimizer, or a function that makes one.
        input_layer_partitioner: of the variables of the columns.
        config: of ``RunConfig``.

    Raises ``ValueError`` for both or none of the two ways to give cells.
    """

    def __init__(self, head: Any, sequence_feature_columns: Iterable,
                 context_feature_columns: Iterable | None = None,
                 num_units: Sequence[int] | None = None, cell_type: Any = None,
                 rnn_cell_fn: Callable[[str], Any] | None = None, return_sequences: bool = False,
                 model_dir: str | None = None, optimizer: Identifier = "Adagrad",
                 input_layer_partitioner: Any = None, config: Message | None = None) -> None:
        make_cell = _cell_function(num_units, cell_type, rnn_cell_fn)
        columns, context = list(sequence_feature_columns), list(context_feature_columns or ())

        def model_fn(features: Any, labels: Any, mode: str, config: Message) -> EstimatorSpec:
            with variable_scope("rnn", values=list(features.values())):
                with variable_scope("sequence_input_layer", partitioner=input_layer_partitioner):
                    inputs, lengths = _inputs(features, columns, context)
                outputs = dynamic_rnn(make_cell(mode), inputs, lengths, dtype=dtypes.float32)[0]
                if not return_sequences:
                    outputs = _last(outputs, lengths)
                with variable_scope("logits", values=[outputs]):
                    logits = layers.dense(outputs, head.logits_dimension,
                                          kernel_initializer=glorot_uniform_initializer())
            if return_sequences:
                key = getattr(head, "input_sequence_mask_key", "sequence_mask")
                features.setdefault(key, sequence_mask(lengths))
            return head.create_estimator_spec(
                features, mode, logits, labels, train_op_fn=lambda loss: get_optimizer_instance(
                    optimizer, _DEEP_RATE).minimize(loss, get_global_step()))

        super().__init__(model_fn, model_dir, config)


class RNNClassifier(RNNEstimator):
    """A recurrent network of classes: arguments as of RNNEstimator and of DNNClassifier."""

    def __init__(self, sequence_feature_columns: Iterable,
                 context_feature_columns: Iterable | None = None,
                 num_units: Sequence[int] | None = None, cell_type: Any = None,
                 rnn_cell_fn: Callable[[str], Any] | None = None, model_dir: str | None = None,
                 n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Sequence | None = None, optimizer: Identifier = "Adagrad",
                 loss_reduction: str = Reduction.SUM_OVER_BATCH_SIZE,
                 input_layer_partitioner: Any = None, config: Message | None = None) -> None:
        super().__init__(
            classification(n_classes, weight_column, label_vocabulary, loss_reduction),
            sequence_feature_columns, context_feature_columns, num_units, cell_type, rnn_cell_fn,
            False, model_dir, optimizer, input_layer_partitioner, config)


def _cell_function(units: Sequence[int] | None, kind: Any,
                   given: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """The function that makes the cell from the mode."""
    if given is not None:
        if units or kind is not None:
            raise ValueError("num_units and cell_type must not be specified when using rnn_cell_fn")
        return given
    make = _CELLS.get(kind or "basic_rnn") if isinstance(kind or "", str) else kind
    if make is None:
        raise ValueError(f"The supported cell types are {sorted(_CELLS)}; given: {kind}")
    sizes = [units] if isinstance(units, int) else list(units or ())
    if not sizes:
        raise ValueError("num_units must be given, or rnn_cell_fn")

    def stacked(mode: str) -> Any:
        made = [make(size) for size in sizes]
        return made[0] if len(made) == 1 else cells.MultiRNNCell(made)

    return stacked


def _inputs(features: Any, columns: list, context: list) -> tuple[Tensor, Tensor]:
    """The steps of the sequences, what is the same for all of them beside each, and lengths."""
    inputs, lengths = sequence_input_layer(features, columns)
    summary.histogram("sequence_length", lengths)
    if context:
        inputs = concatenate_context_input(input_layer(features, context), inputs)
    return inputs, lengths


def _last(outputs: Tensor, lengths: Tensor) -> Tensor:
    """The output at the last step of each sequence."""
    lengths = raw_ops.Cast(lengths, DstT="int32")
    rows = raw_ops.Range(0, raw_ops.Size(lengths), 1)
    return raw_ops.GatherNd(outputs, raw_ops.Pack([rows, raw_ops.Sub(lengths, 1)], axis=1))
