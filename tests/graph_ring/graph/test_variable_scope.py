"""variable_scope, get_variable, partitioners, partitioned variables and templates."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def names():
    return [v.op.name for v in hf.global_variables()]


# ---------------------------------------------------------------- sharing


def test_names_follow_variable_scopes():
    with hf.variable_scope("a") as scope:
        assert scope.name == "a" and scope.original_name_scope == "a/"
        v = hf.get_variable("v", [1])
        with hf.name_scope("ops"):
            w = hf.get_variable("w", [1])
            x = hf.constant(1)
        with hf.variable_scope("b"):
            y = hf.get_variable("y", [1])
            z = hf.constant(1)
    assert [t.op.name for t in (v, w, x, y, z)] == ["a/v", "a/w", "a/ops/Const", "a/b/y",
                                                    "a/b/Const"]
    assert hf.get_variable("root", [1]).op.name == "root"


def test_reuse():
    with hf.variable_scope("a") as scope:
        v = hf.get_variable("v", [2, 3])
        with pytest.raises(ValueError, match="already exists"):
            hf.get_variable("v", [2, 3])
        scope.reuse_variables()
        assert hf.get_variable("v") is v
    with hf.variable_scope("a", reuse=True):
        assert hf.get_variable("v", [2, 3]) is v
        assert hf.get_variable("v", [None, 3]) is v
        with pytest.raises(ValueError, match=r"shape \(3, 3\)"):
            hf.get_variable("v", [3, 3])
        with pytest.raises(ValueError, match="dtype int32"):
            hf.get_variable("v", [2, 3], hf.int32)
        with pytest.raises(ValueError, match="does not exist"):
            hf.get_variable("w", [1])
        with hf.variable_scope("inner"), pytest.raises(ValueError, match="does not exist"):
            hf.get_variable("x", [1])
    with hf.variable_scope(scope):
        with pytest.raises(ValueError, match="does not exist"):
            hf.get_variable("w", [1])
    with hf.variable_scope(scope, reuse=False), pytest.raises(ValueError, match="does not exist"):
        hf.get_variable("w", [1])  # what a scope inherits cannot be undone
    assert names() == ["a/v"]


def test_error_names_the_first_line():
    hf.get_variable("v", [1])
    with pytest.raises(ValueError, match=r"Originally defined at .*test_variable_scope\.py"):
        hf.get_variable("v", [1])


def test_entering_a_scope_again():
    with hf.variable_scope("a") as a:
        first = hf.constant(1)
    with hf.variable_scope("b"), hf.variable_scope(a) as again:
        assert again is not a and again.name == "a" and again.original_name_scope == "a/"
        v, second = hf.get_variable("v", [1]), hf.constant(1)
    assert v.op.name == "a/v"
    assert [first.op.name, second.op.name] == ["a/Const", "b/a/Const"]
    with hf.variable_scope("a"):
        assert hf.constant(1).op.name == "a_1/Const"
        assert hf.get_variable("w", [1]).op.name == "a/w"


def test_default_names_are_unique():
    made = []
    for _ in range(3):
        with hf.variable_scope(None, default_name="layer"):
            made.append(hf.get_variable("v", [1]).op.name)
    assert made == ["layer/v", "layer_1/v", "layer_2/v"]
    with hf.variable_scope("given", default_name="layer"):
        assert hf.get_variable("v", [1]).op.name == "given/v"
    for _ in range(2):  # inside a scope that is entered again the numbers start anew
        with hf.variable_scope("outer", reuse=hf.global_variables()[-1].op.name[0] == "o"):
            with hf.variable_scope(None, default_name="layer"):
                assert hf.get_variable("v", [1]).op.name == "outer/layer/v"
    with pytest.raises(ValueError, match="reuse=True"):
        with hf.variable_scope(None, default_name="layer", reuse=True):
            pass
    with pytest.raises(TypeError, match="default_name"):
        with hf.variable_scope(None):
            pass
    with pytest.raises(TypeError, match="string or VariableScope"):
        with hf.variable_scope(3):
            pass


def test_the_root_scope():
    root = hf.get_variable_scope()
    assert root.name == "" and root.reuse is False
    v = hf.get_variable("v", [1])
    with hf.variable_scope("a"):
        with hf.variable_scope(root, reuse=True):
            assert hf.get_variable("v") is v
    assert hf.get_variable_scope() is root


def test_scope_is_left_after_an_error():
    root = hf.get_variable_scope()
    with pytest.raises(RuntimeError):
        with hf.variable_scope("a"):
            raise RuntimeError
    assert hf.get_variable_scope() is root


def test_graphs_are_apart(graph):
    v = hf.get_variable("v", [1])
    with hf.Graph().as_default():
        assert hf.get_variable("v", [1]) is not v
    w = hf.placeholder(hf.float32)
    with hf.Graph().as_default(), hf.variable_scope("a", values=[w]):
        assert hf.get_default_graph() is graph


# ---------------------------------------------------------------- defaults


def test_defaults_are_inherited():
    ones, regularizer = hf.ones_initializer(), lambda v: hf.reduce_sum(v, name="loss")
    with hf.variable_scope("a", initializer=ones, regularizer=regularizer, dtype=hf.float64,
                           caching_device="/cpu:0"):
        with hf.variable_scope("b") as scope:
            assert scope.initializer is ones and scope.regularizer is regularizer
            assert scope.dtype is hf.float64 and scope.caching_device == "/cpu:0"
            v = hf.get_variable("v", [2])
            w = hf.get_variable("w", [2], hf.float32, hf.zeros_initializer(),
                                regularizer=hf.no_regularizer)
            scope.set_initializer(None)
            scope.set_regularizer(None)
            scope.set_dtype(hf.int32)
            scope.set_caching_device(None)
            scope.set_partitioner(None)
            scope.set_custom_getter(None)
            scope.set_use_resource(False)
            x = hf.get_variable("x", [2])
    assert v.dtype.base_dtype is hf.float64 and v.value().device == "/device:CPU:0"
    assert x.dtype.base_dtype is hf.int32 and not x.value().device
    losses = hf.get_collection(hf.GraphKeys.REGULARIZATION_LOSSES)
    assert [t.op.name for t in losses] == ["a/b/v/Regularizer/loss"]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(v), [1, 1])
        np.testing.assert_array_equal(session.run(w), [0, 0])
        np.testing.assert_array_equal(session.run(x), [0, 0])
        assert session.run(losses) == [2]


def test_initializers():
    from_value = hf.get_variable("v", initializer=[1.0, 2.0])
    by_class = hf.get_variable("w", [2], initializer=hf.ones_initializer)
    by_function = hf.get_variable("x", [2], hf.int32,
                                  initializer=lambda shape, dtype, **_: hf.fill(shape, 7))
    from_tensor = hf.get_variable("y", initializer=hf.constant([3]))
    assert from_tensor.dtype.base_dtype is hf.int32
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        got = session.run([from_value, by_class, by_function, from_tensor])
    for value, expected in zip(got, ([1, 2], [1, 1], [7, 7], [3])):
        np.testing.assert_array_equal(value, expected)
    with pytest.raises(ValueError, match="do not specify shape"):
        hf.get_variable("z", [2], initializer=[1.0, 2.0])
    with pytest.raises(ValueError, match="don't match"):
        hf.get_variable("z", dtype=hf.int32, initializer=[1.0])
    with pytest.raises(ValueError, match="fully defined"):
        hf.get_variable("z", [None, 2])
    with pytest.raises(ValueError, match="initializer for variable z"):
        hf.get_variable("z", [2], hf.complex64)


def test_collections():
    hf.get_variable("v", [1])
    hf.get_variable("w", [1], trainable=False)
    hf.get_variable("x", [1], collections=["mine"], trainable=False)
    local = hf.get_local_variable("y", [1])
    assert names() == ["v", "w"] and [v.op.name for v in hf.trainable_variables()] == ["v"]
    assert [v.op.name for v in hf.get_collection("mine")] == ["x"]
    assert hf.local_variables() == [local] and local not in hf.trainable_variables()
    with hf.variable_scope("a.b") as scope:
        v = hf.get_variable("v", [1])
    hf.get_variable("aXb/v", [1])
    assert scope.trainable_variables() == scope.global_variables() == [v]


def test_custom_getters():
    calls = []

    def outer(getter, name, *args, **kwargs):
        calls.append(("outer", name))
        return getter(name, *args, **kwargs)

    def inner(getter, name, *args, **kwargs):
        calls.append(("inner", name))
        return getter(f"{name}_renamed", *args, **kwargs)

    with hf.variable_scope("a", custom_getter=outer):
        hf.get_variable("v", [1])
        with hf.variable_scope("b", custom_getter=inner):
            hf.get_variable("w", [1])
    assert names() == ["a/v", "a/b/w_renamed"]
    assert calls == [("outer", "a/v"), ("inner", "a/b/w"), ("outer", "a/b/w_renamed")]
    doubled = hf.get_variable("x", [1], custom_getter=lambda getter, *a, **k: getter(*a, **k) * 2.0)
    assert isinstance(doubled, hf.Tensor)
    with pytest.raises(ValueError, match="callable"):
        hf.get_variable("y", [1], custom_getter=3)


def test_variable_op_scope():
    with hf.variable_op_scope([], None, "default"):
        assert hf.get_variable("v", [1]).op.name == "default/v"


# ---------------------------------------------------------------- partitioning


@pytest.mark.parametrize("shape, partitions, shapes", [
    ([5, 4], 2, [[3, 4], [2, 4]]), ([7], 3, [[3], [2], [2]]), ([2, 3], 5, [[1, 3], [1, 3]]),
    ([4, 2], 1, [[4, 2]]),
])
def test_partitioned(shape, partitions, shapes):
    v = hf.get_variable("v", shape, partitioner=hf.fixed_size_partitioner(partitions),
                        initializer=hf.ones_initializer())
    assert [p.get_shape().as_list() for p in v] == shapes
    assert [p.op.name for p in v] == [f"v/part_{i}" for i in range(len(shapes))]
    assert len(v) == len(shapes) and v.get_shape().as_list() == shape and v.name == "v"
    infos = [p._get_save_slice_info() for p in v]
    offsets = np.cumsum([0] + [s[0] for s in shapes])
    assert [i.var_offset[0] for i in infos] == list(offsets[:-1])
    assert all(i.full_name == "v" and i.full_shape == shape for i in infos)
    whole = hf.convert_to_tensor(v)
    assert whole.get_shape().as_list() == shape and hf.convert_to_tensor(v) is whole
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(whole), np.ones(shape))
        np.testing.assert_array_equal(session.run(hf.multiply(v, 2.0)), np.full(shape, 2))


def test_partitioned_axis_and_values():
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    v = hf.get_variable("v", initializer=hf.constant(value),
                        partitioner=hf.fixed_size_partitioner(3, axis=1))
    w = hf.get_variable("w", [3, 4], partitioner=hf.fixed_size_partitioner(2),
                        initializer=lambda shape, dtype, partition_info: hf.fill(
                            shape, float(partition_info.single_offset(shape))))
    assert [p.get_shape().as_list() for p in v] == [[3, 2], [3, 1], [3, 1]]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(hf.convert_to_tensor(v)), value)
        np.testing.assert_array_equal(session.run(hf.convert_to_tensor(w))[:, 0], [0, 0, 2])


def test_partitioned_sharing():
    two, three = hf.fixed_size_partitioner(2), hf.fixed_size_partitioner(3)
    with hf.variable_scope("a", partitioner=two):
        v = hf.get_variable("v", [6])
        scalar = hf.get_variable("s", [])
        plain = hf.get_variable("p", [6], partitioner=None)
    assert isinstance(scalar, hf.Variable) and len(plain) == 2
    with hf.variable_scope("a", reuse=True):
        assert hf.get_variable("v", [6], partitioner=two) is v
        with pytest.raises(ValueError, match="partitions"):
            hf.get_variable("v", [6], partitioner=three)
        with pytest.raises(ValueError, match="shape"):
            hf.get_variable("v", [7], partitioner=two)
        with pytest.raises(ValueError, match="dtype"):
            hf.get_variable("v", [6], hf.int32, partitioner=two)
        assert hf.get_variable("v", [6]) is v
        with pytest.raises(ValueError, match="does not exist"):
            hf.get_variable("w", [6], partitioner=two)
    with pytest.raises(ValueError, match="already exists"):
        with hf.variable_scope("a"):
            hf.get_variable("v", [6], partitioner=two)
    hf.get_variable("whole", [6])
    with pytest.raises(ValueError, match="unpartitioned version"):
        with hf.variable_scope("", reuse=True):
            hf.get_variable("whole", [6], partitioner=two)


def test_bad_partitions():
    for parts in ([2, 2], [0, 1], [1], [9, 1]):
        with pytest.raises(ValueError, match=r"partition|dimension"):
            hf.get_variable("v", [4, 4], partitioner=lambda parts=parts, **_: parts)
    with pytest.raises(ValueError, match="callable"):
        hf.get_variable("v", [4, 4], partitioner=3)
    with pytest.raises(ValueError, match="fully defined"):
        hf.get_variable("v", [None, 4], partitioner=hf.fixed_size_partitioner(2))


def test_partitioned_regularizer():
    hf.get_variable("v", [4], partitioner=hf.fixed_size_partitioner(2),
                    initializer=hf.ones_initializer(), regularizer=lambda v: hf.reduce_sum(v))
    losses = hf.get_collection(hf.GraphKeys.REGULARIZATION_LOSSES)
    assert [t.op.name for t in losses] == [f"v/part_{i}/Regularizer/Sum" for i in range(2)]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        assert session.run(losses) == [2, 2]


def test_partitioned_regularizer_of_a_layer():
    with hf.variable_scope("a", partitioner=hf.fixed_size_partitioner(2)):
        layer = hf.layers.Dense(4, kernel_regularizer=lambda v: hf.reduce_sum(v))
        layer(hf.zeros([2, 4]))
    assert [t.op.name for t in layer.losses] == [
        "a/dense/kernel/Regularizer/Sum", "a/dense/kernel/Regularizer_1/Sum"]


def test_local_variable_arguments_by_place():
    v = hf.get_local_variable("v", [2], hf.int32, hf.ones_initializer(), None, True)
    assert v.dtype.base_dtype == hf.int32 and hf.trainable_variables() == []
    assert hf.local_variables() == [v]


def test_create_partitioned_variables():
    parts = hf.create_partitioned_variables([5, 2], [2, 1], hf.ones_initializer())
    assert [p.op.name for p in parts] == [f"PartitionedVariable/part_{i}" for i in range(2)]
    assert [p.get_shape().as_list() for p in parts] == [[3, 2], [2, 2]]
    named = hf.create_partitioned_variables([4], [2], hf.constant([1.0, 2.0, 3.0, 4.0]), name="n")
    assert [p.op.name for p in named] == ["n/part_0", "n/part_1"]
    with pytest.raises(ValueError, match="dimension"):
        hf.create_partitioned_variables([4], [2, 1], hf.ones_initializer())


def test_axis_size_partitioner():
    def parts(shape, dtype=hf.float32, **keywords):
        return hf.variable_axis_size_partitioner(**keywords)(
            shape=hf.TensorShape(shape), dtype=dtype)

    assert parts([64, 4], max_shard_bytes=256) == [4, 1]
    assert parts([64, 4], max_shard_bytes=200) == [6, 1]
    assert parts([64, 4], max_shard_bytes=1, axis=1) == [1, 4]
    assert parts([64, 4], max_shard_bytes=1, max_shards=3) == [3, 1]
    assert parts([64], hf.string, max_shard_bytes=64) == [16]
    assert parts([64, 4], max_shard_bytes=1 << 20) == [1, 1]
    for bad in ({"max_shard_bytes": 0}, {"max_shard_bytes": 1, "max_shards": 0},
                {"max_shard_bytes": 1, "bytes_per_string_element": 0}):
        with pytest.raises(ValueError, match="positive"):
            hf.variable_axis_size_partitioner(**bad)
    with pytest.raises(ValueError, match="axis 2"):
        parts([4, 4], max_shard_bytes=1, axis=2)


def test_min_max_partitioner():
    def parts(shape, dtype=hf.float32, **keywords):
        return hf.min_max_variable_partitioner(**keywords)(
            shape=hf.TensorShape(shape), dtype=dtype)

    assert parts([1024, 1024], max_partitions=8) == [8, 1]
    assert parts([1024, 512], max_partitions=100, axis=1) == [1, 8]
    assert parts([10, 4], max_partitions=100, min_slice_size=1) == [10, 1]
    assert parts([10], max_partitions=4) == [1]
    with pytest.raises(ValueError, match="positive"):
        hf.min_max_variable_partitioner(0)
    with pytest.raises(ValueError, match="known shape"):
        parts([None, 4], max_partitions=2)


# ---------------------------------------------------------------- templates


def test_template():
    def linear(x, size):
        w = hf.get_variable("w", [size])
        return x * w

    layer = hf.make_template("layer", linear, size=3)
    first, second = layer(1.0), layer(x=2.0)
    assert names() == ["layer/w"] and first is not second
    other = hf.make_template("layer", linear, size=3)
    other(1.0)
    assert names() == ["layer/w", "layer_1/w"]
    assert layer.variable_scope.name == "layer" and layer.name == "layer"


def test_template_scope_now():
    def make():
        return hf.get_variable("v", [1])

    early = hf.make_template("t", make, create_scope_now_=True)
    late = hf.make_template("t", make)
    unique = hf.make_template("ignored", make, unique_name_="exact")
    assert [f().op.name for f in (late, early, unique)] == ["t_1/v", "t/v", "exact/v"]
    assert early() is early()


def test_template_must_not_make_variables_later():
    counter = iter(range(9))
    template = hf.make_template("t", lambda: hf.Variable(1.0, name=f"v{next(counter)}"))
    template()
    with pytest.raises(ValueError, match="Trainable variable created"):
        template()
    with pytest.raises(ValueError, match="name cannot be None"):
        hf.make_template(None, template)


# ---------------------------------------------------------------- made or shared, name scopes


def test_auto_reuse_makes_what_does_not_exist():
    def build():
        with hf.variable_scope("a", reuse=hf.AUTO_REUSE):
            with hf.variable_scope("b"):
                return hf.get_variable("v", [2])

    assert build() is build()
    seen = []

    def getter(getter, *args, **keywords):
        seen.append(keywords["reuse"])
        return getter(*args, **keywords)

    with hf.variable_scope("c", reuse=hf.AUTO_REUSE, custom_getter=getter):
        hf.get_variable("w", [])
    assert seen == [hf.AUTO_REUSE]
    with hf.variable_scope("a", reuse=True), pytest.raises(ValueError, match="does not exist"):
        hf.get_variable("other", [])


def test_a_scope_without_a_name_scope():
    with hf.variable_scope("a", auxiliary_name_scope=False) as scope:
        assert scope.original_name_scope == ""
        assert hf.get_variable("v", []).op.name == "a/v"
        assert hf.constant(1, name="c").op.name == "c"
    with hf.name_scope("outside"):
        with hf.variable_scope(None, "b", auxiliary_name_scope=False) as inner:
            assert inner.original_name_scope == "outside/"
            assert hf.get_variable("v", []).op.name == "b/v"
            assert hf.constant(1, name="c").op.name == "outside/c"
    with pytest.raises(TypeError, match="auxiliary_name_scope"):
        hf.variable_scope("a", auxiliary_name_scope="no").__enter__()


def test_defaults_of_types():
    v = hf.get_variable("v", [2])
    assert hf.get_variable("w", [2], dtype=v.dtype).dtype.base_dtype is hf.float32
    text = hf.get_variable("text", [2], dtype=hf.string)
    with hf.Session() as session:
        session.run(text.initializer)
        assert session.run(text).tolist() == [b"", b""]


def test_the_variables_of_a_template():
    def make():
        hf.get_variable("a", [])
        hf.get_variable("b", [], trainable=False)
        hf.get_variable("c", [], collections=[hf.GraphKeys.LOCAL_VARIABLES], trainable=False)

    with hf.Graph().as_default():
        template = hf.make_template("t", make)
        assert template.variables == []
        hf.get_variable("t2", [])
        template()
        template()

        def names(variables):
            return [v.op.name for v in variables]

        assert names(template.global_variables) == ["t/a", "t/b"]
        assert names(template.local_variables) == ["t/c"]
        assert names(template.trainable_variables) == ["t/a"]
        assert names(template.non_trainable_variables) == ["t/b", "t/c"]
        assert template.var_scope is template.variable_scope


def test_partitioned_variables_are_reused_without_a_partitioner():
    with hf.variable_scope("a", partitioner=hf.fixed_size_partitioner(2)):
        v = hf.get_variable("v", [6])
    with hf.variable_scope("a", reuse=True):
        assert hf.get_variable("v") is v
        with pytest.raises(ValueError, match="shape"):
            hf.get_variable("v", [7])


def test_an_initial_value_gives_its_type_to_partitioned_variables():
    parts = hf.create_partitioned_variables([4], [2], hf.constant([1, 2, 3, 4]))
    assert [p.dtype.base_dtype for p in parts] == [hf.int32] * 2


def test_an_initializer_that_needs_no_shape():
    assert hf.get_variable("v", initializer=lambda: [2]).dtype.base_dtype == hf.int32
    assert hf.get_variable("w", initializer=lambda x=1.5: x).shape == []
    with pytest.raises(ValueError, match="fully defined"):
        hf.get_variable("x", initializer=lambda shape: [2])


def test_constraints_of_scopes_and_variables():
    def first(x):
        return x

    def second(x):
        return x

    with hf.variable_scope("a", constraint=first) as scope:
        assert scope.constraint is hf.get_variable("v", []).constraint is first
        assert hf.get_variable("w", [], constraint=second).constraint is second
    assert hf.Variable(1.0, use_resource=True).constraint is None
    with pytest.raises(ValueError, match="must be a callable"):
        hf.Variable(1.0, constraint=3)


def test_what_variables_and_scopes_tell_of_collections():
    with hf.variable_scope("a") as scope:
        v, w = hf.get_variable("v", []), hf.get_local_variable("w", [])
    assert v.trainable and not w.trainable
    assert scope.local_variables() == [w] and scope.global_variables() == [v]


def test_every_thread_has_a_variable_scope_of_its_own():
    names, graph = [], hf.get_default_graph()

    def other():
        with graph.as_default(), hf.variable_scope("b"):
            names.append(hf.get_variable("v", []).name)

    with hf.variable_scope("a"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        names.append(hf.get_variable("v", []).name)
    assert names[1] == "a/v:0" and names[0].endswith("b/v:0")


def test_the_whole_of_a_partitioned_variable_belongs_to_no_branch():
    v = hf.get_variable("v", [4], partitioner=hf.fixed_size_partitioner(2))
    with hf.control_dependencies([hf.no_op()]):
        whole = v.as_tensor()
    joined = whole.op.inputs[0].op
    assert not any(op.control_inputs for op in [whole.op, joined, *(t.op for t in joined.inputs)])


def test_an_empty_regularizer_is_none():
    hf.get_variable("plain", [2], regularizer={})
    hf.get_variable("parts", [4], regularizer={}, partitioner=hf.fixed_size_partitioner(2))
    assert hf.get_collection(hf.GraphKeys.REGULARIZATION_LOSSES) == []


def test_scopes_are_left_in_the_order_of_nesting():
    outer = hf.variable_scope("outer")
    outer.__enter__()
    with hf.variable_scope("inner"):
        with pytest.raises(RuntimeError, match=r"to be left.*outer/inner"):
            outer.__exit__(None, None, None)
        assert hf.get_variable_scope().name == "outer/inner"
    outer.__exit__(None, None, None)
    assert hf.get_variable_scope().name == ""
