"""Options of data sets, specifications of their elements, and seeds that are tensors."""

import warnings

import numpy as np
import pytest

import hpcflow as hf

experimental = hf.data.experimental


def test_groups_of_options_are_set_and_merged():
    first, second = hf.data.Options(), hf.data.Options()
    first.experimental_optimization.map_fusion = True
    second.experimental_threading.private_threadpool_size = 2
    second.experimental_deterministic = False
    dataset = hf.data.Dataset.range(3).with_options(first).with_options(second)
    merged = dataset.options()
    assert merged.experimental_optimization.map_fusion is True
    assert merged.experimental_optimization.noop_elimination is None
    assert merged.experimental_threading.private_threadpool_size == 2
    assert merged.experimental_distribute.auto_shard is True
    assert first != second and hf.data.Options() == hf.data.Options()


def test_options_are_checked():
    options = hf.data.Options()
    with pytest.raises(AttributeError, match="Cannot set the property wrong on Options"):
        options.wrong = True
    with pytest.raises(TypeError, match="experimental_deterministic"):
        options.experimental_deterministic = 1
    other = hf.data.Options()
    options.experimental_slack, other.experimental_slack = True, False
    with pytest.raises(ValueError, match="experimental_slack"):
        options.merge(other)


def test_specifications_of_elements():
    sparse = hf.SparseTensor([[0, 1]], [1.0], [2, 3])
    dataset = hf.data.Dataset.from_tensors({"a": np.zeros((4, 2), np.int64), "b": sparse})
    spec = {"a": hf.TensorSpec([4, 2], hf.int64), "b": hf.SparseTensorSpec([2, 3], hf.float32)}
    assert dataset.element_spec == experimental.get_structure(dataset) == spec
    assert dataset.make_one_shot_iterator().element_spec == spec
    windows = hf.data.Dataset.range(4).window(2)
    assert windows.element_spec == experimental.DatasetStructure(hf.TensorSpec([], hf.int64))
    with pytest.raises(TypeError, match="Dataset or Iterator"):
        experimental.get_structure(3)
    none = experimental.Optional.none_from_structure(spec)
    assert none.value_structure == spec


def test_seeds_may_be_tensors():
    seed = hf.placeholder(hf.int64, [])
    shuffled = hf.data.Dataset.range(20).shuffle(20, seed=seed)
    fixed = hf.data.Dataset.range(20).shuffle(20, seed=7)
    orders = []
    with hf.Session() as session:
        for dataset, number in ((shuffled, 7), (shuffled, 8), (fixed, 7)):
            iterator = dataset.make_initializable_iterator()
            following = iterator.get_next()
            session.run(iterator.initializer, {seed: number})
            orders.append([session.run(following) for _ in range(20)])
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[1]) == list(range(20))


def drawn(graph_seed, draw, how="map"):
    with hf.Graph().as_default(), hf.Session() as session:
        hf.set_random_seed(graph_seed)
        following = getattr(hf.data.Dataset.range(3), how)(draw).make_one_shot_iterator().get_next()
        return [session.run(following) for _ in range(3)]


def test_functions_draw_by_the_seed_of_the_graph_around_them():
    with pytest.warns(UserWarning, match="Explicitly set the seed"):
        first, again, other = (drawn(s, lambda x: hf.random_uniform([])) for s in (10, 10, 11))
    assert first == again != other and len(set(first)) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(10, lambda x: hf.random_uniform([], seed=3))
        drawn(10, lambda x: x)
        legacy = [drawn(10, lambda x: hf.random_uniform([]), "map_with_legacy_function")
                  for _ in range(2)]
        assert legacy[0] != legacy[1]  # they have none of it


def test_functions_make_variables_that_they_change():
    def count(_):
        with hf.variable_scope("counts", reuse=hf.AUTO_REUSE):
            return hf.get_variable("n", (), hf.int32, hf.zeros_initializer(),
                                   use_resource=True).assign_add(1)

    with hf.Graph().as_default(), hf.Session() as session:
        iterator = hf.data.Dataset.range(3).map(count).make_initializable_iterator()
        following = iterator.get_next()
        assert [v.op.name for v in hf.global_variables()] == ["counts/n"]
        session.run([hf.global_variables_initializer(), iterator.initializer])
        assert [session.run(following) for _ in range(3)] == [1, 2, 3]


def test_optionals_are_elements():
    some = experimental.Optional.from_value((hf.constant(3), hf.constant([1.0, 2.0])))
    dataset = hf.data.Dataset.from_tensors(some).repeat(2)
    spec = dataset.element_spec
    assert spec == experimental.OptionalStructure((hf.TensorSpec([], hf.int32),
                                                   hf.TensorSpec([2], hf.float32)))
    values = dataset.map(lambda one: one.get_value()[1] * 2.0)
    with hf.Session() as session:
        iterator = values.make_initializable_iterator()
        session.run(iterator.initializer)
        assert session.run(iterator.get_next()).tolist() == [2, 4]
