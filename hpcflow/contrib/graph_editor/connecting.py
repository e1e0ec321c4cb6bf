"""Taking views out of what they are connected with, and connecting them with others."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.graph_editor.rerouting import remove_control_inputs, reroute_ts, swap_ts
from hpcflow.contrib.graph_editor.views import SubGraphView, make_view
from hpcflow.contrib.graph_editor.walks import ControlOutputs, check_cios
from hpcflow.dtypes import as_dtype
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.constants import placeholder

PREFIX = "geph"

Views = tuple[SubGraphView, SubGraphView]


def placeholder_name(t: Tensor | None = None, scope: str | None = None,
                     prefix: str = PREFIX) -> str:
    """Return a name for a placeholder in the place of `t`, in `scope` or in that of `t`."""
    if t is None:
        return f"{scope.rstrip('/')}/{prefix}" if scope else prefix
    folder, _, name = t.op.name.rpartition("/")
    folder = folder if scope is None else scope.rstrip("/")
    return f"{folder + '/' if folder else ''}{prefix}__{name}_{t.value_index}"


def make_placeholder_from_tensor(t: Tensor, scope: str | None = None,
                                 prefix: str = PREFIX) -> Tensor:
    """Return a placeholder of the type and shape of `t`."""
    return make_placeholder(t.dtype, t.shape, placeholder_name(t, scope, prefix), t.graph)


def make_placeholder_from_dtype_and_shape(dtype: Any, shape: Any = None, scope: str | None = None,
                                          prefix: str = PREFIX) -> Tensor:
    """Return a placeholder of a type and a shape."""
    return make_placeholder(dtype, shape, placeholder_name(None, scope, prefix),
                            get_default_graph())


def make_placeholder(dtype: Any, shape: Any, name: str, graph: Graph) -> Tensor:
    """Return a placeholder with a name of its own, in no scope, that waits for nothing."""
    with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
        return placeholder(as_dtype(dtype).base_dtype, shape, name=name)


# ---------------------------------------------------------------- taking out


def detach_inputs(sgv: Any, control_inputs: bool = False) -> tuple[SubGraphView, list[Tensor]]:
    """Let a view read placeholders in the place of its inputs; returns the view and these."""
    view = make_view(sgv)
    made = [make_placeholder_from_tensor(t) for t in view.inputs]
    reroute_ts(made, view.inputs, can_modify=view.ops)
    view._inputs = list(made)
    if control_inputs:
        detach_control_inputs(view)
    return view, made


def detach_outputs(sgv: Any, control_outputs: ControlOutputs | None = None
                   ) -> tuple[SubGraphView, list[Tensor]]:
    """Let the readers of a view's outputs, other than its own operations, read placeholders in
    their place; returns the view and these, one for each output that is read."""
    view = make_view(sgv)
    outputs = [t for t in dict.fromkeys(view.outputs) if t.consumers()]
    made = [make_placeholder_from_tensor(t) for t in outputs]
    reroute_ts(made, outputs, cannot_modify=view.ops)
    if control_outputs is not None:
        detach_control_outputs(view, control_outputs)
    return view, made


def detach(sgv: Any, control_inputs: bool = False, control_outputs: ControlOutputs | None = None,
           control_ios: ControlOutputs | None = None
           ) -> tuple[SubGraphView, list[Tensor], list[Tensor]]:
    """Detach the inputs and the outputs; returns the view and both lists of placeholders."""
    controls = check_cios(control_inputs, control_outputs, control_ios)
    view, inputs = detach_inputs(sgv, controls[0])
    _, outputs = detach_outputs(view, controls[1])
    return view, inputs, outputs


def detach_control_inputs(sgv: Any) -> None:
    """Let the operations of a view no longer wait for others than their own."""
    view = make_view(sgv)
    for op in view.ops:
        outside = [c for c in op.control_inputs if c not in set(view.ops)]
        remove_control_inputs(op, outside)


def detach_control_outputs(sgv: Any, control_outputs: ControlOutputs) -> None:
    """Let nobody outside wait for the operations of a view."""
    view = make_view(sgv)
    inside = set(view.ops)
    for op in view.ops:
        for other in control_outputs.get(op):
            if other not in inside:
                remove_control_inputs(other, op)


def bypass(sgv: Any) -> tuple[SubGraphView, list[Tensor]]:
    """Let the readers of each output of a view read its input at the same place; the view reads
    placeholders then, which are returned with it.

    Raises ``ValueError`` if the view does not have as many inputs as outputs.
    """
    view = make_view(sgv)
    inputs = view.inputs
    reroute_ts(inputs, view.outputs, cannot_modify=view.ops)
    return detach_inputs(view)


# ---------------------------------------------------------------- connecting


def connect(sgv0: Any, sgv1: Any, disconnect_first: bool = False) -> Views:
    """Let the second view read the outputs of the first in the place of its inputs; with
    `disconnect_first` these outputs are detached before."""
    first, second = _two_views(sgv0, sgv1)
    if disconnect_first:
        detach_outputs(first)
    _read(first.outputs, second)
    return first, second


def reroute_inputs(sgv0: Any, sgv1: Any) -> Views:
    """Let the second view read what the first reads."""
    first, second = _two_views(sgv0, sgv1)
    _read(first.inputs, second)
    return first, second


def reroute_outputs(sgv0: Any, sgv1: Any) -> Views:
    """Let the readers of the second view's outputs read those of the first."""
    first, second = _two_views(sgv0, sgv1)
    reroute_ts(first.outputs, second.outputs, cannot_modify=first.ops)
    return first, second


def reroute_ios(sgv0: Any, sgv1: Any) -> Views:
    """Reroute the inputs and the outputs."""
    reroute_inputs(sgv0, sgv1)
    return reroute_outputs(sgv0, sgv1)


def swap_inputs(sgv0: Any, sgv1: Any) -> Views:
    """Let each view read what the other reads."""
    first, second = _two_views(sgv0, sgv1)
    swap_ts(first.inputs, second.inputs, can_modify=[*first.ops, *second.ops])
    first._inputs, second._inputs = second._inputs, first._inputs
    return first, second


def swap_outputs(sgv0: Any, sgv1: Any) -> Views:
    """Let the readers of each view's outputs read those of the other."""
    first, second = _two_views(sgv0, sgv1)
    swap_ts(first.outputs, second.outputs, cannot_modify=[*first.ops, *second.ops])
    return first, second


def swap_ios(sgv0: Any, sgv1: Any) -> Views:
    """Swap the inputs and the outputs."""
    swap_inputs(sgv0, sgv1)
    return swap_outputs(sgv0, sgv1)


def _two_views(sgv0: Any, sgv1: Any) -> Views:
    first, second = make_view(sgv0), make_view(sgv1)
    if first.graph is not second.graph:
        raise ValueError("The two views are of different graphs")
    return first, second


def _read(sources: list[Tensor], view: SubGraphView) -> None:
    reroute_ts(sources, view.inputs, can_modify=view.ops)
    view._inputs = list(sources)
