"""What programs and unit tests of 1.x see besides values: representations, words, names, types."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hpcflow as tf
from hpcflow.platform import flags


@pytest.fixture(autouse=True)
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_representations() -> None:
    a = tf.placeholder(tf.float32, [None, 2], name="a")
    w = tf.Variable([1.0], name="w")
    assert repr(a) == "<tf.Tensor 'a:0' shape=(?, 2) dtype=float32>"
    assert str(a) == 'Tensor("a:0", shape=(?, 2), dtype=float32)'
    assert repr(a.op) == "<tf.Operation 'a' type=Placeholder>"
    assert repr(w) == "<tf.Variable 'w:0' shape=(1,) dtype=float32_ref>"
    assert repr(tf.float32) == "tf.float32" and str(tf.float32) == "<dtype: 'float32'>"
    assert repr(a.get_shape()) == "TensorShape([Dimension(None), Dimension(2)])"
    assert str(a.get_shape()) == "(?, 2)"


def plain(value: Any) -> Any:
    return tf.constant(value)


# What a program does -> the class of its error, and words that its users look for.
MISTAKES = [
    (lambda: bool(plain(1)), TypeError, "using a `tf.Tensor` as a Python `bool` is not allowed"),
    (lambda: list(plain([1])), TypeError, "'Tensor' object is not iterable"),
    (lambda: tf.as_dtype("none such"), TypeError, "Cannot convert value 'none such'"),
    (lambda: tf.TensorShape([-1]), ValueError, "Dimension -1 must be >= 0"),
    (lambda: tf.TensorShape(None).as_list(), ValueError, "not defined on an unknown TensorShape"),
    (lambda: tf.TensorShape([2]).assert_is_compatible_with([3]), ValueError, "are incompatible"),
    (lambda: tf.TensorShape([2]).merge_with([3]), ValueError, "are not compatible"),
    (lambda: tf.convert_to_tensor(None), ValueError, "None values not supported"),
    (lambda: tf.convert_to_tensor(object()), TypeError, "Failed to convert object of type"),
    (lambda: tf.constant([1, "a"]), TypeError, "Failed to convert object of type"),
    (lambda: tf.Variable(), ValueError, "initial_value must be specified"),
    (lambda: tf.Variable(1.0, collections="a"), ValueError, "must be a list, tuple, or set"),
    (lambda: tf.get_variable("v", [1], initializer=plain([1.0])), ValueError,
     "If initializer is a constant, do not specify shape"),
    (lambda: tf.orthogonal_initializer()([5]), ValueError, "at least two-dimensional"),
    (lambda: tf.truncated_normal_initializer(dtype=tf.int32), ValueError,
     "Expected floating point type"),
    (lambda: tf.variable_scope(3).__enter__(), TypeError, "must be a string or VariableScope"),
    (lambda: tf.device("/foo:bar").__enter__(), ValueError, "Unknown attribute"),
    (lambda: tf.gradients([plain(1.0)], [plain(1.0)], grad_ys=[1.0, 1.0]), ValueError,
     "Passed 2 grad_ys for 1 ys"),
    (lambda: tf.while_loop(lambda i: i < 1, lambda i: [i, i], [0]), ValueError,
     "same number of elements"),
    (lambda: tf.while_loop(lambda: True, lambda: 1, []), ValueError, "No loop variables provided"),
    (lambda: tf.matmul([[1.0]], [[1.0], [2.0]]), ValueError,
     "Dimensions must be equal, but are 1 and 2"),
    (lambda: plain([1, 2]) + plain([1, 2, 3]), ValueError,
     "Dimensions must be equal, but are 2 and 3"),
    (lambda: tf.Session(graph=3), TypeError, "graph must be a tf.Graph"),
    (lambda: tf.train.GradientDescentOptimizer(1.0).compute_gradients(
        tf.Variable(1.0) * 1.0, [1.0]), TypeError, "Argument is not a tf.Variable"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind", "words"), MISTAKES)
def test_words_of_errors(mistake: Any, kind: type, words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        mistake()


STEP_MISTAKES = [
    (lambda x, n: x + tf.constant([1.0, 2.0]), "Incompatible shapes: [3] vs. [2]"),
    (lambda x, n: tf.matmul(tf.reshape(x, [1, n]), [[1.0], [2.0]]), "Matrix size-incompatible"),
    (lambda x, n: tf.reshape(x, [n + 1]),
     "Input to reshape is a tensor with 3 values, but the requested shape has 4"),
    (lambda x, n: tf.reshape(x, [-1, n - 1]), "requested shape requires a multiple of 2"),
    (lambda x, n: tf.case([(n > 0, lambda: x), (n > 1, lambda: x)], lambda: x, exclusive=True),
     "More than one condition evaluated as True but exclusive=True"),
    (lambda x, n: tf.Assert(n < 0, [x, "text", n]), "assertion failed: [1 2 3] [text] [3]"),
]


@pytest.mark.parametrize(("build", "words"), STEP_MISTAKES)
def test_words_of_errors_in_steps(session: tf.Session, build: Any, words: str) -> None:
    x, n = tf.placeholder(tf.float32), tf.placeholder(tf.int32, [])
    failing = build(x, n)
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(words)):
        session.run(failing, {x: [1.0, 2.0, 3.0], n: 3})


def test_errors_without_a_session() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0)
        with pytest.raises(ValueError, match="Cannot use the default session to evaluate tensor"):
            x.eval()
        session = tf.Session()
    with graph.as_default(), session:
        with pytest.raises(RuntimeError, match="not re-entrant"), session:
            pass
        assert x.eval() == 1.0


def test_feeds_are_a_dictionary(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32)
    with pytest.raises(TypeError, match="must be a dictionary"):
        session.run(x, [x])


def test_casts_do_not_read_texts(session: tf.Session) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="Cast string to int32"):
        session.run(tf.cast("1", tf.int32))
    with pytest.raises(tf.errors.UnimplementedError, match="Cast float32 to string"):
        session.run(tf.cast(1.0, tf.string))


def test_a_loop_returns_what_its_body_does(session: tf.Session) -> None:
    def smaller(i: tf.Tensor, _: Any) -> tf.Tensor:
        return i < 3

    pair = tf.while_loop(smaller, lambda i, x: (i + 1, x * 2.0), [0, 1.0])
    listed = tf.while_loop(smaller, lambda i, x: [i + 1, x * 2.0], (0, 1.0))
    single = tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [0])
    assert type(pair) is tuple and type(listed) is list and isinstance(single, tf.Tensor)
    assert session.run([pair, listed, single]) == [(3, 8.0), [3, 8.0], 3]


def test_results_have_names(session: tf.Session) -> None:
    found = tf.unique(["a", "b", "a"])
    assert found._fields == ("y", "idx")
    value = session.run(found)
    assert type(value) is type(found)
    np.testing.assert_array_equal(value.idx, [0, 1, 0])
    counted = tf.unique_with_counts([3, 3, 4])
    np.testing.assert_array_equal(session.run(counted.count), [2, 1])
    np.testing.assert_array_equal(session.run(tf.nn.top_k([1.0, 3.0], 1).indices), [1])
    assert tf.setdiff1d([1, 2], [1]).out.dtype is tf.int32


def test_equal_reads_of_a_tensor_array_are_one(session: tf.Session) -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    source, target = tf.TensorArray(tf.float32, 3).unstack(x), tf.TensorArray(tf.float32, 3)
    _, target = tf.while_loop(lambda i, _: i < 3,
                              lambda i, t: (i + 1, t.write(i, source.read(i) ** 2)), [0, target])
    squares, gradient = session.run([target.stack(), tf.gradients(target.stack(), x)[0]])
    np.testing.assert_array_equal(squares, [1.0, 4.0, 9.0])
    np.testing.assert_array_equal(gradient, [2.0, 4.0, 6.0])


def test_a_queue_chosen_from_a_list(session: tf.Session) -> None:
    queues = [tf.FIFOQueue(5, tf.int32, shapes=[[]]) for _ in range(3)]
    index = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(index, queues)
    for i, queue in enumerate(queues):
        session.run(queue.enqueue(10 * i))
    assert [session.run(chosen.dequeue(), {index: i}) for i in (2, 0, 1)] == [20, 0, 10]
    session.run(chosen.enqueue(7), {index: 1})
    assert session.run([q.size() for q in queues]) == [0, 1, 0]
    for wrong in (-1, 3):
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
            session.run(chosen.size(), {index: wrong})


def test_names_of_input_producers() -> None:
    queue = tf.train.string_input_producer(["a", "b"], shuffle=False)
    assert queue.name == "input_producer"
    names = [op.name for op in tf.get_default_graph().get_operations()]
    assert "input_producer/input_producer_EnqueueMany" in names


def test_names_of_operators() -> None:
    true = tf.constant(True)
    assert (true ^ False).op.name == "xor" and (true & False).op.name == "and"
    assert tf.logical_xor(true, False).op.name == "LogicalXor"


def test_flags_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program = flags._Flags()
    monkeypatch.setattr(flags, "FLAGS", program)
    flags.DEFINE_string("where", "here", "a text")
    flags.DEFINE_integer("count", 3, "a number")
    flags.DEFINE_boolean("sure", False, "a switch")
    flags.DEFINE_bool("fast", True, "another")
    monkeypatch.setattr(sys, "argv", ["program", "--count=7", "--sure", "rest", "--nofast"])
    assert (program.count, program.sure, program.fast, program.where) == (7, True, False, "here")
    assert program._parse(["--sure", "false", "--fast", "more"]) == ["more"]
    with pytest.raises(AttributeError, match="absent"):
        program.absent  # noqa: B018
    assert program._parse([]) == []
    rest = ["-other", "-5", "--", "-count=8"]
    program.where, program.fast = "set", False
    given = ["program", "-count=9", "-where", "there", "-nosure"]
    assert program([*given, *rest], known_only=True) == ["program", *rest]
    assert (program.count, program.where, program.sure, program.fast) == (9, "there", False, False)
