"""Iterators over data sets: resources that give one element after the other."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import resource_handle, scalar
from hpcflow.ops.io.datasets import COMPONENTS

__all__: list[str] = []


def _element_shapes(op: Operation) -> list[Dims]:
    return [s._dims for s in op.attr("output_shapes")]


def _scalars(op: Operation) -> list[Dims]:
    return [()] * len(op.outputs)


_ANY = "output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []"

for _op_type in ("Iterator", "IteratorV2"):
    register_op(_op_type, "", "handle: resource",
                f"shared_name: string; container: string; {COMPONENTS}", stateful=True,
                shape=resource_handle)
register_op("OneShotIterator", "", "handle: resource",
            f"dataset_factory: func; {COMPONENTS}; container: string = ''; "
            "shared_name: string = ''", stateful=True, shape=resource_handle)
# Iterators of one step each; the second form says what deletes it.
for _op_type, _more in (("AnonymousIterator", ""), ("AnonymousIteratorV2", "; deleter: variant"),
                        ("AnonymousIteratorV3", "")):
    register_op(_op_type, "", f"handle: resource{_more}", COMPONENTS, stateful=True, shape=_scalars)
    not_differentiable(_op_type)
register_op("DeleteIterator", "handle: resource; deleter: variant", stateful=True)
not_differentiable("DeleteIterator")
register_op("MakeIterator", "dataset: variant; iterator: resource", stateful=True)
for _op_type in ("IteratorGetNext", "IteratorGetNextSync"):
    register_op(_op_type, "iterator: resource", "components: output_types", COMPONENTS,
                stateful=True, shape=_element_shapes)
register_op("IteratorGetNextAsOptional", "iterator: resource", "optional: variant", COMPONENTS,
            stateful=True, shape=scalar)
register_op("IteratorToStringHandle", "resource_handle: resource", "string_handle: string",
            stateful=True, shape=scalar)
for _op_type in ("IteratorFromStringHandle", "IteratorFromStringHandleV2"):
    register_op(_op_type, "string_handle: string", "resource_handle: resource", _ANY,
                stateful=True, shape=scalar)
register_op("SerializeIterator", "resource_handle: resource", "serialized: variant",
            "external_state_policy: int = 0", stateful=True, shape=scalar)
register_op("DeserializeIterator", "resource_handle: resource; serialized: variant", stateful=True)
# The same as a string, for checkpoints.
register_op("_IteratorState", "resource_handle: resource", "state: string", stateful=True,
            shape=scalar)
register_op("_SetIteratorState", "resource_handle: resource; state: string", stateful=True)
register_op("ReduceDataset",
            "input_dataset: variant; initial_state: Tstate; other_arguments: Targuments",
            "components: output_types",
            f"f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; {COMPONENTS}; "
            "use_inter_op_parallelism: bool = true", stateful=True, shape=_element_shapes)
for _op_type in ("DatasetToSingleElement", "ExperimentalDatasetToSingleElement"):
    register_op(_op_type, "dataset: variant", "components: output_types", COMPONENTS,
                stateful=True, shape=_element_shapes)
for _op_type in ("DatasetCardinality", "ExperimentalDatasetCardinality"):
    register_op(_op_type, "input_dataset: variant", "cardinality: int64", shape=scalar)
for _op_type in ("DatasetToTFRecord", "ExperimentalDatasetToTFRecord"):
    register_op(_op_type, "input_dataset: variant; filename: string; compression_type: string",
                stateful=True)
    not_differentiable(_op_type)
not_differentiable(
    "Iterator", "IteratorV2", "OneShotIterator", "MakeIterator", "IteratorGetNext",
    "DatasetCardinality", "ExperimentalDatasetCardinality",
    "IteratorGetNextSync", "IteratorGetNextAsOptional", "IteratorToStringHandle",
    "IteratorFromStringHandle", "IteratorFromStringHandleV2", "SerializeIterator",
    "DeserializeIterator", "_IteratorState", "_SetIteratorState", "ReduceDataset",
    "DatasetToSingleElement", "ExperimentalDatasetToSingleElement")
