"""The sizes of a recurrent network of several layers, and where its parameters lie in a vector.

First the matrices of all layers, then the biases; for each layer, and in it each direction, those
of the gates by the input, then by the state, then the projection. That is where cuDNN has them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hpcflow.kernels.registry import KernelNode, invalid

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


class Network(NamedTuple):
    """A network; `outputs` is the size of the state, another than `units` only if projected.

    With `skips` the gates of the first layer see each the input as it is, without a matrix.
    """

    mode: str
    layers: int
    directions: int
    size: int
    units: int
    outputs: int
    skips: bool

    @property
    def gates(self) -> int:
        """The number of gates, of the candidate too."""
        return _GATES[self.mode]

    @property
    def projects(self) -> bool:
        """True if the state is a product of what the cell gives."""
        return self.outputs != self.units

    def width(self, layer: int) -> int:
        """The size of what goes into a layer."""
        return self.size if layer == 0 else self.directions * self.outputs

    def matrices(self) -> Iterator[tuple[int, str, tuple[int, int]]]:
        """(layer and direction counted on, name, dims): `w` by the input, `r` by the state, `p`."""
        for layer, direction in itertools.product(range(self.layers), range(self.directions)):
            place = layer * self.directions + direction
            if layer or not self.skips:
                yield place, "w", (self.gates * self.units, self.width(layer))
            yield place, "r", (self.gates * self.units, self.outputs)
            if self.projects:
                yield place, "p", (self.outputs, self.units)

    def biases(self) -> Iterator[tuple[int, str, tuple[int]]]:
        """The same for the biases, `bw` and `br`."""
        for place in range(self.layers * self.directions):
            for name in ("bw", "br"):
                yield place, name, (self.gates * self.units,)

    def parameters(self) -> int:
        """The number of all parameters."""
        return sum(math.prod(dims) for _, _, dims in (*self.matrices(), *self.biases()))

    def views(self, params: Any) -> list[dict[str, Any]]:
        """The parameters of each layer and direction by name; they share the vector's memory."""
        found: list[dict[str, Any]] = [{} for _ in range(self.layers * self.directions)]
        start = 0
        for place, name, dims in (*self.matrices(), *self.biases()):
            end = start + math.prod(dims)
            found[place][name] = params[start:end].reshape(dims)
            start = end
        return found

    def canonical(self, xp: Any, params: Any) -> tuple[list, list]:
        """All matrices and biases, one for each gate. What is skipped is the unit matrix."""
        weights, biases = [], []
        for parts in self.views(params):
            if "w" not in parts:
                weights += [xp.eye(self.units, dtype=params.dtype)] * self.gates
            for name in ("w", "r"):
                weights += _of_gates(parts[name], self.gates) if name in parts else []
            weights += [parts["p"]] if "p" in parts else []
            for name in ("bw", "br"):
                biases += _of_gates(parts[name], self.gates)
        return weights, biases

    def vector(self, xp: Any, weights: Sequence, biases: Sequence) -> Any:
        """The parameters of which these are all matrices and biases, whatever their ranks.

        InvalidArgumentError for others than those of the network.
        """
        wanted = self._canonical_sizes()
        given = [int(a.size) for a in (*weights, *biases)]
        if given != [size for size, _ in wanted]:
            raise invalid(f"the weights and biases must have {[s for s, _ in wanted]} elements, "
                          f"but have {given}")
        kept = [a.reshape(-1) for a, (_, stored) in zip((*weights, *biases), wanted) if stored]
        return xp.concatenate(kept)

    def _canonical_sizes(self) -> list[tuple[int, bool]]:
        """Elements of each canonical matrix and bias, and whether the vector has them."""
        found: list[tuple[int, bool]] = []
        for place in range(self.layers * self.directions):
            width = self.width(place // self.directions)
            stored = place >= self.directions or not self.skips
            found += [(self.units * width, stored)] * self.gates
            found += [(self.units * self.outputs, True)] * self.gates
            found += [(self.outputs * self.units, True)] * self.projects
        return found + [(self.units, True)] * (
            2 * self.gates * self.layers * self.directions)


def _of_gates(array: Any, gates: int) -> list:
    rows = array.shape[0] // gates
    return [array[i * rows : (i + 1) * rows] for i in range(gates)]


def network(node: KernelNode, layers: int, size: int, units: int, outputs: int) -> Network:
    """The network of these sizes that an op describes; InvalidArgumentError for none."""
    mode, given = node.attr("rnn_mode").decode(), node.attr("input_mode")
    directions = 2 if node.attr("direction") == b"bidirectional" else 1
    if min(layers, size, units, outputs) < 1:
        raise invalid("num_layers, input_size, num_units and the size of the state must be "
                      f"positive, but are {layers}, {size}, {units} and {outputs}")
    if outputs != units and mode != "lstm":
        raise invalid(f"only an LSTM can have a projection, but rnn_mode is {mode}")
    if outputs > units:
        raise invalid(f"num_proj must be at most num_units, {units}, but is {outputs}")
    if given == b"skip_input" and size != units:
        raise invalid("skip_input needs inputs of the size of the units, but they have "
                      f"{size} and {units}")
    return Network(mode, layers, directions, size, units, outputs,
                   given == b"skip_input" or given == b"auto_select" and size == units)
