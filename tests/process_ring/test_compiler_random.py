"""Random graphs: compiled, node by node and over several devices they give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import RandomGraph

import hpcflow as hf
from hpcflow import config

GRAPHS, CHUNK = 120, 20
# (regions, optimized, CPU devices)
FORMS = [(True, True, 1), (True, False, 1), (False, True, 1), (True, True, 3), (False, False, 2)]


def session(monkeypatch, regions, optimized, devices):
    monkeypatch.setattr(config.flags, "compile", regions)
    level = hf.OptimizerOptions(opt_level=0 if optimized else -1)
    return hf.Session(config=hf.ConfigProto(
        device_count={"CPU": devices}, allow_soft_placement=True,
        graph_options=hf.GraphOptions(optimizer_options=level)))


def run_steps(monkeypatch, graph, form, steps):
    """All values of each step, and the variables after it."""
    results = []
    picked = [v.tensor for v in graph.values]
    with session(monkeypatch, *form) as s:
        s.run(hf.global_variables_initializer())
        variables = [v.variable for v in graph.variables]
        for feeds, fetch in steps:
            fed = {p.tensor: feeds[i].copy() for i, p in enumerate(graph.placeholders)}
            fed[graph.predicate] = feeds["predicate"]
            values = s.run([[picked[i] for i in fetch], graph.updates], fed)[0]
            for array in fed.values():  # nobody may hold on to what was fed
                if isinstance(array, np.ndarray) and array.ndim:
                    array[...] = 99
            results.append((values, s.run(variables)))
    return results


def check(monkeypatch, seed):
    with hf.Graph().as_default():
        graph = RandomGraph(seed, size=5 + seed % 60)
        count = len(graph.values)
        fetches = [sorted(graph.random.choice(count, min(count, n), replace=False))
                   for n in (1 + seed % 25, 4)]
        steps = [(graph.feeds() | {"predicate": bool(graph.random.randint(2))}, fetches[i % 2])
                 for i in range(4)]
        state = graph.initial_state()
        expected = []
        for feeds, fetch in steps:
            values = graph.expected(feeds, state)
            expected.append(([values[i] for i in fetch], [v.copy() for v in state]))
        for form in FORMS:
            got = run_steps(monkeypatch, graph, form, steps)
            for k, (a, b) in enumerate(zip(got, expected, strict=True)):
                for part in (0, 1):
                    for i, (x, y) in enumerate(zip(a[part], b[part], strict=True)):
                        np.testing.assert_array_equal(
                            x, y, err_msg=f"seed {seed}, form {form}, step {k}, part {part}, {i}")


@pytest.mark.parametrize("chunk", range(GRAPHS // CHUNK))
def test_random_graphs(monkeypatch, chunk):
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        try:
            check(monkeypatch, seed)
        except BaseException:
            print(f"seed {seed}")
            raise
