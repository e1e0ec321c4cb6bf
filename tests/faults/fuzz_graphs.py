"""Fuzzer of graphs: damages GraphDefs and MetaGraphs, imports them, and runs what was imported.

    python tests/faults/fuzz_graphs.py --count 5000 --seed 1 --kinds binary text structure meta

Right is a graph, or an error of the library's, a ValueError or a TypeError. Whatever else a case
ends in (another exception, a crash, more than 20 s) is printed with the number by which
``--first N --count 1`` repeats it; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import random
import resource
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

KINDS = ("binary", "text", "structure", "meta")
HANG_SECONDS = 20
MEMORY_BYTES = 6 << 30
BIG = (-1, 0, 2, 7, 1 << 20, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1)


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


def _bytes(rng: random.Random, data: bytes) -> bytes:
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data))
        how = rng.randrange(4)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            del data[at:at + rng.randrange(1, 9)]
        else:
            data[at:at] = data[rng.randrange(len(data)):][:rng.randrange(1, 40)]
    return bytes(data)


def _text(rng: random.Random, text: str) -> str:
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = rng.randrange(len(lines)), rng.choice(lines)
        value = rng.choice(('"x"', "-1", "2147483648", "DT_STRING", "true", '"/while"', "1e400"))
        colon = lines[at].find(":")
        lines[at] = rng.choice((
            lambda: lines[at][:colon + 1] + " " + value if colon > 0 else lines[at],
            lambda: other if "{" not in other and "}" not in other else lines[at]))()
    return "\n".join(lines)


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


def _structure(rng: random.Random, graph: Any) -> None:
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


def _meta(rng: random.Random, meta: Any) -> None:
    how = rng.randrange(7)
    keys = sorted(meta.collection_def)
    if how < 2 and keys:
        entry = meta.collection_def[rng.choice(keys)]
        for kind in ("bytes_list", "node_list"):
            values = getattr(entry, kind).value
            if entry.WhichOneof("kind") == kind and values:
                at = rng.randrange(len(values))
                values[at] = (_bytes(rng, values[at]) if isinstance(values[at], bytes) and
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
        _structure(rng, meta.graph_def)


# ---------------------------------------------------------------- one case


class Case:
    """Damages one of `metas` and does with it what a program would."""

    def __init__(self, hf: Any, metas: list[Any], kinds: list[str]) -> None:
        self.hf, self.metas, self.kinds = hf, metas, kinds

    def run(self, seed: int, number: int) -> str:
        """How it ended: "imported", "ran", or the name of a right error."""
        from google.protobuf import message, text_format

        hf, rng = self.hf, random.Random(f"{seed}/{number}")
        kind, source = rng.choice(self.kinds), rng.choice(self.metas)
        meta = type(source)()
        meta.CopyFrom(source)
        graph = meta.graph_def
        try:
            if kind == "binary":
                graph = type(graph).FromString(_bytes(rng, graph.SerializeToString()))
            elif kind == "text":
                graph = text_format.Parse(_text(rng, text_format.MessageToString(graph)),
                                          type(graph)())
            elif kind == "structure":
                _structure(rng, graph)
            else:
                _meta(rng, meta)
        except (message.DecodeError, text_format.ParseError, UnicodeError, ValueError, TypeError):
            return "not a protobuf"
        try:
            return self._use(graph if kind != "meta" else None, meta, rng)
        except (hf.errors.OpError, ValueError, TypeError) as e:
            return type(e).__name__

    def _use(self, graph: Any, meta: Any, rng: random.Random) -> str:
        hf = self.hf
        with hf.Graph().as_default() as made:
            if graph is None:
                hf.train.import_meta_graph(meta)
            else:
                hf.import_graph_def(graph, name="")
            made.as_graph_def(add_shapes=True)
            ops = made.get_operations()
            if not ops:
                return "imported"
            with hf.Session() as session:
                session.run(rng.sample(ops, min(len(ops), 3)),
                            options=hf.RunOptions(timeout_in_ms=500))
        return "ran"


def work(first: int, count: int, seed: int, kinds: list[str]) -> None:
    """Run cases in this process; a line for each that is not right, and one with the counts."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    import logging

    import hpcflow as hf

    logging.disable(logging.CRITICAL)
    case = Case(hf, meta_graphs(hf), kinds)
    counts: collections.Counter[str] = collections.Counter()
    for number in range(first, first + count):
        print(f"at {number}", flush=True)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        try:
            counts[case.run(seed, number)] += 1
        except BaseException as e:  # noqa: BLE001  (this is what is looked for)
            where = traceback.extract_tb(e.__traceback__)[-1]
            print(f"wrong {number}: {type(e).__name__}: {str(e)[:200]!r} at {where.filename}:"
                  f"{where.lineno} in {where.name}", flush=True)
        faulthandler.cancel_dump_traceback_later()
    print("counts " + " ".join(f"{k.replace(' ', '_')}={v}" for k, v in sorted(counts.items())),
          flush=True)


def watch(first: int, count: int, seed: int, kinds: list[str]) -> int:
    """Run cases in processes that may die; the number of those that were not right."""
    wrong, end, totals = 0, first + count, collections.Counter[str]()
    while first < end:
        child = subprocess.Popen(
            [sys.executable, __file__, "--work", "--first", str(first), "--count",
             str(min(end - first, 500)), "--seed", str(seed), "--kinds", *kinds],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = child.communicate()
        at = first - 1
        for line in out.splitlines():
            if line.startswith("at "):
                at = int(line[3:])
            elif line.startswith("wrong "):
                wrong += 1
                print(line, flush=True)
            elif line.startswith("counts "):
                totals.update({k: int(v) for k, _, v in (
                    p.partition("=") for p in line[7:].split())})
        if child.returncode:
            wrong += 1
            print(f"wrong {at}: the process ended with {child.returncode}:\n{err[-1500:]}")
            if at < first:
                break
        first = at + 1
    print(f"{count} cases of seed {seed}: {wrong} wrong; " + ", ".join(
        f"{k} {v}" for k, v in sorted(totals.items())))
    return wrong


def main() -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.first, args.count, args.seed, args.kinds)
        return 0
    return int(watch(args.first, args.count, args.seed, args.kinds) > 0)


if __name__ == "__main__":
    sys.exit(main())
