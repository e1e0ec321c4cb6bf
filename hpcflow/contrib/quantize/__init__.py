"""``hpcflow.contrib.quantize``: training for inference with numbers of few bits.

The functions rewrite a graph in place: batch normalizations become part of the weights before
them, and weights and activations go through ``FakeQuantWithMinMaxVars`` (Jacob et al., 2017,
arXiv:1712.05877).
"""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.quantize.folding import fold_batch_norms
from hpcflow.contrib.quantize.inserting import Bits, quantize
from hpcflow.graph.graph import Graph, get_default_graph

__all__ = ["create_eval_graph", "create_training_graph", "experimental_create_eval_graph",
           "experimental_create_training_graph"]


def create_training_graph(input_graph: Graph | None = None, quant_delay: int | None = 0) -> None:
    """Rewrite a graph for training, before its optimizer is added.

    Args:
        input_graph: the graph, or None for the default one.
        quant_delay: steps in which values are not rounded yet.

    Raises ``ValueError`` for a graph that has an optimizer's updates already.
    """
    experimental_create_training_graph(input_graph, quant_delay=quant_delay)


def create_eval_graph(input_graph: Graph | None = None) -> None:
    """Rewrite a graph for evaluation and inference, as :func:`create_training_graph` did."""
    experimental_create_eval_graph(input_graph)


def experimental_create_training_graph(
        input_graph: Graph | None = None, weight_bits: int = 8, activation_bits: int = 8,
        symmetric: bool = False, quant_delay: int | None = 0, freeze_bn_delay: int | None = None,
        scope: str | None = None) -> None:
    """Rewrite a graph for training, before its optimizer is added.

    Args:
        input_graph: the graph, or None for the default one.
        weight_bits: the bits of weights.
        activation_bits: the bits of other values.
        symmetric: use ranges around 0.
        quant_delay: steps in which values are not rounded yet.
        freeze_bn_delay: steps after which batch normalizations use their moving averages.
        scope: rewrite only what is in this name scope.

    Raises ``ValueError`` for a graph that has an optimizer's updates already.
    """
    bits = Bits(True, weight_bits, activation_bits, symmetric, quant_delay)
    _rewrite(input_graph, bits, freeze_bn_delay, scope)


def experimental_create_eval_graph(
        input_graph: Graph | None = None, weight_bits: int = 8, activation_bits: int = 8,
        symmetric: bool = False, quant_delay: int | None = None,
        scope: str | None = None) -> None:
    """Rewrite a graph for evaluation; arguments are those of
    :func:`experimental_create_training_graph`."""
    bits = Bits(False, weight_bits, activation_bits, symmetric, quant_delay)
    _rewrite(input_graph, bits, None, scope)


def _rewrite(given: Any, bits: Bits, freeze_bn_delay: int | None, scope: str | None) -> None:
    graph = given or get_default_graph()
    updates = sorted({op.type for op in graph.get_operations() if _UPDATE in op.type})
    if updates:
        raise ValueError(f"Training op found in graph, exiting {updates}")
    with graph.as_default():
        fold_batch_norms(graph, freeze_bn_delay)
        quantize(graph, bits, scope)


_UPDATE = "Apply"  # ApplyAdam, SparseApplyAdam, ResourceApplyAdam, ...
