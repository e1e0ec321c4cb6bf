"""Tools on GraphDefs (``hpcflow.graph_util``): parts of graphs, and graphs without variables.

Outermost room: it may use all others. Everything is in `graph_defs`.
"""

from hpcflow.base.late_names import named_otherwise
from hpcflow.graph_util.graph_defs import (
    convert_variables_to_constants,
    extract_sub_graph,
    must_run_on_cpu,
    remove_training_nodes,
    replace_devices,
    set_cpu0,
    tensor_shape_from_node_def_name,
    write_placement,
)
from hpcflow.graph_util.memory import MemoryEstimate, estimate_memory

__all__ = [
    "MemoryEstimate",
    "convert_variables_to_constants",
    "estimate_memory",
    "extract_sub_graph",
    "must_run_on_cpu",
    "remove_training_nodes",
    "replace_devices",
    "set_cpu0",
    "tensor_shape_from_node_def_name",
    "write_placement",
]

__getattr__ = named_otherwise(__name__)
