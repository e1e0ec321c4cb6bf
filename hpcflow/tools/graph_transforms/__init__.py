"""``tools.graph_transforms``: changes of GraphDefs by name, for graphs that are to be served.

Each transform is a function of a :class:`~hpcflow.tools.graph_transforms.steps.Task`; begin with
`TRANSFORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.tools.graph_transforms import batch_norms, constants, steps
from hpcflow.tools.graph_transforms.specs import Parameters, read_specs

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["TransformGraph"]

TRANSFORMS: dict[str, Callable[[steps.Task, Parameters], Any]] = {
    "add_default_attributes": steps.add_default_attributes,
    "fold_batch_norms": batch_norms.fold_scales,
    "fold_constants": constants.fold,
    "fold_old_batch_norms": batch_norms.fold_normalizations,
    "merge_duplicate_nodes": steps.merge_duplicates,
    "obfuscate_names": steps.obfuscate_names,
    "quantize_weights": constants.quantize_weights,
    "remove_attribute": steps.remove_attribute,
    "remove_control_dependencies": steps.remove_controls,
    "remove_device": steps.remove_device,
    "remove_nodes": steps.remove_nodes,
    "rename_attribute": steps.rename_attribute,
    "rename_node": steps.rename_node,
    "rename_op": steps.rename_op,
    "round_weights": constants.round_weights,
    "set_device": steps.set_device,
    "sort_by_execution_order": steps.sort,
    "strip_unused_nodes": steps.strip_unused,
}


def TransformGraph(input_graph_def: Message, inputs: Sequence[str], outputs: Sequence[str],
                   transforms: Sequence[str]) -> Any:
    """Return a GraphDef after `transforms`, one after the other.

    Args:
        input_graph_def: the graph, which is left as it is.
        inputs: names of the nodes that are fed.
        outputs: names of the nodes that are fetched.
        transforms: names with parameters, as ``"remove_nodes(op=Identity, op=CheckNumerics)"``.

    Raises ``ValueError`` for a transform that is not in :data:`TRANSFORMS`, or that cannot be read.
    """
    task = steps.Task(input_graph_def, list(inputs), list(outputs))
    for spec in read_specs(transforms):
        if spec.name not in TRANSFORMS:
            raise ValueError(f"Transform '{spec.name}' not recognized: there are "
                             f"{', '.join(sorted(TRANSFORMS))}")
        TRANSFORMS[spec.name](task, spec.parameters)
    return task.graph_def
