"""Evaluate cases with one library and write down what came out: one process, one library.

``python worker.py LIBRARY DIRECTORY CHUNK...`` reads ``DIRECTORY/cases-CHUNK.npz`` and writes
``DIRECTORY/LIBRARY-CHUNK.npz``. Everything goes through what both libraries have: graphs,
placeholders, ``raw_ops``, ``gradients``, sessions.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from arrays import as_array, load, name_of, save

MODULES = {"hpcflow": "hpcflow", "reference": "tensorflow.compat.v1"}


def import_library(name: str) -> Any:
    """The module under test, or the reference, ready to build graphs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # which has tf.layers
    if name == "hpcflow":
        sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
    library = importlib.import_module(MODULES[name])
    if name == "reference":
        library.disable_eager_execution()
        library.disable_resource_variables()
        library.disable_control_flow_v2()
        library.logging.set_verbosity(library.logging.FATAL)
    return library


def session_config(name: str, library: Any) -> Any:
    """Run what was built, not what it might be rewritten into."""
    if name != "reference":
        return None
    config = library.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def flat(nest: Any) -> list:
    """The leaves of nested lists and tuples."""
    if isinstance(nest, (list, tuple)):
        return [leaf for item in nest for leaf in flat(item)]
    return [] if nest is None else [nest]


def strided(array: np.ndarray) -> np.ndarray:
    """The same values, spread out in memory and in the other order of dimensions."""
    if array.ndim == 0:
        return array
    wide = np.zeros([2 * n for n in array.shape[::-1]], array.dtype)
    view = wide[tuple([slice(None, None, -2)] * array.ndim)].T
    view[...] = array
    return view


class Evaluation:
    """One case in a graph of its own."""

    def __init__(self, library: Any, config: Any, case: dict, arrays: list) -> None:
        self.library = library
        self.config = config
        self.case = case
        self.arrays = arrays
        self.feeds: dict = {}
        self.inputs: list = []
        self.variables: list = []
        self.initializers: list = []
        self.record: dict = {"stage": "build", "error": None, "static": []}
        self.results: dict[str, list] = {}

    def run(self) -> None:
        """Build, run, differentiate; stop at the first error and note where it was."""
        try:
            with self.library.Graph().as_default():
                outputs = self.build()
                self.record["stage"] = "run"
                with self.library.Session(config=self.config) as session:
                    self.evaluate(session, outputs)
        except Exception as error:  # noqa: BLE001 - errors are results here
            text = str(error)
            text = text.split("\nNode: ", 1)[-1] if "\nNode: " in text else text
            self.record["error"] = [type(error).__name__, text[:400]]

    def build(self) -> list:
        """Add the op to the graph; returns its outputs, or the op if it has none."""
        inputs = {k: self.input(v) for k, v in self.case["inputs"].items()}
        attrs = {k: self.attr(v) for k, v in self.case["attrs"].items()}
        outputs = flat(self.add_op(self.case["op"], inputs, attrs))
        if self.library.__name__ == "hpcflow" and self.stands_for_older():
            outputs = self.imported(outputs)
        self.record["static"] = [self.dims(y) for y in outputs if hasattr(y, "shape")]
        return outputs

    def stands_for_older(self) -> bool:
        """True if the import makes older ops of the op."""
        from hpcflow.graph.importer import LOWERED

        return self.case["op"] in LOWERED

    def imported(self, outputs: list) -> list:
        """The outputs in the current graph after its own GraphDef was imported into it."""
        tf = self.library
        definition = tf.get_default_graph().as_graph_def()
        tensors = [*outputs, *self.inputs]
        found = tf.import_graph_def(definition, return_elements=[t.name for t in tensors], name="i")
        feeds = dict(zip(self.inputs, found[len(outputs):]))
        self.feeds = {feeds[t]: v for t, v in self.feeds.items()}
        self.inputs = found[len(outputs):]
        return found[:len(outputs)]

    def add_op(self, op: str, inputs: dict, attrs: dict) -> Any:
        """Build `op` by the argument names of its registered signature."""
        if self.library.__name__ == "hpcflow":
            return getattr(self.library.raw_ops, op)(**inputs, **attrs)
        from reference import add_op

        return add_op(op, inputs, attrs)

    def dims(self, tensor: Any) -> Any:
        shape = tensor.shape
        return None if shape.rank is None else [d if d is None else int(d)
                                                for d in shape.as_list()]

    def input(self, spec: Any) -> Any:
        """A tensor, a list of tensors or a variable for an input."""
        if isinstance(spec, list):
            return [self.input(s) for s in spec]
        tf, value = self.library, self.arrays[spec["array"]]
        dtype = tf.as_dtype(name_of(value))
        if "variable" in spec:
            return self.variable(spec, value, dtype)
        if self.case["form"] == "constant":
            tensor = tf.constant(value, dtype)
        else:
            tensor = tf.placeholder(dtype, self.declared(value))
            self.feeds[tensor] = strided(value) if self.case["form"] == "strided" else value
        self.inputs.append(tensor)
        return tensor

    def declared(self, value: np.ndarray) -> Any:
        """The static shape of a placeholder for `value`."""
        return value.shape if self.case["form"] == "static" else None

    def variable(self, spec: dict, value: np.ndarray, dtype: Any) -> Any:
        ops = self.library.raw_ops
        if spec["variable"] == "reference":
            ref = ops.VariableV2(shape=value.shape, dtype=dtype)
            write = lambda v: ops.Assign(ref=ref, value=v).op
        else:
            ref = ops.VarHandleOp(shape=value.shape, dtype=dtype, shared_name=f"v{spec['array']}")
            write = lambda v: ops.AssignVariableOp(resource=ref, value=v)
        if spec["initialized"]:
            self.initializers.append(write(self.library.constant(value, dtype)))
            self.variables.append((ref, dtype, spec["variable"]))
        return ref

    def attr(self, value: Any) -> Any:
        """An attribute from its JSON form."""
        if isinstance(value, dict):
            if "dtype" in value:
                return self.library.as_dtype(value["dtype"])
            if "shape" in value:
                return self.library.TensorShape(
                    value["shape"] and [None if d < 0 else d for d in value["shape"]])
            return value["bytes"].encode()
        return [self.attr(v) for v in value] if isinstance(value, list) else value

    def evaluate(self, session: Any, outputs: list) -> None:
        if self.initializers:
            session.run(self.initializers)
        if self.case["check"] == "moments":
            self.draw(session, outputs)
            return
        values = session.run(outputs, self.feeds)
        self.results["output"] = [v for v in values if v is not None]
        if self.variables:
            self.results["variable"] = session.run([self.read(*v) for v in self.variables])
        self.record["stage"] = "gradient"
        if self.case["gradient"]:
            self.differentiate(session, outputs)

    def read(self, ref: Any, dtype: Any, kind: str) -> Any:
        ops = self.library.raw_ops
        return ref if kind == "reference" else ops.ReadVariableOp(resource=ref, dtype=dtype)

    def draw(self, session: Any, outputs: list) -> None:
        """Two draws of one session, and the first of another."""
        first, second = session.run(outputs, self.feeds), session.run(outputs, self.feeds)
        with self.library.Session(config=self.config) as other:
            third = other.run(outputs, self.feeds)
        self.results["output"] = [*first, *second, *third]

    def differentiate(self, session: Any, outputs: list) -> None:
        """Gradients by the inputs, of the outputs weighted by fixed numbers; then once more."""
        xs = [x for x in self.inputs if x.dtype.is_floating or x.dtype.is_complex]
        ys = outputs
        for name in ("gradient", "second")[:self.case["gradient"]]:
            ys = [y for y in ys if hasattr(y, "dtype")
                  and (y.dtype.is_floating or y.dtype.is_complex)]
            if not xs or not ys:
                return
            values = session.run(ys, self.feeds)
            grads = self.gradients(ys, xs, values)
            self.results[name] = session.run([g for g in grads if g is not None], self.feeds)
            self.record[name] = [g is not None for g in grads]
            ys = [g for g in grads if g is not None]

    def gradients(self, ys: list, xs: list, values: list) -> list:
        tf = self.library
        weights = []
        for y, value in zip(ys, values):
            weight = np.cos(1.0 + np.arange(np.size(value))).reshape(np.shape(value)) + 0.1
            weights.append(tf.placeholder(y.dtype.base_dtype,
                                          y.shape if self.case["form"] == "static" else None))
            self.feeds[weights[-1]] = weight.astype(np.asarray(value).dtype)
        grads = tf.gradients(ys, xs, weights)
        return [g if g is None else tf.convert_to_tensor(g) for g in grads]


def evaluate_chunk(name: str, library: Any, directory: Path, chunk: str) -> None:
    """Evaluate the cases of one file."""
    cases, arrays = load(directory / f"cases-{chunk}.npz")
    config = session_config(name, library)
    left_out = directory / f"{name}-without-{chunk}"
    without = {int(n) for n in left_out.read_text().split()} if left_out.exists() else set()
    records: list[dict | None] = []
    results: list = []
    for index, case in enumerate(cases):
        if index in without:
            records.append(None)
            continue
        print(f"start {chunk} {index}", flush=True)
        if name == "reference" and case["reference"]:
            case = {**case, **case["reference"]}
        evaluation = Evaluation(library, config, case, arrays)
        evaluation.run()
        record = evaluation.record
        for kind, values in evaluation.results.items():
            record["n_" + kind] = len(values)
            results += [as_array(v) for v in values]
        records.append(record)
    save(directory / f"{name}-{chunk}.npz", records, results)
    print(f"done {chunk}", flush=True)


def describe() -> dict[str, dict]:
    """What ops there are, with the dtypes their attributes allow."""
    from hpcflow.graph.opdef import has_gradient, registered_ops

    ops = {}
    for name, op in registered_ops().items():
        allowed = {a.name: [d.name for d in a.allowed] for a in op.attrs
                   if a.allowed and a.type.endswith(("type", "type)"))}
        attrs = {n: [op.attr_map[n].type, _plain(op.attr_map[n].default)]
                 for n in op.explicit_attrs}
        ops[name] = {"allowed": allowed, "gradient": has_gradient(name), "attrs": attrs,
                     "inputs": [a.name for a in op.inputs]}
    return ops


def _plain(default: Any) -> Any:
    """The default of an attribute as JSON has it, None for what that has not."""
    if isinstance(default, (list, tuple)):
        items = [_plain(item) for item in default]
        return None if None in items else items
    if isinstance(default, bytes):
        return default.decode()
    return default if isinstance(default, (bool, int, float, str)) else None


def main() -> None:
    """Command line of one worker."""
    name, directory, *chunks = sys.argv[1:]
    library = import_library(name)
    for chunk in chunks:
        if chunk == "ops":
            save(Path(directory) / "ops.npz", describe(), [])
        elif chunk in ("evaluate", "exchange"):
            import programs

            print(f"start {chunk} -", flush=True)
            step = getattr(programs, chunk)
            step(name, library, session_config(name, library), Path(directory))
        else:
            evaluate_chunk(name, library, Path(directory), chunk)


if __name__ == "__main__":
    main()
