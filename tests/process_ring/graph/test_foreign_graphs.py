"""Graphs that a later version of the reference runtime wrote, with what it computed of them.

The files are in ``tests/data/graphs``: GraphDefs in text form, and ``expected.json`` with feeds,
fetches and values, after the operations "train" (initialization, then one before every fetch).
"""

import json
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import hpcflow as hf

FOLDER = Path(__file__).parents[2] / "data" / "graphs"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())

pytestmark = pytest.mark.usefixtures("form")


def read(name):
    return text_format.Parse((FOLDER / f"{name}.pbtxt").read_text(), hf.GraphDef())


def computed(case, session):
    if case["train"]:
        session.run(case["train"][0])
    for feeds, wanted in zip(case["feeds"], case["values"], strict=True):
        if case["train"]:
            session.run(case["train"][1], feeds)
        for got, value in zip(session.run(case["fetches"], feeds), wanted, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_values(name, graph, session):
    hf.import_graph_def(read(name), name="")
    computed(EXPECTED[name], session)


@pytest.mark.parametrize("name", sorted(n for n, c in EXPECTED.items() if "g:0" in c["fetches"]))
def test_gradients_taken_here(name, graph, session):
    hf.import_graph_def(read(name), name="")
    x, y = (graph.get_tensor_by_name(n) for n in ("x:0", "y:0"))
    grad = hf.gradients(y, x)[0]
    for feeds, (_, wanted) in zip(EXPECTED[name]["feeds"], EXPECTED[name]["values"], strict=True):
        np.testing.assert_allclose(session.run(grad, feeds), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["while", "function", "train_resource"])
def test_there_and_back(name, tmp_path):
    """What is imported can be written again, in both forms."""
    with hf.Graph().as_default() as graph:
        hf.import_graph_def(read(name), name="")
        for as_text in (True, False):
            hf.train.write_graph(graph, str(tmp_path), f"graph{as_text}", as_text=as_text)
    text = text_format.Parse((tmp_path / "graphTrue").read_text(), hf.GraphDef())
    binary = hf.GraphDef.FromString((tmp_path / "graphFalse").read_bytes())
    assert text == binary
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(binary, name="")
        computed(EXPECTED[name], session)


def test_the_name_of_a_loop_is_that_of_its_results(graph, session):
    y = hf.import_graph_def(read("while"), return_elements=["loop:3"], name="in")[0]
    feeds, wanted = EXPECTED["while"]["feeds"][0], EXPECTED["while"]["values"][0][0]
    np.testing.assert_allclose(session.run(y, {f"in/{k}": v for k, v in feeds.items()}), wanted,
                               rtol=1e-6)
    assert y.op.type == "IdentityN" and y.op.name == "in/loop"


def test_an_assertion_fails_in_its_branch(graph, session):
    hf.import_graph_def(read("assert"), name="")
    with pytest.raises(hf.errors.InvalidArgumentError, match="x is not positive"):
        session.run("y:0", {"x:0": -1.0})


def test_variables_become_constants(graph, session):
    proto = read("train_resource")
    hf.import_graph_def(proto, name="")
    session.run("init")
    frozen = hf.graph_util.convert_variables_to_constants(session, proto, ["y"])
    assert not any(n.op.startswith(("Var", "Read")) for n in frozen.node)
    feeds = EXPECTED["train_resource"]["feeds"][0]
    with hf.Graph().as_default(), hf.Session() as other:
        hf.import_graph_def(hf.graph_util.remove_training_nodes(frozen), name="")
        assert other.run("y:0", feeds) == session.run("y:0", feeds)
