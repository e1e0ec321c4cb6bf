"""Data sets: sources, order, batches and functions, and the iterators over them."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from dataset_elements import elements, numbers, rest

import hpcflow as hf
from hpcflow.data import Dataset

END = hf.errors.OutOfRangeError


# ---------------------------------------------------------------- sources


def test_slices_in_structures(session):
    Point = collections.namedtuple("Point", "x y")
    dataset = Dataset.from_tensor_slices(
        {"p": Point(np.arange(3), np.ones((3, 2), np.float32)), "name": ["a", "b", "c"]})
    assert dataset.output_types == {"p": Point(hf.int64, hf.float32), "name": hf.string}
    assert dataset.output_shapes["p"].y.as_list() == [2]
    assert dataset.output_classes["p"].x is hf.Tensor
    found = elements(session, dataset)
    assert [e["name"] for e in found] == [b"a", b"b", b"c"]
    assert isinstance(found[2]["p"], Point)
    assert found[2]["p"].x == 2
    assert found[2]["p"].y.tolist() == [1, 1]


def test_slices_of_different_lengths_are_refused(graph):
    with pytest.raises(ValueError, match=r"must be equal|compatible"):
        Dataset.from_tensor_slices((np.zeros(3), np.zeros(4)))
    with pytest.raises(ValueError, match="rank"):
        Dataset.from_tensor_slices(1.0)


def test_slices_of_different_lengths_in_a_step(session):
    a, b = hf.placeholder(hf.float32, [None]), hf.placeholder(hf.float32, [None])
    iterator = Dataset.from_tensor_slices((a, b)).make_initializable_iterator()
    with pytest.raises(hf.errors.InvalidArgumentError, match="same size in the 0th dimension"):
        session.run(iterator.initializer, {a: [1, 2], b: [1]})


def test_ranges(session):
    assert numbers(session, Dataset.range(4)) == [0, 1, 2, 3]
    assert numbers(session, Dataset.range(2, 5)) == [2, 3, 4]
    assert numbers(session, Dataset.range(10, 2, -3)) == [10, 7, 4]
    assert len(elements(session, Dataset.range(10000))) == 10000
    with pytest.raises(ValueError, match="Invalid arguments"):
        Dataset.range()
    with pytest.raises(hf.errors.InvalidArgumentError, match="step"):
        elements(session, Dataset.range(0, 3, 0))


def test_a_generator_begins_anew_in_each_pass(session):
    begun = []

    def generator():
        begun.append(1)
        yield 1, "x"
        yield 2, "y"

    dataset = Dataset.from_generator(generator, (hf.int64, hf.string), ([], [])).repeat(2)
    assert elements(session, dataset) == [(1, b"x"), (2, b"y")] * 2
    assert len(begun) == 2


@pytest.mark.parametrize("value", ["text", [1, 2], (1, 2)])
def test_a_generator_that_gives_something_else(session, value):
    dataset = Dataset.from_generator(lambda: iter([1, value, 3]), hf.int64, [])
    assert elements(session, dataset) == [1, hf.errors.InvalidArgumentError, 3]


def test_arguments_of_a_generator(session):
    dataset = Dataset.from_generator(lambda n: iter(range(n)), hf.int32, [], args=(hf.constant(3),))
    assert numbers(session, dataset) == [0, 1, 2]


def test_side_by_side(session):
    one, two = Dataset.range(3), Dataset.range(10, 20)
    found = elements(session, Dataset.zip({"a": one, "b": (two, one)}))
    assert found[2] == {"a": 2, "b": (12, 2)}
    assert len(found) == 3
    with pytest.raises(TypeError, match="tuple instead"):
        Dataset.zip([one, two])


# ---------------------------------------------------------------- order


def test_order(session):
    ten = Dataset.range(10)
    assert numbers(session, ten.take(3)) == [0, 1, 2]
    assert numbers(session, ten.take(-1).skip(8)) == [8, 9]
    assert numbers(session, ten.skip(-1)) == []
    assert numbers(session, ten.shard(4, 1)) == [1, 5, 9]
    assert numbers(session, ten.take(2).repeat(2).concatenate(Dataset.range(1))) == [0, 1, 0, 1, 0]
    assert numbers(session, ten.take(0).repeat()) == []
    assert [e[0] for e in elements(session, ten.enumerate(5).take(2))] == [5, 6]
    with pytest.raises(ValueError, match="index"):
        ten.shard(2, 2)
    with pytest.raises(TypeError, match="different types"):
        ten.concatenate(Dataset.from_tensors("a"))


def test_shuffling(session):
    dataset = Dataset.range(20).shuffle(5, seed=3)
    first = numbers(session, dataset)
    assert sorted(first) == list(range(20)) != first
    assert numbers(session, dataset) == first  # the iterator's pass has the same seeds
    twice = numbers(session, dataset.repeat(2))
    assert twice[:20] != twice[20:]
    same = numbers(session, Dataset.range(20).shuffle(
        5, seed=3, reshuffle_each_iteration=False).repeat(2))
    assert same[:20] == same[20:]
    assert all(n < i + 5 for i, n in enumerate(first))


def test_a_cache_computes_once(session):
    calls = []
    dataset = Dataset.range(3).map(
        lambda x: hf.py_func(lambda v: (calls.append(v), v)[1], [x], hf.int64)).cache().repeat(3)
    assert numbers(session, dataset) == [0, 1, 2] * 3
    assert len(calls) == 3


def test_windows(session):
    windows = Dataset.range(7).window(3, shift=2)
    assert numbers(session, windows.flat_map(lambda w: w.batch(3))) == [
        [0, 1, 2], [2, 3, 4], [4, 5, 6], [6]]
    strided = Dataset.range(7).window(2, shift=1, stride=3, drop_remainder=True)
    assert numbers(session, strided.flat_map(lambda w: w.batch(2))) == [
        [0, 3], [1, 4], [2, 5], [3, 6]]


# ---------------------------------------------------------------- batches


def test_batches(session):
    assert numbers(session, Dataset.range(5).batch(2)) == [[0, 1], [2, 3], [4]]
    dropped = Dataset.range(5).batch(2, drop_remainder=True)
    assert dropped.output_shapes.as_list() == [2]
    assert numbers(session, dropped) == [[0, 1], [2, 3]]
    words = Dataset.from_tensor_slices(["a", "bc"]).batch(2)
    assert elements(session, words)[0].tolist() == [b"a", b"bc"]


def test_batches_of_different_shapes(session):
    dataset = Dataset.range(1, 4).map(lambda n: hf.fill([n], n))
    iterator = dataset.batch(2).make_initializable_iterator()
    following = iterator.get_next()
    session.run(iterator.initializer)
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"First element had shape \[1\] and "
                       r"element 1 had shape \[2\]"):
        session.run(following)


def test_padded_batches(session):
    dataset = Dataset.range(1, 4).map(lambda n: (hf.fill([n], n), hf.fill([n], "x")))
    found = elements(session, dataset.padded_batch(2, ([None], [4]), (np.int64(-1), "-")))
    assert found[0][0].tolist() == [[1, -1], [2, 2]]
    assert found[0][1].tolist() == [[b"x", b"-", b"-", b"-"], [b"x", b"x", b"-", b"-"]]
    assert found[1][0].tolist() == [[3, 3, 3]]
    assert elements(session, dataset.padded_batch(3, ([2], [4]))) == [hf.errors.DataLossError]
    with pytest.raises(TypeError, match="Padding value"):
        dataset.padded_batch(2, ([None], [4]), ("a", "-"))


@pytest.mark.parametrize("shapes", [([-1], [-1]), (hf.TensorShape([None]), [hf.Dimension(None)]),
                                    (np.array([-1]), [None]), None])
def test_padding_to_the_largest_of_a_batch(session, shapes):
    dataset = Dataset.range(1, 3).map(lambda n: (hf.fill([n], n), hf.fill([n + 1], n)))
    batches = dataset.padded_batch(2, shapes)
    assert [s.as_list() for s in batches.output_shapes] == [[None, None]] * 2
    [[a, b]] = elements(session, batches)
    assert a.tolist() == [[1, 0], [2, 2]] and b.tolist() == [[1, 1, 0], [2, 2, 2]]


def test_padding_without_shapes_needs_ranks(session):
    unknown = Dataset.range(2).map(lambda n: hf.placeholder_with_default(n, None))
    with pytest.raises(ValueError, match="`padded_shapes`"):
        unknown.padded_batch(2)


# ---------------------------------------------------------------- functions


def test_functions_see_structures(session):
    dataset = Dataset.from_tensor_slices({"a": [1, 2], "b": [3, 4]})
    assert numbers(session, dataset.map(lambda e: e["a"] * e["b"])) == [3, 8]
    pairs = dataset.map(lambda e: (e["a"], (e["b"], e["b"])))
    assert numbers(session, pairs.map(lambda a, b: a + b[1])) == [4, 6]
    assert pairs.output_types == (hf.int32, (hf.int32, hf.int32))


def test_functions_read_what_is_outside(session):
    offset = hf.placeholder(hf.int64, [])
    weight = hf.Variable(np.int64(2))
    iterator = Dataset.range(3).map(lambda x: x * weight + offset).make_initializable_iterator()
    session.run(hf.global_variables_initializer())
    session.run(iterator.initializer, {offset: 100})
    assert rest(session, iterator.get_next()) == [100, 102, 104]
    with pytest.raises(ValueError, match="make_initializable_iterator"):
        Dataset.range(3).map(lambda x: x * offset).make_one_shot_iterator()


def test_tables_in_functions(session):
    table = hf.contrib.lookup.index_table_from_tensor(["a", "b"])
    dataset = Dataset.from_tensor_slices(["b", "c", "a"]).map(table.lookup)
    session.run(hf.tables_initializer())
    assert numbers(session, dataset) == [1, -1, 0]


def test_conditionals_and_loops_in_functions(session):
    def collatz(n):
        return hf.while_loop(
            lambda v, i: v > 1,
            lambda v, i: [hf.cond(hf.equal(v % 2, 0), lambda: v // 2, lambda: 3 * v + 1), i + 1],
            [n, 0])[1]

    assert numbers(session, Dataset.range(1, 8).map(collatz)) == [0, 1, 7, 2, 5, 8, 16]
    sums = Dataset.range(4).map(lambda n: hf.reduce_sum(hf.map_fn(lambda x: x * x, hf.range(n))))
    assert numbers(session, sums) == [0, 0, 1, 5]


def test_a_function_that_waits(session):
    queue = hf.FIFOQueue(10, hf.int64, [])
    dataset = Dataset.range(3).map(lambda x: x + queue.dequeue())
    session.run(queue.enqueue_many([np.array([10, 20, 30])]))
    assert numbers(session, dataset) == [10, 21, 32]


def test_filter_flat_map_interleave(session):
    ten = Dataset.range(10)
    assert numbers(session, ten.filter(lambda x: hf.equal(x % 4, 1))) == [1, 5, 9]
    assert numbers(session, ten.take(4).flat_map(Dataset.range)) == [0, 0, 1, 0, 1, 2]
    repeated = ten.take(3).interleave(lambda x: Dataset.from_tensors(x).repeat(3), 2, 2)
    assert numbers(session, repeated) == [0, 0, 1, 1, 0, 1, 2, 2, 2]
    with pytest.raises(TypeError, match="must return a `Dataset`"):
        ten.flat_map(lambda x: x)
    with pytest.raises(ValueError, match="scalar boolean"):
        ten.filter(lambda x: x)


def test_nested_functions(session):
    def rows(n):
        return Dataset.range(n).map(lambda x: x * n).filter(lambda x: x > 0)

    assert numbers(session, Dataset.range(4).flat_map(rows)) == [2, 3, 6]


def test_random_numbers_of_functions(session):
    dataset = Dataset.range(4).map(lambda _: hf.random_uniform([], seed=5))
    first = numbers(session, dataset)
    assert len(set(first)) == 4
    assert numbers(session, dataset) == first  # every pass begins anew


def test_errors_of_functions(session):
    dataset = Dataset.range(4).map(lambda x: hf.check_numerics(1.0 / hf.to_float(x - 1), "inverse"))
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    session.run(iterator.initializer)
    assert session.run(following) == -1
    with pytest.raises(hf.errors.InvalidArgumentError,
                       match=r"inverse.*CheckNumerics.*test_datasets\.py"):
        session.run(following)
    assert rest(session, following) == [1, 0.5]


def test_reduce(session):
    total, count = Dataset.range(5).reduce(
        (np.int64(0), 0), lambda state, x: (state[0] + x, state[1] + 1))
    assert session.run([total, count]) == [10, 5]
    with pytest.raises(TypeError, match="types for the new state"):
        Dataset.range(5).reduce(0, lambda state, x: x)


# ---------------------------------------------------------------- iterators


def test_one_shot(session):
    following = Dataset.range(2).map(lambda x: x + 1).make_one_shot_iterator().get_next()
    assert rest(session, following) == [1, 2]
    with pytest.raises(END, match="End of sequence"):
        session.run(following)


def test_an_iterator_that_was_not_initialized(session):
    iterator = Dataset.range(2).make_initializable_iterator()
    with pytest.raises(hf.errors.FailedPreconditionError, match="not been initialized"):
        session.run(iterator.get_next())


def test_reinitializable(session):
    iterator = hf.data.Iterator.from_structure(hf.int64, [])
    following = iterator.get_next()
    first, second = (iterator.make_initializer(d) for d in (Dataset.range(3), Dataset.range(7, 9)))
    session.run(first)
    assert session.run(following) == 0
    session.run(second)
    assert rest(session, following) == [7, 8]
    session.run(first)
    assert rest(session, following) == [0, 1, 2]
    with pytest.raises(TypeError, match="output types"):
        iterator.make_initializer(Dataset.from_tensors(1.0))
    with pytest.raises(ValueError, match="the same nested structure"):
        iterator.make_initializer(Dataset.from_tensors((1, 2)))
    with pytest.raises(TypeError, match="output shapes"):
        iterator.make_initializer(Dataset.range(2).batch(2))
    with pytest.raises(ValueError, match="does not have an initializer"):
        _ = iterator.initializer


def test_feedable(session):
    handle = hf.placeholder(hf.string, [])
    following = hf.data.Iterator.from_string_handle(handle, hf.int64, []).get_next()
    iterators = [Dataset.range(n, 100).make_one_shot_iterator() for n in (10, 20)]
    handles = session.run([i.string_handle() for i in iterators])
    assert [session.run(following, {handle: handles[i]}) for i in (0, 1, 0, 0, 1)] == [
        10, 20, 11, 12, 21]
    other = Dataset.from_tensors(1.0).make_one_shot_iterator()
    with pytest.raises(hf.errors.InvalidArgumentError, match="Data type mismatch"):
        session.run(following, {handle: session.run(other.string_handle())})


def test_an_element_in_each_branch(session):
    one = Dataset.range(5).make_one_shot_iterator().get_next
    two = Dataset.range(10, 15).make_one_shot_iterator().get_next
    which = hf.placeholder(hf.bool, [])
    chosen = hf.cond(which, one, two)
    assert [session.run(chosen, {which: w}) for w in (True, False, False, True)] == [0, 10, 11, 1]


def test_elements_in_a_loop(session):
    iterator = Dataset.range(5).make_one_shot_iterator()
    total = hf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + iterator.get_next()),
                          (0, np.int64(0)))[1]
    assert session.run(total) == 6


def test_graphs_go_through_protobufs(session):
    following = Dataset.range(4).map(lambda x: x * 3).filter(lambda x: x > 0).batch(
        2).make_one_shot_iterator().get_next()
    definition = session.graph.as_graph_def()
    with hf.Graph().as_default(), hf.Session() as other:
        (again,) = hf.import_graph_def(definition, return_elements=[following.name])
        assert [v.tolist() for v in rest(other, again)] == [[3, 6], [9]]


def test_a_closed_session_begins_anew(graph):
    following = Dataset.range(4).make_one_shot_iterator().get_next()
    for _ in range(2):
        with hf.Session() as session:
            assert session.run(following) == 0


@pytest.mark.parametrize("make, expected", [
    (lambda d: d.shuffle(4, seed=3), [0, 3, 2, 1, 4, 5]),
    (lambda d: d.shuffle(4, seed=3, reshuffle_each_iteration=False), [3, 4, 2, 5, 0, 1]),
    (lambda d: d.shuffle(4, seed=3).map(lambda x: x).repeat(2),
     [0, 3, 2, 1, 4, 5, 0, 4, 1, 5, 3, 2]),
    (lambda d: d.shuffle(4, seed=3).repeat(2), [3, 4, 2, 5, 0, 1, 0, 1, 3, 5, 4, 2]),
    (lambda d: d.repeat(2).shuffle(4, seed=3), [0, 3, 2, 1, 4, 1, 0, 3, 2, 5, 4, 5]),
    (lambda _: hf.data.experimental.RandomDataset(seed=5).take(2), [3568415791, 2798973839])])
def test_the_order_that_a_seed_gives_in_the_reference(session, make, expected):
    """Those of 1.15.5."""
    assert numbers(session, make(Dataset.range(6))) == expected
