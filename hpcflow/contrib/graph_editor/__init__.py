"""``contrib.graph_editor``: selecting parts of a graph, copying them, and changing what is read."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.graph_editor.connecting import (
    bypass,
    connect,
    detach,
    detach_control_inputs,
    detach_control_outputs,
    detach_inputs,
    detach_outputs,
    make_placeholder_from_dtype_and_shape,
    make_placeholder_from_tensor,
    placeholder_name,
    reroute_inputs,
    reroute_ios,
    reroute_outputs,
    swap_inputs,
    swap_ios,
    swap_outputs,
)
from hpcflow.contrib.graph_editor.copying import (
    TransformerInfo,
    copy,
    copy_with_input_replacements,
    graph_replace,
)
from hpcflow.contrib.graph_editor.rerouting import (
    add_control_inputs,
    remove_control_inputs,
    reroute_ts,
    swap_ts,
)
from hpcflow.contrib.graph_editor.selecting import (
    can_be_regex,
    filter_ops,
    filter_ops_from_regex,
    filter_ts,
    filter_ts_from_regex,
    get_consuming_ops,
    get_generating_ops,
    get_name_scope_ops,
    get_tensors,
    make_list_of_op,
    make_list_of_t,
    make_regex,
    select_ops,
    select_ops_and_ts,
    select_ts,
)
from hpcflow.contrib.graph_editor.views import (
    SubGraphView,
    make_view,
    make_view_from_scope,
)
from hpcflow.contrib.graph_editor.walks import (
    ControlOutputs,
    check_cios,
    compute_boundary_ts,
    get_backward_walk_ops,
    get_forward_walk_ops,
    get_ops_ios,
    get_walks_intersection_ops,
    get_walks_union_ops,
    get_within_boundary_ops,
)

ph = make_placeholder_from_dtype_and_shape
sgv = make_view
sgv_scope = make_view_from_scope
ops = select_ops
ts = select_ts

__all__ = [
    "ControlOutputs", "SubGraphView", "TransformerInfo", "add_control_inputs", "bypass",
    "can_be_regex", "check_cios", "compute_boundary_ts", "connect", "copy",
    "copy_with_input_replacements", "detach", "detach_control_inputs", "detach_control_outputs",
    "detach_inputs", "detach_outputs", "filter_ops", "filter_ops_from_regex", "filter_ts",
    "filter_ts_from_regex", "get_backward_walk_ops", "get_consuming_ops", "get_forward_walk_ops",
    "get_generating_ops", "get_name_scope_ops", "get_ops_ios", "get_tensors",
    "get_walks_intersection_ops", "get_walks_union_ops", "get_within_boundary_ops", "graph_replace",
    "make_list_of_op", "make_list_of_t", "make_placeholder_from_dtype_and_shape",
    "make_placeholder_from_tensor", "make_regex", "make_view", "make_view_from_scope", "ops", "ph",
    "placeholder_name", "remove_control_inputs", "reroute_inputs", "reroute_ios", "reroute_outputs",
    "reroute_ts", "select_ops", "select_ops_and_ts", "select_ts", "sgv", "sgv_scope", "swap_inputs",
    "swap_ios", "swap_outputs", "swap_ts", "ts",
]  # fmt: skip

__getattr__ = named_otherwise(__name__)
