"""Several threads build one graph: loops, conditionals, imports, gradients, variables."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from speed import patience

import hpcflow as hf

THREADS, ROUNDS = 4, 4


@pytest.fixture
def often():
    """The interpreter goes from thread to thread all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def built_by_threads(graph, build):
    """The results of ``build(number)`` in as many threads."""
    made, errors = [None] * THREADS, []

    def run(number):
        try:
            with graph.as_default():
                made[number] = build(number)
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return made


def doubling():
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, name="x")
        hf.cond(x > 0.0, lambda: x * 2.0, lambda: x - 1.0, name="choice")
        hf.multiply(x, 2.0, name="y")
        return graph.as_graph_def()


def test_loops_conditionals_imports_and_gradients(often):
    graph, imported = hf.Graph(), doubling()

    def build(number):
        for _ in range(ROUNDS):
            with hf.name_scope(f"of_{number}"):
                x = hf.constant(float(number + 1))
                _, power = hf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p * x),
                                         [0, hf.constant(1.0)])
                chosen = hf.cond(power > 9.0, lambda: power + 1.0, lambda: power - 1.0)
                (double,) = hf.import_graph_def(imported, {"x": chosen}, ["y:0"])
                with hf.control_dependencies([double]):
                    (slope,) = hf.gradients(double, x)
                assert double.op.name.startswith(f"of_{number}")
        return double, slope

    made = built_by_threads(graph, build)
    with hf.Session(graph=graph) as session:
        for number, (double, slope) in enumerate(session.run(made)):
            power = (number + 1) ** 3
            assert double == 2 * (power + (1 if power > 9 else -1))
            assert slope == 6 * (number + 1) ** 2


def test_variables_and_layers(often):
    graph = hf.Graph()

    def build(number):
        with hf.variable_scope(f"net_{number}"), hf.device("/cpu:0"):
            x = hf.ones([2, 3])
            for _ in range(ROUNDS):
                x = hf.layers.dense(x, 3, kernel_initializer=hf.ones_initializer())
        return x

    made = built_by_threads(graph, build)
    with hf.Session(graph=graph) as session, graph.as_default():
        names = [v.op.name for v in hf.global_variables()]
        assert len(names) == len(set(names)) == THREADS * ROUNDS * 2
        session.run(hf.global_variables_initializer())
        for values in session.run(made):
            np.testing.assert_array_equal(values, np.full((2, 3), 3.0 ** ROUNDS))


def test_scopes_that_begin_at_once(often):
    for _ in range(100):
        graph, together = hf.Graph(), threading.Barrier(THREADS)

        def build(number, together=together):
            together.wait(timeout=patience())
            with hf.variable_scope(f"net_{number}"):
                return hf.get_variable("v", [1]).op.name

        made = built_by_threads(graph, build)
        assert made == [f"net_{number}/v" for number in range(THREADS)]


def test_a_failed_import_takes_back_its_own_operations_only(often):
    graph, imported = hf.Graph(), doubling()
    broken = type(imported)()
    broken.CopyFrom(imported)
    broken.node[-1].attr["T"].type = hf.int32.as_datatype_enum

    def build(number):
        kept = []
        for k in range(ROUNDS * 5):
            if number % 2:
                with pytest.raises((TypeError, ValueError)):
                    hf.import_graph_def(broken)
            else:
                kept.append(hf.constant(k))
        return kept

    made = built_by_threads(graph, build)
    with hf.Session(graph=graph) as session:
        for values in session.run([kept for kept in made if kept]):
            assert values == list(range(ROUNDS * 5))
    assert {op.type for op in graph.get_operations()} == {"Const"}


def test_a_graph_is_exported_whole_while_others_add_to_it(graph, often):
    """Every input that a node names is among the nodes, in the midst of loops of other threads."""
    def build(number):
        exported = []
        for _ in range(ROUNDS):
            x = hf.placeholder(hf.float32)
            y = hf.while_loop(lambda i, a: i < 3.0, lambda i, a: (i + 1.0, a * x),
                              [hf.constant(0.0), x])[1]
            hf.gradients(y, x)
            exported.append(graph.as_graph_def())
        return exported

    for exported in built_by_threads(graph, build):
        for proto in exported:
            names = {node.name for node in proto.node}
            used = {text.lstrip("^").partition(":")[0] for n in proto.node for text in n.input}
            assert used <= names
