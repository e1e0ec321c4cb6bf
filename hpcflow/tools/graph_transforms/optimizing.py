"""``python.grappler``: changes of whole MetaGraphs by the names of the optimizers of a config."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpcflow.base.formats.protos import message_class
from hpcflow.graph.importer import split_input
from hpcflow.graph.opdef import registered_ops
from hpcflow.platform.device_lib import list_local_devices
from hpcflow.tools.graph_transforms import TransformGraph

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["Cluster", "OptimizeGraph"]

#: What an optimizer does, by names of transforms; those that only make steps faster, or that a
#: session does in any case, do nothing here.
OPTIMIZERS: dict[str, list[str]] = {
    "pruning": ["strip_unused_nodes"],
    "constfold": ["fold_constants(ignore_errors=true)", "strip_unused_nodes"],
    "arithmetic": ["merge_duplicate_nodes"],
    "common_subgraph_elimination": ["merge_duplicate_nodes"],
    "debug_stripper": [],
    **{name: [] for name in (
        "auto_parallel", "autoparallel", "auto_mixed_precision", "dependency", "function",
        "implementation_selector", "layout", "loop", "memory", "pin_to_host", "remap",
        "scoped_allocator", "shape")},
}
_DEFAULT = ("pruning", "constfold", "arithmetic")


class Cluster:
    """The devices that a graph is meant for.

    `devices` are ``NamedDevice`` messages, those of this process unless given. The other arguments
    are accepted.
    """

    def __init__(self, allow_soft_placement: bool = True, disable_detailed_stats: bool = True,
                 disable_timeline: bool = True, devices: Iterable[Message] | None = None) -> None:
        self._devices = _local_devices() if devices is None else list(devices)

    def ListDevices(self) -> list[Any]:
        """Return the ``NamedDevice`` messages."""
        return list(self._devices)

    def ListAvailableOps(self) -> list[str]:
        """Return the names of all op types in order."""
        return sorted(registered_ops())

    def Shutdown(self) -> None:
        """Forget the devices."""
        self._devices = []


def OptimizeGraph(config_proto: Message, metagraph: Message, verbose: bool = True,
                  graph_id: bytes = b"graph_to_optimize", cluster: Cluster | None = None,
                  strip_default_attributes: bool = False) -> Any:
    """Return the GraphDef of a MetaGraph after the optimizers of a ``ConfigProto``.

    Its ``graph_options.rewrite_options.optimizers`` name them, one after the other; without any,
    the graph is pruned, and constants and common parts are computed once. The nodes of the
    collection ``train_op`` and the outputs of signatures are kept. The graph is the same for all
    clusters; `verbose`, `graph_id` and `strip_default_attributes` are accepted.

    Raises ``TypeError`` for a config of another class, ``ValueError`` where nothing is to be kept,
    or for an optimizer that is not in :data:`OPTIMIZERS`.
    """
    if type(config_proto).DESCRIPTOR.name != "ConfigProto":
        raise TypeError(f"Expected config_proto to be a ConfigProto, saw type {type(config_proto)}")
    meta: Any = metagraph
    options = config_proto.graph_options.rewrite_options  # type: ignore[attr-defined]
    outputs = _kept(meta)
    if not outputs:
        raise ValueError("OptimizeGraph: the MetaGraph has neither a collection train_op nor a "
                         "signature with outputs, so nothing is to be kept")
    graph_def = meta.graph_def
    for name in options.optimizers or _DEFAULT:
        if name not in OPTIMIZERS:
            raise ValueError(f"OptimizeGraph: there is no optimizer '{name}': there are "
                             f"{', '.join(sorted(OPTIMIZERS))}")
        if name == "debug_stripper":
            graph_def = _without_checks(graph_def)
        graph_def = TransformGraph(graph_def, [], outputs, OPTIMIZERS[name])
    return graph_def


def _local_devices() -> list[Any]:
    named = message_class("NamedDevice")
    found = []
    for device in list_local_devices():
        found.append(named(name=device.name))
        found[-1].properties.type = device.device_type
        found[-1].properties.memory_size = device.memory_limit
    return found


def _kept(meta: Any) -> list[str]:
    """The names of the nodes that are fetched."""
    names = list(meta.collection_def["train_op"].node_list.value
                 if "train_op" in meta.collection_def else ())
    names += [info.name for signature in meta.signature_def.values()
              for info in signature.outputs.values()]
    return list(dict.fromkeys(split_input(name)[0] for name in names))


def _without_checks(given: Any) -> Any:
    """The graph in which checks and prints pass their first input on, and assertions do nothing."""
    graph_def = type(given)()
    graph_def.CopyFrom(given)
    for node in graph_def.node:
        if node.op in ("CheckNumerics", "Print"):
            dtype = node.attr["T"].type
            rest = [f"^{split_input(text)[0]}" for text in node.input[1:]]
            node.op, node.input[:] = "Identity", [node.input[0], *dict.fromkeys(rest)]
            node.attr.clear()
            node.attr["T"].type = dtype
        elif node.op in ("Assert", "PrintV2"):
            node.op = "NoOp"
            node.input[:] = list(dict.fromkeys(f"^{split_input(t)[0]}" for t in node.input))
            node.attr.clear()
    return graph_def
