"""Names, arguments and errors that programs of 1.x look at, in several rooms."""

import collections
import functools

import numpy as np
import pytest

import hpcflow as hf


def test_an_interactive_session_places_what_a_step_needs():
    with hf.Graph().as_default():
        with hf.device("/device:GPU:7"):
            away = hf.constant(1.0, shape=[1, 2])
        here = hf.constant(2.0)
        session = hf.InteractiveSession(config=hf.ConfigProto(log_device_placement=False))
        try:
            assert here.eval() == 2.0
            with pytest.raises(hf.errors.InvalidArgumentError):
                away.eval()
        finally:
            session.close()
        with hf.Session() as plain, pytest.raises(hf.errors.InvalidArgumentError):
            plain.run(here)


def test_feeds_and_targets_of_other_types():
    text = hf.placeholder(hf.string)
    with hf.Session() as session:
        with pytest.raises(TypeError, match=r"Type of feed value 1 with type <class 'int'> is not"):
            session.run(text, {text: 1})
    with hf.Session(None) as session:
        assert session.run(hf.constant(3)) == 3
    with pytest.raises(TypeError, match="target must be a string"):
        hf.Session(37)


def test_imports_say_what_is_missing():
    graph_def = hf.GraphDef()
    graph_def.node.add(name="a", op="NoOp")
    with pytest.raises(ValueError, match="Requested return tensor 'b:0' not found in graph def"):
        hf.import_graph_def(graph_def, return_elements=["b:0"])
    with pytest.raises(ValueError, match="requires a non-empty `name`"):
        hf.import_graph_def(graph_def, {"a:0": np.float32(1.0)}, name="")
    graph_def.node.add(name="c", op="Identity", input=["a:x"])
    with pytest.raises(ValueError, match="Node 'c': Unknown input node 'a:x'"):
        hf.import_graph_def(graph_def)


def test_codes_of_errors():
    from hpcflow.core.lib.core import error_codes_pb2

    assert error_codes_pb2.INVALID_ARGUMENT == hf.errors.INVALID_ARGUMENT
    assert error_codes_pb2.Code.Name(5) == "NOT_FOUND"
    assert len(error_codes_pb2.Code.values()) == 18


def test_names_of_functions():
    from hpcflow.python.util import function_utils

    class Called:
        def __call__(self):
            return 1

    assert function_utils.get_func_name(Called().__call__) == "Called.__call__"
    assert "Called" in function_utils.get_func_name(Called())
    assert function_utils.get_func_code(Called()) is Called.__call__.__code__
    assert function_utils.get_func_code(functools.partial(len)) is None
    with pytest.raises(ValueError, match="callable"):
        function_utils.get_func_name(None)


def test_parts_of_structures():
    from hpcflow.python.util import nest

    pairs = nest.flatten_with_tuple_paths_up_to([0, (1, 2)], [[5, 6], (7, {"a": 8})])
    assert pairs == [((0,), [5, 6]), ((1, 0), 7), ((1, 1), {"a": 8})]
    shorter = nest.flatten_up_to([0], [5, 6], check_subtrees_length=False)
    assert shorter == [5]
    first, second = (collections.namedtuple("Pair", "a b") for _ in range(2))
    nest.assert_shallow_structure(first(1, 2), second(1, [2]))
    with pytest.raises(ValueError, match="same number of elements"):
        nest.assert_same_structure((3, 4), (3, 4, 5))
    with pytest.raises(TypeError, match="same sequence type"):
        nest.assert_same_structure((3, 4), [3, 4])


def test_sizes_as_text():
    assert hf.Dimension(12) == "12" and (hf.Dimension(None) == "13") is None
    assert hf.Dimension(12) == 12.0 and hf.Dimension(12) != "x"
