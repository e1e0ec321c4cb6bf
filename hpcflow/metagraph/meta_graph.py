"""MetaGraphs: a GraphDef with its collections and its saver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hpcflow.base import program_log
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.importer import import_graph_def
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import COLOCATION_ATTR, Operation, Tensor
from hpcflow.metagraph import trimming
from hpcflow.metagraph.collection_protos import proto_functions
from hpcflow.metagraph.placing import replace_devices
from hpcflow.ops.common.slice_info import prepend_scope, strip_scope
from hpcflow.ops.flow.control_flow_context import ENTER_TYPES
from hpcflow.storage.whole_files import write_atomically

if TYPE_CHECKING:
    from google.protobuf.message import Message

UNBOUND_INPUTS = "unbound_inputs"
_FORMAT_VERSION = "1.0.0"
_UNBOUND_PREFIX = "$unbound_inputs_"


# ---------------------------------------------------------------- export


def export_meta_graph(filename: str | None = None, meta_info_def: Any = None,
                      graph_def: Message | None = None, saver_def: Message | None = None,
                      collection_list: Any = None, as_text: bool = False,
                      graph: Graph | None = None, export_scope: str | None = None,
                      clear_devices: bool = False, clear_extraneous_savers: bool = False,
                      strip_default_attrs: bool = False, save_debug_info: bool = False,
                      **kwargs: Any) -> Any:
    """Return the ``MetaGraphDef`` of a graph, and write it to `filename` if that is given.

    Args:
        filename: file to write, in the binary form, or as text with `as_text`.
        meta_info_def: a ``MetaInfoDef`` to include.
        graph_def: the GraphDef; made from `graph` by default.
        saver_def: the ``SaverDef`` to include.
        collection_list: names of the collections to include; all by default.
        graph: the graph; the default graph by default.
        export_scope: only operations under this name scope, which is left out of their names.
            Inputs from outside become the collection "unbound_inputs", to be mapped on import.
        clear_devices: leave out the devices.
        clear_extraneous_savers: leave out the operations of savers other than `saver_def`.
        strip_default_attrs: leave out attributes that have their default values.
        save_debug_info: accepted for the 1.x API.

    Items of collections that have no protobuf form are left out with a warning, once; what is to
    be saved besides variables (``SAVEABLE_OBJECTS``) without one.
    """
    if kwargs:
        raise TypeError(f"export_meta_graph got unexpected arguments: {', '.join(sorted(kwargs))}")
    from tensorboard.compat.proto import meta_graph_pb2

    graph = graph or get_default_graph()
    scope = None if export_scope is None else export_scope.rstrip("/")
    meta = meta_graph_pb2.MetaGraphDef()
    if meta_info_def is not None:
        meta.meta_info_def.MergeFrom(meta_info_def)
    meta.graph_def.MergeFrom(graph_def or graph.as_graph_def(add_shapes=True))
    if scope:
        _keep_scope(meta, scope)
    if clear_devices:
        for node in meta.graph_def.node:
            node.device = ""
    _describe(meta)
    if saver_def is not None:
        meta.saver_def.MergeFrom(saver_def)
    for name in collection_list or graph.get_all_collection_keys():
        _add_collection(meta, graph, name, scope)
    if clear_extraneous_savers:
        trimming.clear_extraneous_savers(meta)
    if strip_default_attrs:
        trimming.strip_default_attrs(meta)
    if filename is not None:
        _write(filename, meta, as_text)
    return meta


def _describe(meta: Message) -> None:
    """Fill in the meta information of a MetaGraph: versions, and the list of its op types."""
    from hpcflow.graph.opdef import get_op_def, has_op
    from hpcflow.version import __version__

    info = meta.meta_info_def
    # Readers compare the first with versions of the format; the second says who wrote it.
    info.tensorflow_version = info.tensorflow_version or _FORMAT_VERSION
    info.tensorflow_git_version = info.tensorflow_git_version or f"hpcflow {__version__}"
    if not info.stripped_op_list.op:
        for op_type in sorted({node.op for node in meta.graph_def.node}):
            if has_op(op_type):
                info.stripped_op_list.op.add().CopyFrom(get_op_def(op_type).to_proto())


def _keep_scope(meta: Message, scope: str) -> None:
    """Keep the nodes under `scope`, named relative to it."""
    inside = [n for n in meta.graph_def.node if n.name.startswith(scope + "/")]
    unbound: list[str] = []
    for node in inside:
        node.name = strip_scope(node.name, scope)
        node.input[:] = [_relative_input(text, scope, unbound) for text in node.input]
        if node.op in ENTER_TYPES:
            frame = node.attr["frame_name"].s.decode()
            node.attr["frame_name"].s = strip_scope(frame, scope).encode()
        if COLOCATION_ATTR in node.attr:
            groups = node.attr[COLOCATION_ATTR].list.s
            kept = [_relative_group(g, scope) for g in groups if _in_scope(g, scope)]
            groups[:] = kept
            if not kept:
                del node.attr[COLOCATION_ATTR]
    kept_nodes = [type(n).FromString(n.SerializeToString()) for n in inside]
    del meta.graph_def.node[:]
    meta.graph_def.node.extend(kept_nodes)
    if unbound:
        values = [name.encode() for name in dict.fromkeys(unbound)]
        meta.collection_def[UNBOUND_INPUTS].bytes_list.value.extend(values)


def _relative_input(text: str, scope: str, unbound: list[str]) -> str:
    mark = "^" if text.startswith("^") else ""
    name = text[len(mark):]
    if name.startswith(scope + "/"):
        return mark + strip_scope(name, scope)
    outside = f"{mark}{_UNBOUND_PREFIX}{name}"
    unbound.append(outside)
    return outside


def _in_scope(group: bytes, scope: str) -> bool:
    return group.startswith(b"loc:@" + scope.encode() + b"/")


def _relative_group(group: bytes, scope: str) -> bytes:
    return b"loc:@" + strip_scope(group[len(b"loc:@"):].decode(), scope).encode()


def _add_collection(meta: Message, graph: Graph, name: str, scope: str | None) -> None:
    try:
        _fill_collection(meta.collection_def[name], name, graph.get_collection(name), scope)
    except (TypeError, ValueError, AttributeError) as error:
        del meta.collection_def[name]
        told = _told.setdefault(graph, set())
        # Every save writes a MetaGraph; its Saver restores what is saved besides variables, too.
        if name not in told and name != GraphKeys.SAVEABLE_OBJECTS:
            program_log.warning("collection '%s' is left out of the MetaGraph: %s", name, error)
        told.add(name)


#: The collections that were left out of MetaGraphs of a graph.
_told: WeakKeyDictionary[Graph, set[str]] = WeakKeyDictionary()


def _fill_collection(out: Message, name: str, items: list, scope: str | None) -> None:
    functions = proto_functions(name)
    if functions is not None:
        protos = [functions.to_proto(item, scope) for item in items]
        out.bytes_list.value.extend(p.SerializeToString() for p in protos if p is not None)
        return
    kinds = {_kind_of(item) for item in items}
    if len(kinds) > 1:
        raise TypeError(f"it holds items of several kinds: {', '.join(sorted(kinds))}")
    kind = kinds.pop() if kinds else "node_list"
    if kind != "node_list":
        getattr(out, kind).value.extend(i.encode() if isinstance(i, str) else i for i in items)
        return
    out.node_list.SetInParent()
    for item in items:
        full = item.name
        if scope is None or full.startswith(scope + "/"):
            out.node_list.value.append(strip_scope(full, scope))


def _kind_of(item: Any) -> str:
    if isinstance(item, (str, bytes)):
        return "bytes_list"
    if isinstance(item, float):
        return "float_list"
    if getattr(getattr(item, "DESCRIPTOR", None), "full_name", None) == "google.protobuf.Any":
        return "any_list"
    if isinstance(item, int) and not isinstance(item, bool):
        return "int64_list"
    if isinstance(item, (Tensor, Operation)) or hasattr(item, "_as_graph_element"):
        return "node_list"
    raise TypeError(f"{item!r} has no protobuf form")


def _write(filename: str, meta: Message, as_text: bool) -> None:
    if as_text:
        from google.protobuf import text_format

        content = text_format.MessageToString(meta).encode()
    else:
        content = meta.SerializeToString()
    os.makedirs(os.path.dirname(os.path.abspath(filename)), exist_ok=True)
    write_atomically(filename, content)


# ---------------------------------------------------------------- import


def read_meta_graph_file(meta_graph_or_file: Message) -> Any:
    """Return a ``MetaGraphDef``, read from a file (binary or text) if it is the name of one.

    Raises ``IOError`` if the file does not exist or is no MetaGraph.
    """
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto import meta_graph_pb2

    if isinstance(meta_graph_or_file, meta_graph_pb2.MetaGraphDef):
        return meta_graph_or_file
    if not os.path.isfile(meta_graph_or_file):
        raise OSError(f"File {meta_graph_or_file} does not exist.")
    with open(meta_graph_or_file, "rb") as file:
        content = file.read()
    try:
        return meta_graph_pb2.MetaGraphDef.FromString(content)
    except DecodeError:
        pass
    try:
        return text_format.Parse(content.decode(), meta_graph_pb2.MetaGraphDef())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise OSError(f"Cannot parse file {meta_graph_or_file}: {error}") from None


def import_scoped_meta_graph(meta_graph_or_file: Any, clear_devices: bool = False,
                             graph: Graph | None = None, import_scope: str | None = None,
                             input_map: dict | None = None,
                             unbound_inputs_col_name: str = UNBOUND_INPUTS,
                             restore_collections_predicate: Any = lambda key: True,
                             return_elements: list | None = None, placement: Any = None) -> Any:
    """Add a MetaGraph's graph and collections to `graph` (the default graph).

    `input_map` must have an entry for every unbound input. `placement` replaces devices (see
    :func:`hpcflow.graph_util.replace_devices`), after `clear_devices` has removed those that the
    MetaGraph has. Returns the `return_elements`. Raises ``ValueError`` for unbound inputs that are
    not mapped, and as :func:`import_graph_def`.
    """
    return import_into_scope(meta_graph_or_file, clear_devices, graph, import_scope, input_map,
                             unbound_inputs_col_name, restore_collections_predicate,
                             return_elements, placement)[1]


def import_into_scope(meta_graph_or_file: Message, clear_devices: bool = False,
                      graph: Graph | None = None, import_scope: str | None = None,
                      input_map: dict | None = None,
                      unbound_inputs_col_name: str = UNBOUND_INPUTS,
                      restore_collections_predicate: Callable[..., Any] = lambda key: True,
                      return_elements: list | None = None,
                      placement: Any = None) -> tuple[str, Any]:
    """As :func:`import_scoped_meta_graph`; returns also the scope, which may have got a suffix."""
    meta = read_meta_graph_file(meta_graph_or_file)
    _check_bound(meta, unbound_inputs_col_name, input_map)
    graph_def = meta.graph_def
    if clear_devices:
        graph_def = replace_devices(graph_def, lambda node: "")
    if placement is not None:
        graph_def = replace_devices(graph_def, placement)
    graph = graph or get_default_graph()
    name = (import_scope or "").rstrip("/")
    with graph.as_default():
        # Without a scope of its own it goes into the one that is open.
        scope = graph.unique_name(name, mark_as_used=False) if name else graph._name_stack
        elements = import_graph_def(graph_def, input_map=input_map,
                                    name=name or (f"{scope}/" if scope else ""),
                                    return_elements=return_elements)
        shared: dict[Any, Any] = {}
        for key in sorted(meta.collection_def):
            if key != unbound_inputs_col_name and restore_collections_predicate(key):
                with _naming(key):
                    _restore_collection(graph, key, meta.collection_def[key], scope, shared)
    return scope, elements


def _check_bound(meta: Message, collection: str, input_map: dict | None) -> None:
    if not collection or collection not in meta.collection_def:
        return
    names = [v.decode() for v in meta.collection_def[collection].bytes_list.value]
    missing = [n for n in names if n not in (input_map or {})]
    if missing:
        raise ValueError(f"Graph contains unbound inputs: {', '.join(missing)}. Must provide these "
                         "inputs through input_map.")


@contextlib.contextmanager
def _naming(key: str) -> Iterator[None]:
    """Context manager that turns errors about a collection's items into a ``ValueError``."""
    from google.protobuf.message import DecodeError

    try:
        yield
    except (DecodeError, LookupError, AttributeError, ValueError, TypeError) as e:
        said = e.args[0] if e.args else e
        raise ValueError(f"The MetaGraph's collection '{key}' has an item that cannot be "
                         f"restored: {said}") from e


def _restore_collection(graph: Graph, key: str, collection: Message, scope: str,
                        shared: dict[Any, Any]) -> None:
    """Add the items; a variable is one object in all collections, which `shared` sees to."""
    kind = collection.WhichOneof("kind")
    if kind is None:
        return
    values = getattr(collection, kind).value
    functions = proto_functions(key) if kind == "bytes_list" else None
    if functions is not None:
        proto_type = functions.proto_type()
        made = [functions.from_proto(proto_type.FromString(v), scope) for v in values]
        items = [shared.setdefault(getattr(i, "op", i), i) for i in made if i is not None]
    elif kind == "node_list":
        items = [graph.as_graph_element(prepend_scope(v, scope)) for v in values]
    else:
        items = list(values)
    for item in items:
        graph.add_to_collection(key, item)
