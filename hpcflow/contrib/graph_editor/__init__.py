"""``contrib.graph_editor``: selecting parts of a graph, copying them, and changing what is read."""

from hpcflow.contrib.graph_editor.copying import (
    SubGraphView,
    TransformerInfo,
    copy,
    copy_with_input_replacements,
    graph_replace,
    make_view,
    make_view_from_scope,
)
from hpcflow.contrib.graph_editor.rerouting import (
    add_control_inputs,
    remove_control_inputs,
    reroute_ts,
    swap_ts,
)
from hpcflow.contrib.graph_editor.selecting import (
    filter_ops,
    filter_ops_from_regex,
    filter_ts,
    filter_ts_from_regex,
    get_backward_walk_ops,
    get_consuming_ops,
    get_forward_walk_ops,
    get_generating_ops,
    get_name_scope_ops,
    get_tensors,
    get_walks_intersection_ops,
    get_walks_union_ops,
    make_list_of_op,
    make_list_of_t,
    select_ops,
    select_ts,
)

sgv = make_view
sgv_scope = make_view_from_scope
ops = select_ops
ts = select_ts

__all__ = [
    "SubGraphView", "TransformerInfo", "add_control_inputs", "copy",
    "copy_with_input_replacements", "filter_ops", "filter_ops_from_regex", "filter_ts",
    "filter_ts_from_regex", "get_backward_walk_ops", "get_consuming_ops", "get_forward_walk_ops",
    "get_generating_ops", "get_name_scope_ops", "get_tensors", "get_walks_intersection_ops",
    "get_walks_union_ops", "graph_replace", "make_list_of_op", "make_list_of_t", "make_view",
    "make_view_from_scope", "ops", "remove_control_inputs", "reroute_ts", "select_ops",
    "select_ts", "sgv", "sgv_scope", "swap_ts", "ts",
]  # fmt: skip
