"""The sources of the paths below ``hpcflow.core``: protobuf modules."""

from __future__ import annotations

from hpcflow.api.entry import Entry

_PROTO = "tensorboard.compat.proto."
_MORE_PROTOS = "hpcflow.base.formats.protos"

_PROTO_MODULES = {
    "framework": (
        "allocation_description", "api_def", "attr_value", "cost_graph", "function", "graph",
        "node_def", "op_def", "resource_handle", "step_stats", "summary", "tensor",
        "tensor_description", "tensor_shape", "types", "variable", "versions",
    ),
    "profiler": ("tfprof_log",),
    "protobuf": ("config", "debug", "graph_debug_info", "meta_graph", "rewriter_config",
                 "saved_object_graph", "saver", "struct", "trackable_object_graph",
                 "verifier_config"),
    "util": ("event",),
}
# The names by which generated modules refer to those that they import.
_IMPORTED = {f"tensorflow_dot_core_dot_{folder}_dot_{name.replace('_', '__')}__pb2":
             f"{_PROTO}{name}_pb2" for folder, names in _PROTO_MODULES.items() for name in names}
CORE = {
    **{f"{folder}.{name}_pb2": Entry((f"{_PROTO}{name}_pb2",), _IMPORTED)
       for folder, names in _PROTO_MODULES.items() for name in names},
    "framework.summary_pb2": Entry((f"{_PROTO}summary_pb2", f"{_PROTO}histogram_pb2")),
    "protobuf.config_pb2": Entry((f"{_PROTO}config_pb2", f"{_PROTO}rpc_options_pb2")),
    "protobuf.cluster_pb2": Entry((f"{_PROTO}cluster_pb2",)),
    "protobuf.tensorflow_server_pb2": Entry((f"{_PROTO}cluster_pb2", _MORE_PROTOS)),
    "protobuf.saved_model_pb2": Entry((_MORE_PROTOS,)),
    "protobuf.device_properties_pb2": Entry((_MORE_PROTOS,)),
    "protobuf.queue_runner_pb2": Entry((_MORE_PROTOS,)),
    "protobuf.control_flow_pb2": Entry((_MORE_PROTOS,)),
    "example.example_pb2": Entry((_MORE_PROTOS,)),
    "lib.core.error_codes_pb2": Entry(("hpcflow.base.formats.error_codes",)),
    "example.feature_pb2": Entry((_MORE_PROTOS,)),
    "util.test_log_pb2": Entry((_MORE_PROTOS,)),
}  # fmt: skip
