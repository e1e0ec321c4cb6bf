"""Handles of stacks, as other runtimes compare their shapes."""

import hpcflow as hf


def test_the_handle_of_a_stack_fits_whatever_other_runtimes_take_it_for():
    """They refuse graphs with other shapes, and to them it is a vector of two strings."""
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [])
        _, y = hf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, hf.tanh(y * x)), [0, x])
        hf.gradients(y, x)
    stacks = [n for n in graph.as_graph_def(add_shapes=True).node if n.op == "StackV2"]
    assert stacks
    assert all(n.attr["_output_shapes"].list.shape[0].unknown_rank for n in stacks)
