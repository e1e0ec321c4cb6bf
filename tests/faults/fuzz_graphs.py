"""Formats of the fuzzer (`fuzz.py`): GraphDefs in binary, in text and changed as graphs, and
MetaGraphs; they are imported, and what was imported is run."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.damage import BIG, Case, damaged_bytes, damaged_text

# ---------------------------------------------------------------- what is damaged


def _layers(hf: Any) -> None:
    x = hf.placeholder_with_default(hf.ones([4, 8]), [None, 8], name="x")
    w = hf.get_variable("w", [8, 3])
    b = hf.Variable(hf.zeros([3]), name="b")
    loss = hf.reduce_mean(hf.square(hf.nn.relu(hf.matmul(x, w) + b)), name="loss")
    hf.train.AdamOptimizer(0.1).minimize(loss)
    hf.split(hf.concat([x, x], 1), 4, axis=1)
    hf.global_variables_initializer()
    hf.train.Saver()


def _loops(hf: Any) -> None:
    total = hf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + hf.cast(i, hf.float32)),
                          [0, 0.0])[1]
    hf.cond(total > 3.0, lambda: total * 2.0, lambda: total - 1.0)
    hf.map_fn(lambda v: v * 2.0, hf.constant([1.0, 2.0, 3.0]))
    hf.gradients(total, [total])


def _functions(hf: Any) -> None:
    from hpcflow.python.framework import function

    @function.Defun(hf.float32, hf.float32)
    def joined(a: Any, b: Any) -> Any:
        return a * b + 1.0, a - b

    y, z = joined(hf.constant([1.0, 2.0]), hf.constant([3.0, 4.0]))
    hf.gradients(y + z, [y])
    hf.data.Dataset.range(9).map(lambda v: v * 2).batch(2).make_one_shot_iterator().get_next()


def _queues(hf: Any) -> None:
    queue = hf.FIFOQueue(4, [hf.float32, hf.string], [[2], []])
    queue.enqueue([[1.0, 2.0], "text"])
    queue.dequeue_many(2)
    queue.close()
    table = hf.contrib.lookup.index_table_from_tensor(["a", "b"])
    table.lookup(hf.constant(["a", "c"]))
    v = hf.get_variable("r", [3], use_resource=True)
    hf.stack([v.read_value(), hf.random_uniform([3])])
    hf.sparse_tensor_to_dense(hf.SparseTensor([[0, 1]], [1.0], [2, 2]))
    hf.image.decode_png(hf.constant(b"none"))


PROGRAMS: tuple[Callable, ...] = (_layers, _loops, _functions, _queues)


def meta_graphs(hf: Any) -> list[Any]:
    """The MetaGraphs of the programs."""
    found = []
    for program in PROGRAMS:
        with hf.Graph().as_default():
            program(hf)
            found.append(hf.train.export_meta_graph())
    return found


# ---------------------------------------------------------------- damage


def _attr(rng: random.Random, graph: Any, value: Any) -> None:
    """Make an attribute one of another kind or size."""
    how = rng.randrange(9)
    if how == 0:
        value.i = rng.choice(BIG)
    elif how == 1:
        value.type = rng.choice((0, 1, 3, 7, 9, 20, 21, 101, 999))
    elif how == 2:
        value.s = rng.choice((b"", b"x", b"loc:@x", b"\xff\xfe", b"loc:@\xff"))
    elif how == 3:
        value.list.s.append(rng.choice((b"loc:@w", b"loc:@missing", b"\xff")))
    elif how == 4:
        value.list.i.extend([rng.choice(BIG)] * rng.choice((1, 3)))
    elif how == 5:
        value.shape.dim.add(size=rng.choice(BIG))
    elif how == 6:
        value.func.name = rng.choice(("missing", "joined", *[
            f.signature.name for f in graph.library.function]))
    elif how == 7:
        value.tensor.dtype = rng.choice((1, 3, 7, 9, 0, 99))
        value.tensor.tensor_shape.dim.add(size=rng.choice(BIG))
    else:
        value.Clear()


def _nodes(graph: Any) -> list[Any]:
    return list(graph.node) + [n for f in graph.library.function for n in f.node_def]


def damage_structure(rng: random.Random, graph: Any) -> None:
    nodes = _nodes(graph)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        node, other = rng.choice(nodes), rng.choice(nodes)
        how = rng.randrange(12)
        if how < 4 and node.attr:
            _attr(rng, graph, node.attr[rng.choice((*sorted(node.attr), "_class",
                                                    "_output_shapes", "N"))])
        elif how == 4 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(
                (other.name, f"{other.name}:{rng.choice((0, 1, 9))}", f"^{other.name}", "", "^",
                 ":0", "a:b", node.name))
        elif how == 5:
            node.input.append(rng.choice((other.name, f"^{other.name}")))
        elif how == 6 and node.input:
            del node.input[rng.randrange(len(node.input))]
        elif how == 7:
            node.op = rng.choice((other.op, "NextIteration", "Merge", "Enter", "Exit", "Switch",
                                  "LoopCond", "Const", "If", "_Recv"))
        elif how == 8:
            node.name = rng.choice(("", other.name, "a b", "/x", "^x", "x" * 300, "é"))
        elif how == 9:
            node.device = rng.choice(("/job:x", "/cpu", "//", "/device:GPU:99", "é"))
        elif how == 10 and graph.library.function:
            _function(rng, rng.choice(graph.library.function))
        elif node.attr:
            del node.attr[rng.choice(sorted(node.attr))]


def _function(rng: random.Random, function: Any) -> None:
    keys = sorted(function.ret)
    how = rng.randrange(5)
    if how == 0 and keys:
        function.ret[rng.choice(keys)] = rng.choice(("", "x", "x:y:0", "x:0", "a:b:9", "z:z:-1"))
    elif how == 1 and keys:
        del function.ret[rng.choice(keys)]
    elif how == 2:
        function.signature.name = rng.choice(("", "other", "MatMul"))
    elif how == 3 and function.signature.input_arg:
        del function.signature.input_arg[0]
    elif function.signature.output_arg:
        function.signature.output_arg[0].type = rng.choice((0, 3, 7, 99))


def damage_meta(rng: random.Random, meta: Any) -> None:
    how = rng.randrange(7)
    keys = sorted(meta.collection_def)
    if how < 2 and keys:
        entry = meta.collection_def[rng.choice(keys)]
        for kind in ("bytes_list", "node_list"):
            values = getattr(entry, kind).value
            if entry.WhichOneof("kind") == kind and values:
                at = rng.randrange(len(values))
                values[at] = (damaged_bytes(rng, values[at]) if isinstance(values[at], bytes) and
                              values[at] else rng.choice((b"x",)) if kind == "bytes_list" else
                              rng.choice(("missing", "missing:0", "", "a:b")))
    elif how == 2 and keys:
        meta.collection_def[rng.choice(keys)].int64_list.value.append(rng.choice(BIG))
    elif how == 3:
        meta.saver_def.restore_op_name = rng.choice(("", "missing", "w"))
    elif how == 4:
        meta.saver_def.version = rng.choice((0, 1, 2))
        meta.saver_def.filename_tensor_name = rng.choice(("", "x", "w:0", "a:b"))
    elif how == 5:
        meta.signature_def["x"].inputs["y"].name = "missing:7"
    else:
        damage_structure(rng, meta.graph_def)


# ---------------------------------------------------------------- the formats


def use(hf: Any, rng: random.Random, put: Callable[[], None]) -> str:
    """Let `put` add to a graph, and run some of the operations that are there then."""
    with hf.Graph().as_default() as made:
        put()
        made.as_graph_def(add_shapes=True)
        ops = made.get_operations()
        if not ops:
            return "imported"
        with hf.Session() as session:
            session.run(rng.sample(ops, min(len(ops), 3)),
                        options=hf.RunOptions(timeout_in_ms=500))
    return "ran"


def _format(damaged: Callable[[random.Random, Any], Any]) -> Callable[[Any, Path], Case]:
    """A format whose cases import what `damaged` makes of a MetaGraph: a GraphDef or MetaGraph."""

    def prepare(hf: Any, _: Path) -> Case:
        metas = meta_graphs(hf)

        def case(rng: random.Random) -> str:
            meta, source = type(metas[0])(), rng.choice(metas)
            meta.CopyFrom(source)
            found = damaged(rng, meta)
            if found is None:
                return "not a protobuf"
            if isinstance(found, type(meta)):
                return use(hf, rng, lambda: hf.train.import_meta_graph(found))
            return use(hf, rng, lambda: hf.import_graph_def(found, name=""))

        return case

    return prepare


def _binary(rng: random.Random, meta: Any) -> Any:
    from google.protobuf.message import DecodeError

    graph = meta.graph_def
    for _ in range(20):  # most damage ends in what is no message, which tests nothing here
        try:
            return type(graph).FromString(damaged_bytes(rng, graph.SerializeToString()))
        except DecodeError:
            continue
    return None


def _text(rng: random.Random, meta: Any) -> Any:
    from google.protobuf import text_format

    graph = meta.graph_def
    try:
        return text_format.Parse(damaged_text(rng, text_format.MessageToString(graph)),
                                 type(graph)())
    except text_format.ParseError:
        return None


def _changed(rng: random.Random, meta: Any) -> Any:
    damage_structure(rng, meta.graph_def)
    return meta.graph_def


def _meta(rng: random.Random, meta: Any) -> Any:
    damage_meta(rng, meta)
    return meta


FORMATS = {"graph-binary": _format(_binary), "graph-text": _format(_text),
           "graph-structure": _format(_changed), "meta": _format(_meta)}
