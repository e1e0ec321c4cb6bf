"""What later 1.x releases gave to variables, and to the layers that make them."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def run(tensor):
    with hf.Session() as session:
        return session.run(tensor)


def test_a_variable_changes_and_reads_its_rows(graph):
    v = hf.Variable(X, name="v")
    rows = hf.IndexedSlices(hf.constant([[2.0, 1, 8, 4]]), hf.constant([1]))
    with hf.Session() as session:
        for change, wanted in [
                (v.scatter_update, [2, 1, 8, 4]), (v.scatter_add, [6, 6, 14, 11]),
                (v.scatter_sub, [2, 4, -2, 3]), (v.scatter_mul, [8, 5, 48, 28]),
                (v.scatter_div, [2, 5, 0.75, 1.75]), (v.scatter_max, [4, 5, 8, 7]),
                (v.scatter_min, [2, 1, 6, 4])]:
            session.run(v.initializer)
            changed = change(rows, name="changed")
            assert changed.op.name.startswith("changed") and changed.dtype._is_ref_dtype
            np.testing.assert_array_equal(session.run(changed), [X[0], wanted, X[2]])
        for change, wanted in [(v.scatter_nd_update, 9.0), (v.scatter_nd_add, 15.0),
                               (v.scatter_nd_sub, -3.0)]:
            session.run(v.initializer)
            session.run(change([[1, 2]], [9.0]))
            assert session.run(v.gather_nd([[1, 2], [2, 0]])).tolist() == [wanted, 8.0]
        assert session.run(v.sparse_read([2, 0], name="some")).tolist() == X[[2, 0]].tolist()
    with pytest.raises(ValueError, match="sparse_delta must be IndexedSlices"):
        v.scatter_max(X)
    np.testing.assert_array_equal(
        run_after(v.initializer, hf.gradients(hf.reduce_sum(v.sparse_read([0, 0])), v)[0].values),
        np.ones((2, 4)))


def run_after(first, tensor):
    with hf.Session() as session:
        session.run(first)
        return session.run(tensor)


def test_assignments_have_names_and_may_be_operations(graph):
    v = hf.Variable(1.0)
    changes = [v.assign(5.0, name="to", read_value=False),
               v.assign_add(2.0, name="plus", read_value=False),
               v.assign_sub(4.0, name="minus", read_value=False)]
    assert [c.name for c in changes] == ["to", "plus", "minus"]
    assert all(isinstance(c, hf.Operation) for c in changes)
    with hf.Session() as session:
        session.run(v.initializer)
        values = []
        for change in changes:
            assert session.run(change) is None
            values.append(session.run(v))
    assert values == [5.0, 7.0, 3.0]
    assert run_after(v.initializer, v.assign(6.0, name="read")) == 6.0


def test_synchronization_of_variables(graph):
    on_read = hf.VariableSynchronization.ON_READ
    mean = hf.VariableAggregation.MEAN
    made = [hf.Variable(1.0, synchronization=on_read, aggregation=mean),
            hf.get_variable("w", [], synchronization=on_read, aggregation=mean)]
    for v in made:
        assert (v.synchronization, v.aggregation) == (on_read, mean) and not v.trainable
    plain = hf.get_variable("plain", [])
    assert plain.trainable and plain.synchronization is hf.VariableSynchronization.AUTO
    assert plain.aggregation is hf.VariableAggregation.NONE
    assert hf.trainable_variables() == [plain]
    assert hf.Variable(1.0, trainable=True, synchronization=on_read).trainable
    with pytest.raises(ValueError, match="'mean' is not a VariableAggregation"):
        hf.get_variable("v", [], aggregation="mean")

    def custom(getter, name, **arguments):
        seen.append(arguments)
        return getter(name, **arguments)

    seen = []
    with hf.variable_scope("scope", custom_getter=custom):
        hf.get_variable("a", [])
        assert not hf.get_variable("b", [], synchronization=on_read).trainable
    assert seen[0]["synchronization"] is hf.VariableSynchronization.AUTO
    assert seen[0]["trainable"] is True
    assert seen[1]["synchronization"] is on_read and seen[1]["trainable"] is False


def halved(value):
    return value / 2


@pytest.mark.parametrize("layer", [
    lambda x, **c: hf.layers.dense(x, 2, kernel_constraint=halved, **c),
    lambda x, **c: hf.layers.conv1d(x, 2, 2, kernel_constraint=halved, **c),
    lambda x, **c: hf.layers.separable_conv1d(
        x, 2, 2, depthwise_constraint=halved, pointwise_constraint=halved, **c),
    lambda x, **c: hf.layers.conv2d(x[..., None], 2, 2, kernel_constraint=halved, **c),
    lambda x, **c: hf.layers.separable_conv2d(
        x[..., None], 2, 2, depthwise_constraint=halved, pointwise_constraint=halved, **c),
    lambda x, **c: hf.layers.conv2d_transpose(x[..., None], 2, 2, kernel_constraint=halved, **c),
    lambda x, **c: hf.layers.conv3d(x[..., None, None], 2, 1, kernel_constraint=halved, **c),
    lambda x, **c: hf.layers.conv3d_transpose(
        x[..., None, None], 2, 1, kernel_constraint=halved, **c),
    lambda x, **c: hf.layers.Dense(2, kernel_constraint=halved, **c)(x),
], ids=["dense", "conv1d", "separable1", "conv2d", "separable2", "transposed", "conv3d",
        "transposed3", "Dense"])
def test_constraints_of_layers(graph, layer):
    """They are applied to the variables after an update; that of the bias to the bias alone."""
    loss = hf.reduce_sum(layer(hf.ones([1, 3, 4]), bias_constraint=hf.identity))
    kernels = [v for v in hf.trainable_variables() if "kernel" in v.name]
    (bias,) = [v for v in hf.trainable_variables() if "bias" in v.name]
    step = hf.train.GradientDescentOptimizer(0.0).minimize(loss)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(bias.assign([3.0, 4.0]))
        before = session.run(kernels)
        session.run(step)
        for old, new in zip(before, session.run(kernels), strict=True):
            np.testing.assert_allclose(new, old / 2)
        assert session.run(bias).tolist() == [3.0, 4.0]


def test_constraints_of_batch_normalization(graph):
    hf.layers.batch_normalization(hf.ones([2, 3]), beta_constraint=halved, gamma_constraint=abs)
    gamma, beta = hf.trainable_variables()  # as later releases order them
    assert beta.constraint is halved and gamma.constraint is abs


def test_summaries_of_a_scope(graph):
    with hf.name_scope("a"):
        hf.summary.scalar("x", 1.0)
    with hf.name_scope("b"):
        hf.summary.scalar("x", 2.0)
    merged = hf.summary.merge_all(scope="b/", name="some")
    proto = hf.Summary.FromString(run(merged))
    assert [v.tag for v in proto.value] == ["b/x"] and merged.op.name.startswith("some")
    assert hf.summary.merge_all(scope="none") is None


def test_creators_of_variables(graph):
    asked = []

    def renaming(next_creator, **arguments):
        return next_creator(**{**arguments, "name": "forced"})

    def noting(next_creator, **arguments):
        asked.append((arguments["name"], arguments["aggregation"]))
        return next_creator(**arguments)

    with hf.variable_creator_scope(noting):
        with hf.variable_creator_scope(renaming):
            v = hf.Variable(1.0, name="own")
        hf.get_variable("w", [], aggregation=hf.VariableAggregation.MEAN)
    hf.Variable(2.0, name="outside")
    assert v.op.name == "forced"
    assert [name for name, _ in asked] == ["forced", "w"]
    assert asked[1][1] is hf.VariableAggregation.MEAN


def test_creators_are_left_in_order(graph):
    outer = hf.variable_creator_scope(lambda next_creator, **arguments: next_creator(**arguments))
    outer.__enter__()
    with hf.variable_creator_scope(lambda next_creator, **arguments: next_creator(**arguments)):
        with pytest.raises(RuntimeError, match="without proper nesting"):
            outer.__exit__(None, None, None)


def test_getters_are_told_of_replication_if_they_take_it(graph):
    told = []

    def new(getter, **arguments):
        told.append(arguments["synchronization"])
        return getter(**arguments)

    def old(getter, name, shape, dtype, initializer, regularizer, reuse, trainable, collections,
            caching_device, partitioner, validate_shape, use_resource):
        return getter(name, shape, dtype, initializer)

    hf.get_variable("a", [], custom_getter=new)
    hf.get_variable("b", [], custom_getter=old)
    assert told == [hf.VariableSynchronization.AUTO]


@pytest.mark.parametrize("kind", ["tensor", "list", "partitioned"])
def test_partitioned_variables_are_assigned_to(graph, kind):
    halves = hf.fixed_size_partitioner(2)
    v = hf.get_variable("v", [3], initializer=hf.ones_initializer(), partitioner=halves)
    w = hf.get_variable("w", [3], initializer=hf.ones_initializer(), partitioner=halves)
    value = {"tensor": hf.constant([1.0, 2.0, 3.0]), "partitioned": w,
             "list": [hf.constant([1.0, 2.0]), hf.constant([3.0])]}[kind]
    expected = np.ones(3) if kind == "partitioned" else np.array([1.0, 2.0, 3.0])
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for method, whole in (("assign", expected), ("assign_add", 2 * expected),
                              ("assign_sub", expected)):
            found = session.run(getattr(v, method)(value))
            np.testing.assert_array_equal(np.concatenate(found), whole)
    assert [op.type for op in v.assign(value, read_value=False)] == ["Assign", "Assign"]


def test_what_partitioned_variables_are_not(graph):
    v = hf.Variable([0.0])
    make = type(hf.get_variable("w", [2], partitioner=hf.fixed_size_partitioner(2)))
    with pytest.raises(ValueError, match="may not be empty"):
        make("p", [1], hf.float32, [], [1])
    with pytest.raises(ValueError, match="must have a save_slice_info"):
        make("p", [1], hf.float32, [v], [1])


def test_lists_of_tensors_are_cast_where_a_type_is_asked_for(graph):
    a, b = hf.constant([1, 2]), hf.constant([1.5, 2.5])
    with hf.Session() as session:
        found = session.run(hf.convert_to_tensor([a, [b[0], 3.5]], hf.float64))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[1, 2], [1.5, 3.5]])
    with pytest.raises((TypeError, ValueError)):
        hf.convert_to_tensor([a, b])


def test_templates_tell_their_scope(graph):
    template = hf.make_template("t", lambda: hf.get_variable("v", []))
    assert template.variable_scope_name is None
    template()
    assert template.variable_scope_name == "t/"
