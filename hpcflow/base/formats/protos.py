"""Messages of the 1.x formats that ``tensorboard.compat.proto`` lacks, made when first used.

Example and its parts, SequenceExample, CheckpointState, QueueRunnerDef, SavedModel, ServerDef, the
contexts of control flow, reports of benchmarks, and what is in checkpoints of other runtimes: field
numbers and types are those of the published formats, so the bytes are the same, and the names too
(not those of the parts of checkpoints).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from google.protobuf.message import Message

_PACKAGE = "hpcflow"
_BORROWED = "tensorboard."


class _Field(NamedTuple):
    """One field: a scalar type ("int64", ...), or the name of a message."""

    name: str
    number: int
    type: str
    repeated: bool = False
    oneof: str | None = None
    map_value: str | None = None  # of a map from strings
    packed: bool = False


_MESSAGES: dict[str, list[_Field]] = {
    "BytesList": [_Field("value", 1, "bytes", repeated=True)],
    "FloatList": [_Field("value", 1, "float", repeated=True, packed=True)],
    "Int64List": [_Field("value", 1, "int64", repeated=True, packed=True)],
    "Feature": [
        _Field("bytes_list", 1, "BytesList", oneof="kind"),
        _Field("float_list", 2, "FloatList", oneof="kind"),
        _Field("int64_list", 3, "Int64List", oneof="kind"),
    ],
    "Features": [_Field("feature", 1, "", map_value="Feature")],
    "FeatureList": [_Field("feature", 1, "Feature", repeated=True)],
    "FeatureLists": [_Field("feature_list", 1, "", map_value="FeatureList")],
    "Example": [_Field("features", 1, "Features")],
    "SequenceExample": [
        _Field("context", 1, "Features"),
        _Field("feature_lists", 2, "FeatureLists"),
    ],
    # The same messages with the numbers of a list left as they are encoded.
    "EncodedList": [_Field("value", 1, "bytes", repeated=True)],
    "EncodedFeature": [
        _Field("bytes_list", 1, "BytesList", oneof="kind"),
        _Field("float_list", 2, "EncodedList", oneof="kind"),
        _Field("int64_list", 3, "EncodedList", oneof="kind"),
    ],
    "EncodedFeatures": [_Field("feature", 1, "", map_value="EncodedFeature")],
    "EncodedFeatureList": [_Field("feature", 1, "EncodedFeature", repeated=True)],
    "EncodedFeatureLists": [_Field("feature_list", 1, "", map_value="EncodedFeatureList")],
    "EncodedExample": [_Field("features", 1, "EncodedFeatures")],
    "EncodedSequenceExample": [
        _Field("context", 1, "EncodedFeatures"),
        _Field("feature_lists", 2, "EncodedFeatureLists"),
    ],
    "ReaderBaseState": [
        _Field("work_started", 1, "int64"),
        _Field("work_finished", 2, "int64"),
        _Field("num_records_produced", 3, "int64"),
        _Field("current_work", 4, "bytes"),
    ],
    "EntryValue": [
        _Field("double_value", 1, "double", oneof="kind"),
        _Field("string_value", 2, "string", oneof="kind"),
    ],
    "BenchmarkEntry": [
        _Field("name", 1, "string"),
        _Field("iters", 2, "int64"),
        _Field("cpu_time", 3, "double"),
        _Field("wall_time", 4, "double"),
        _Field("throughput", 5, "double"),
        _Field("extras", 6, "", map_value="EntryValue"),
    ],
    "BenchmarkEntries": [_Field("entry", 1, "BenchmarkEntry", repeated=True)],
    "BoolList": [_Field("value", 1, "bool", repeated=True, packed=True)],
    "HParamType": [
        _Field("int64_value", 1, "int64", oneof="kind"),
        _Field("float_value", 2, "float", oneof="kind"),
        _Field("bytes_value", 3, "bytes", oneof="kind"),
        _Field("bool_value", 7, "bool", oneof="kind"),
        _Field("int64_list", 4, "Int64List", oneof="kind"),
        _Field("float_list", 5, "FloatList", oneof="kind"),
        _Field("bytes_list", 6, "BytesList", oneof="kind"),
        _Field("bool_list", 8, "BoolList", oneof="kind"),
    ],
    "DeviceProperties": [
        _Field("type", 1, "string"),
        _Field("vendor", 2, "string"),
        _Field("model", 3, "string"),
        _Field("frequency", 4, "int64"),
        _Field("num_cores", 5, "int64"),
        _Field("environment", 6, "", map_value="string"),
        _Field("num_registers", 7, "int64"),
        _Field("l1_cache_size", 8, "int64"),
        _Field("l2_cache_size", 9, "int64"),
        _Field("l3_cache_size", 10, "int64"),
        _Field("shared_memory_size_per_multiprocessor", 11, "int64"),
        _Field("memory_size", 12, "int64"),
        _Field("bandwidth", 13, "int64"),
    ],
    "NamedDevice": [_Field("name", 1, "string"), _Field("properties", 2, "DeviceProperties")],
    "HParamDef": [_Field("hparam", 1, "", map_value="HParamType")],
    "CheckpointState": [
        _Field("model_checkpoint_path", 1, "string"),
        _Field("all_model_checkpoint_paths", 2, "string", repeated=True),
        _Field("all_model_checkpoint_timestamps", 3, "double", repeated=True),
        _Field("last_preserved_timestamp", 4, "double"),
    ],
    "QueueRunnerDef": [
        _Field("queue_name", 1, "string"),
        _Field("enqueue_op_name", 2, "string", repeated=True),
        _Field("close_op_name", 3, "string"),
        _Field("cancel_op_name", 4, "string"),
        _Field("queue_closed_exception_types", 5, "int32", repeated=True, packed=True),
    ],
    "ValuesDef": [
        _Field("values", 1, "string", repeated=True),
        _Field("external_values", 2, "", map_value="string"),
    ],
    "CondContextDef": [
        _Field("context_name", 1, "string"),
        _Field("pred_name", 2, "string"),
        _Field("pivot_name", 3, "string"),
        _Field("branch", 4, "int32"),
        _Field("values_def", 5, "ValuesDef"),
        _Field("nested_contexts", 6, "ControlFlowContextDef", repeated=True),
    ],
    "WhileContextDef": [
        _Field("context_name", 1, "string"),
        _Field("parallel_iterations", 2, "int32"),
        _Field("back_prop", 3, "bool"),
        _Field("swap_memory", 4, "bool"),
        _Field("pivot_name", 5, "string"),
        _Field("pivot_for_pred_name", 6, "string"),
        _Field("pivot_for_body_name", 7, "string"),
        _Field("loop_exit_names", 8, "string", repeated=True),
        _Field("values_def", 9, "ValuesDef"),
        _Field("loop_enter_names", 10, "string", repeated=True),
        _Field("maximum_iterations_name", 11, "string"),
        _Field("nested_contexts", 12, "ControlFlowContextDef", repeated=True),
    ],
    "ControlFlowContextDef": [
        _Field("cond_ctxt", 1, "CondContextDef", oneof="ctxt"),
        _Field("while_ctxt", 2, "WhileContextDef", oneof="ctxt"),
    ],
    "BundleHeader": [
        _Field("num_shards", 1, "int32"),
        _Field("endianness", 2, "int32"),
        _Field("version", 3, _BORROWED + "VersionDef"),
    ],
    "TensorSliceExtent": [
        _Field("start", 1, "int64"),
        _Field("length", 2, "int64", oneof="has_length"),
    ],
    "TensorSlice": [_Field("extent", 1, "TensorSliceExtent", repeated=True)],
    "BundleEntry": [
        _Field("dtype", 1, "int32"),
        _Field("shape", 2, _BORROWED + "TensorShapeProto"),
        _Field("shard_id", 3, "int32"),
        _Field("offset", 4, "int64"),
        _Field("size", 5, "int64"),
        _Field("crc32c", 6, "fixed32"),
        _Field("slices", 7, "TensorSlice", repeated=True),
    ],
    "SavedSliceMeta": [
        _Field("name", 1, "string"),
        _Field("shape", 2, _BORROWED + "TensorShapeProto"),
        _Field("type", 3, "int32"),
        _Field("slice", 4, "TensorSlice", repeated=True),
    ],
    "SavedTensorSliceMeta": [_Field("tensor", 1, "SavedSliceMeta", repeated=True)],
    "SavedSlice": [
        _Field("name", 1, "string"),
        _Field("slice", 2, "TensorSlice"),
        _Field("data", 3, _BORROWED + "TensorProto"),
    ],
    "SavedTensorSlices": [
        _Field("meta", 1, "SavedTensorSliceMeta"),
        _Field("data", 2, "SavedSlice"),
    ],
    "SavedModel": [
        _Field("saved_model_schema_version", 1, "int64"),
        _Field("meta_graphs", 2, _BORROWED + "MetaGraphDef", repeated=True),
    ],
    "ServerDef": [
        _Field("cluster", 1, _BORROWED + "ClusterDef"),
        _Field("job_name", 2, "string"),
        _Field("task_index", 3, "int32"),
        _Field("default_session_config", 4, _BORROWED + "ConfigProto"),
        _Field("protocol", 5, "string"),
    ],
}
_FILES_BORROWED = ("cluster", "config", "meta_graph", "tensor", "tensor_shape", "versions")
_classes: dict[str, Any] = {}


def message_class(name: str) -> Any:
    """The class of message `name`. Raises KeyError for a name that is not made here."""
    if name not in _MESSAGES:
        raise KeyError(f"no message called {name!r}; there are {', '.join(sorted(_MESSAGES))}")
    if not _classes:
        _make_classes()
    return _classes[name]


def __getattr__(name: str) -> Any:
    if name not in _MESSAGES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return message_class(name)


def server_def(cluster_def: Message, job_name: str, task_index: int, protocol: str = "",
               config: Message | None = None) -> Any:
    """Return the ``ServerDef`` of one task of a cluster."""
    proto = message_class("ServerDef")(
        cluster=cluster_def, job_name=job_name, task_index=task_index, protocol=protocol)
    if config is not None:
        proto.default_session_config.CopyFrom(config)
    return proto


def _make_classes() -> None:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="hpcflow/protos.proto", package=_PACKAGE, syntax="proto3")
    for borrowed in _FILES_BORROWED:
        importlib.import_module(f"tensorboard.compat.proto.{borrowed}_pb2")
        file.dependency.append(f"tensorboard/compat/proto/{borrowed}.proto")
    for name, fields in _MESSAGES.items():
        _add_message(file.message_type.add(name=name), fields)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    for name in _MESSAGES:
        descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
        _classes[name] = message_factory.GetMessageClass(descriptor)


def _add_message(message: Message, fields: list[_Field]) -> None:
    for field in fields:
        added = message.field.add(name=field.name, number=field.number)
        added.label = added.LABEL_REPEATED if field.repeated else added.LABEL_OPTIONAL
        if field.map_value is not None:
            _make_map(message, added, field.map_value)
        else:
            _set_type(added, field.type)
        if field.packed:
            added.options.packed = True
        if field.oneof is not None:
            if not message.oneof_decl:
                message.oneof_decl.add(name=field.oneof)
            added.oneof_index = 0


def _make_map(message: Message, field: Message, value_type: str) -> None:
    """A map is a repeated message of keys and values, by convention named after the field."""
    entry_name = "".join(word.capitalize() for word in field.name.split("_")) + "Entry"
    entry = message.nested_type.add(name=entry_name)
    entry.options.map_entry = True
    _add_message(entry, [_Field("key", 1, "string"), _Field("value", 2, value_type)])
    field.label = field.LABEL_REPEATED
    field.type = field.TYPE_MESSAGE
    field.type_name = f".{_PACKAGE}.{message.name}.{entry_name}"


def _set_type(field: Message, type_name: str) -> None:
    if type_name.islower():
        field.type = getattr(field, f"TYPE_{type_name.upper()}")
        return
    field.type = field.TYPE_MESSAGE
    borrowed = type_name.startswith(_BORROWED)
    field.type_name = f".{type_name}" if borrowed else f".{_PACKAGE}.{type_name}"
