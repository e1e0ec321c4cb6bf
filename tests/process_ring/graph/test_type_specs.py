"""Specifications of sparse tensors and slices, and statistics of op types."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.framework import ops, type_spec


def test_a_specification_of_sparse_tensors() -> None:
    sparse = hf.SparseTensor([[0, 1], [2, 0]], [1.5, -2.0], [3, 4])
    spec = hf.SparseTensorSpec([None, 4])
    assert spec.is_compatible_with(sparse)
    assert spec.is_compatible_with(hf.SparseTensorValue([[0, 1]], np.float32([1.5]), [3, 4]))
    assert not spec.is_compatible_with(hf.zeros([3, 4]))
    assert not hf.SparseTensorSpec([5, 4]).is_compatible_with(sparse)
    assert not hf.SparseTensorSpec([3, 4], hf.int32).is_compatible_with(sparse)
    assert hf.SparseTensorSpec.from_value(sparse) == hf.SparseTensorSpec([3, 4], hf.float32)
    assert spec != hf.SparseTensorSpec([3, 4]) and len({spec, copy.copy(spec)}) == 1
    both = hf.SparseTensorSpec([3, 4]).most_specific_compatible_type(hf.SparseTensorSpec([7, 4]))
    assert both == spec
    with pytest.raises(ValueError, match="not compatible"):
        spec.most_specific_compatible_type(hf.SparseTensorSpec([3, 4], hf.int32))
    with pytest.raises(TypeError, match="SparseTensor"):
        hf.SparseTensorSpec.from_value([1.0])


def test_sparse_tensors_as_components_and_as_one_tensor() -> None:
    sparse = hf.SparseTensor([[0, 1], [2, 0]], [1.5, -2.0], [3, 4])
    spec = hf.SparseTensorSpec([3, 4])
    again = spec._from_tensor_list(spec._to_tensor_list(sparse))
    parts = spec._from_components(spec._to_components(sparse))
    assert again.indices.get_shape().as_list() == [None, 2]
    with hf.Session() as session:
        for value in session.run([again, parts]):
            assert np.array_equal(value.indices, [[0, 1], [2, 0]])
            assert np.array_equal(value.values, [1.5, -2.0])
            assert np.array_equal(value.dense_shape, [3, 4])


def test_a_specification_of_slices() -> None:
    slices = hf.IndexedSlices(hf.zeros([2, 5]), hf.constant([0, 3]), hf.constant([9, 5]))
    spec = hf.IndexedSlicesSpec([9, 5], hf.float32, hf.int32, hf.int32, [2])
    assert hf.IndexedSlicesSpec.from_value(slices) == spec and spec.is_compatible_with(slices)
    assert not hf.IndexedSlicesSpec([9, 5], hf.float32, hf.int32).is_compatible_with(slices)
    assert spec._component_specs == (hf.TensorSpec([2, 5]), hf.TensorSpec([2], hf.int32),
                                     hf.TensorSpec([2], hf.int32))
    again = spec._from_components(spec._to_components(slices))
    assert again.values is slices.values and again.dense_shape is slices.dense_shape
    with pytest.raises(ValueError, match="rank"):
        hf.IndexedSlicesSpec(indices_shape=[2, 2])


def test_the_specification_that_a_value_has() -> None:
    sparse = hf.SparseTensor([[0, 1]], [1.5], [3, 4])
    slices = hf.IndexedSlices(hf.zeros([2, 5]), hf.constant([0, 3]))
    found = [type_spec.type_spec_from_value(value)
             for value in (sparse, slices, hf.zeros([2]), np.zeros(3))]
    assert found == [hf.SparseTensorSpec([3, 4]),
                     hf.IndexedSlicesSpec([None, 5], indices_dtype=hf.int32, indices_shape=[2]),
                     hf.TensorSpec([2]), hf.TensorSpec([3], hf.float64)]
    with pytest.raises(TypeError, match="TypeSpec"):
        type_spec.type_spec_from_value(object())


def test_statistics_of_op_types() -> None:
    @ops.RegisterStatistics("Cumsum", "test_flops")
    def additions(graph: hf.Graph, node: object) -> ops.OpStats:
        op = graph.get_operation_by_name(node.name)  # type: ignore[attr-defined]
        return ops.OpStats("test_flops", op.inputs[0].get_shape().num_elements())

    with pytest.raises(KeyError, match="registered already"):
        ops.RegisterStatistics("Cumsum", "test_flops")(additions)
    node = hf.cumsum(hf.zeros([3, 4])).op.node_def
    graph, total = hf.get_default_graph(), ops.OpStats("test_flops")
    total += ops.get_stats_for_node_def(graph, node, "test_flops")
    total += ops.get_stats_for_node_def(graph, node, "test_flops")
    assert total.value == 24
    assert ops.get_stats_for_node_def(graph, node, "other").value is None
    with pytest.raises(ValueError, match="type other"):
        total += ops.OpStats("other", 1)


def test_the_readers_of_a_sparse_tensor() -> None:
    sparse = hf.SparseTensor([[0, 1]], [1.5], [3, 4])
    assert sparse.consumers() == []
    dense = hf.sparse_tensor_to_dense(sparse)
    assert sparse.consumers() == [dense.op]


def test_a_class_of_a_program_gets_its_specification_by_a_function():
    from hpcflow.python.framework import type_spec

    class Pair:
        def __init__(self, x, labels):
            self.x, self.labels = x, labels

    class PairSpec(type_spec.TypeSpec):
        value_type = Pair

        def __init__(self, shape, labels):
            self.shape, self.labels = hf.TensorShape(shape), labels

        def _serialize(self):
            return self.shape, self.labels

    type_spec.register_type_spec_from_value_converter(
        Pair, lambda pair: PairSpec(pair.x.shape, pair.labels))
    labels = {"names": np.array(["a", "b"])}
    spec = type_spec.type_spec_from_value(Pair(hf.zeros([2, 3]), labels))
    assert spec == PairSpec([2, 3], {"names": np.array(["a", "b"])})
    assert hash(spec) == hash(PairSpec([2, 3], dict(labels)))
    assert spec != PairSpec([2, 3], {"names": np.array(["a", "c"])})
    assert PairSpec([2, None], labels).is_compatible_with(spec)
    assert spec.most_specific_compatible_type(PairSpec([5, 3], labels)) == PairSpec(
        [None, 3], labels)


def test_float_operations_of_a_node():
    product = hf.matmul(hf.zeros([25, 16]), hf.zeros([16, 9]))
    unknown = hf.matmul(hf.placeholder(hf.float32), hf.zeros([16, 9]))
    stats = [ops.get_stats_for_node_def(t.graph, t.op.node_def, "flops")
             for t in (product, unknown)]
    assert [s.value for s in stats] == [7200, None]


def test_the_name_that_two_specifications_agree_on() -> None:
    one, same = hf.TensorSpec([4], hf.float32, "a"), hf.TensorSpec([None], hf.float32, "a")
    other = hf.TensorSpec([4], hf.float32, "b")
    assert one.most_specific_compatible_type(same) == same
    assert one.most_specific_compatible_type(other) == hf.TensorSpec([4], hf.float32)


def test_composite_tensors_are_instances_of_a_class() -> None:
    from hpcflow.python.framework.composite_tensor import CompositeTensor

    class Mine(CompositeTensor):
        pass

    sparse = hf.SparseTensor([[0]], [1.0], [3])
    assert isinstance(Mine(), CompositeTensor) and isinstance(sparse, CompositeTensor)
    assert not isinstance(sparse.values, CompositeTensor)


def test_specifications_of_batches() -> None:
    spec = hf.TensorSpec([3], hf.int32)
    assert isinstance(spec, type_spec.BatchableTypeSpec)
    assert isinstance(hf.SparseTensorSpec([3]), type_spec.BatchableTypeSpec)
    assert spec._batch(None) == hf.TensorSpec([None, 3], hf.int32)
    assert spec._batch(2)._unbatch() == spec
    with pytest.raises(ValueError, match="Unbatching a tensor is only supported for rank >= 1"):
        hf.TensorSpec([])._unbatch()
