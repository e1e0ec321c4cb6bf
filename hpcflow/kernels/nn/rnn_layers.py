"""Recurrent networks of several layers and directions over whole sequences, and their gradients.

What the inputs of a layer add to its gates is one product for all steps, and so are the gradients
by its inputs and weights. What a gradient needs of the forward pass lies in one vector, `reserve`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from hpcflow.kernels.nn.recurrent_blocks import plain_multiply
from hpcflow.kernels.nn.rnn_cells import CELLS
from hpcflow.kernels.nn.rnn_layout import Network
from hpcflow.kernels.registry import invalid, shown


class Drop(Protocol):
    """The random numbers of dropout.

    Attributes:
        rate: the part of what goes into a layer that is left out.
    """

    rate: float

    def factors(self, dims: tuple[int, ...]) -> Any:
        """Draw factors of 0 or more, by which what goes into a layer is multiplied."""

    def seed(self) -> int:
        """Draw a number from which another generator may begin."""


class Sequences(NamedTuple):
    """What a network runs over: the input [steps, rows, size], the state and the memory before it
    [layers and directions, rows, size] (the memory only of an LSTM), the parameters, and the length
    of each row, None if all have all steps."""

    x: Any
    h: Any
    c: Any
    params: Any
    lengths: Any


class Plain:
    """Networks by the array module alone; halves in single precision."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._multiply = plain_multiply(xp)

    def forward(self, net: Network, given: Sequences, drop: Drop | None,
                training: bool) -> tuple[Any, Any, Any, Any]:
        """(output, state, memory, reserve); `drop` makes the factors of dropout, if
        there is any. Behind the end of a row the output is 0."""
        xp, x = self.xp, given.x
        if x.dtype == np.float16:
            return _halves(self.forward(net, _wide(given), drop, training))
        reserve = xp.empty(_reserved(net, x.shape, drop is not None), x.dtype)
        saved, views = _saved(net, x.shape, drop is not None, reserve), net.views(given.params)
        h, c = xp.empty_like(given.h), xp.empty_like(given.c)
        active = self._active(given, len(x))
        for layer in range(net.layers):
            if layer:
                x = self._into(saved[layer], x, drop)
            y = xp.empty((*x.shape[:2], net.directions * net.outputs), x.dtype)
            for side in range(net.directions):
                place = layer * net.directions + side
                part = saved[layer]["sides"][side]
                part["h"][0] = given.h[place]
                if "c" in part:
                    part["c"][0] = given.c[place]
                out = y[:, :, side * net.outputs : (side + 1) * net.outputs]
                self._run(net, views[place], x, part, _ordered(out, side),
                          None if active is None else _ordered(active, side), side)
                h[place] = part["h"][-1]
                if "c" in part:
                    c[place] = part["c"][-1]
            x = y
        return x, h, c, reserve if training else reserve[:0]

    def _into(self, saved: dict[str, Any], x: Any, drop: Drop | None) -> Any:
        """What goes into a layer: the output of that before, or what is left of it."""
        if drop is None:
            saved["x"][...] = x
        else:
            saved["mask"][...] = drop.factors(x.shape)
            self.xp.multiply(x, saved["mask"], out=saved["x"])
        return saved["x"]

    def _active(self, given: Sequences, steps: int) -> Any:
        """[steps, rows, 1]: true where a row has that step."""
        if given.lengths is None:
            return None
        lengths = self.xp.asarray(given.lengths)
        return self.xp.arange(steps)[:, None, None] < lengths[None, :, None]

    def _run(self, net: Network, weights: dict[str, Any], x: Any, part: dict[str, Any], y: Any,
             active: Any, side: int) -> None:
        """One layer in one direction; `y` and `active` are in its order."""
        xp, multiply, cell = self.xp, self._multiply, CELLS[net.mode](self.xp)
        sums = _ordered(self._by_input(net, weights, x), side)
        seen = xp.empty(sums.shape[1:], x.dtype)
        by_state, h, c = weights["r"].T, part["h"], part.get("c")
        for s in range(len(x)):
            multiply(h[s], by_state, seen, False)
            seen += weights["br"]
            inner = part["inner"][s] if net.projects else h[s + 1]
            cell.forward(sums[s], seen, h[s], c[s] if c is not None else None, part["kept"][s],
                         inner, c[s + 1] if c is not None else None)
            if net.projects:
                multiply(inner, weights["p"].T, h[s + 1], False)
            if active is None:
                y[s] = h[s + 1]
            else:
                y[s] = xp.where(active[s], h[s + 1], 0)
                h[s + 1] = xp.where(active[s], h[s + 1], h[s])
                if c is not None:
                    c[s + 1] = xp.where(active[s], c[s + 1], c[s])

    def _by_input(self, net: Network, weights: dict[str, Any], x: Any) -> Any:
        """What the inputs of all steps add to the gates."""
        if "w" not in weights:
            return self.xp.tile(x, (1, 1, net.gates)) + weights["bw"]
        sums = self.xp.empty((*x.shape[:2], len(weights["w"])), x.dtype)
        self._multiply(_flat(x), weights["w"].T, _flat(sums), False)
        sums += weights["bw"]
        return sums

    # ------------------------------------------------------------ gradients

    def backward(self, net: Network, given: Sequences, rate: float, grads: tuple[Any, Any, Any],
                 y: Any, reserve: Any) -> tuple[Any, Any, Any, Any]:
        """The gradients by input, state, memory and parameters, from those by output, state and
        memory. InvalidArgumentError for a reserve of another size than this forward pass makes."""
        xp, x, dropped = self.xp, given.x, rate > 0
        if x.dtype == np.float16:
            by = tuple(g.astype(np.float32) for g in grads)
            return _halves(self.backward(net, _wide(given), rate, by, y,
                                         reserve.astype(np.float32)))
        check_reserve(reserve, _reserved(net, x.shape, dropped))
        saved, views = _saved(net, x.shape, dropped, reserve), net.views(given.params)
        by_params = xp.zeros(given.params.shape, x.dtype)
        by_views, active = net.views(by_params), self._active(given, len(x))
        by_y, by_h, by_c = grads[0], xp.array(grads[1]), xp.array(grads[2])
        for layer in reversed(range(net.layers)):
            into = saved[layer]["x"] if layer else x
            by_x = xp.zeros(into.shape, x.dtype)
            for side in range(net.directions):
                place = layer * net.directions + side
                columns = slice(side * net.outputs, (side + 1) * net.outputs)
                self._run_back(
                    net, (views[place], by_views[place]), into, saved[layer]["sides"][side],
                    (_ordered(by_y[:, :, columns], side), by_h[place],
                     by_c[place] if net.mode == "lstm" else None),
                    None if active is None else _ordered(active, side), side, by_x)
            if layer and dropped:
                by_x *= saved[layer]["mask"]
            by_y = by_x
        return by_y, by_h, by_c, by_params

    def _run_back(self, net: Network, weights: tuple[dict[str, Any], dict[str, Any]], x: Any,
                  part: dict[str, Any], grads: tuple[Any, Any, Any], active: Any, side: int,
                  by_x: Any) -> None:
        """One layer in one direction: its gradients are added to `by_x` and written over those of
        the state and the memory."""
        xp, cell, (ours, by_ours) = self.xp, CELLS[net.mode](self.xp), weights
        by_sums = xp.empty((*x.shape[:2], net.gates * net.units), x.dtype)
        by_seen = xp.empty_like(by_sums) if cell.splits else by_sums
        by_given, by_state = _ordered(by_sums, side), _ordered(by_seen, side)
        (by_y, by_h, by_c), h, c = grads, part["h"], part.get("c")
        for s in reversed(range(len(x))):
            on = None if active is None else active[s]
            total = by_y[s] + by_h
            total = total if on is None else xp.where(on, total, 0)
            memory = None if c is None else by_c.copy() if on is None else xp.where(on, by_c, 0)
            if net.projects:
                self._multiply(total.T, part["inner"][s], by_ours["p"], True)
                inner = xp.empty((len(total), net.units), x.dtype)
                self._multiply(total, ours["p"], inner, False)
                total = inner
            straight = cell.gradient(
                part["kept"][s], h[s], c[s] if c is not None else None, h[s + 1], total, memory,
                by_given[s], by_state[s])
            earlier = xp.empty(by_h.shape, x.dtype)
            self._multiply(by_state[s], ours["r"], earlier, False)
            earlier += straight
            by_h[...] = earlier if on is None else xp.where(on, earlier, by_h)
            if c is not None:
                by_c[...] = memory if on is None else xp.where(on, memory, by_c)
        self._weights_back(net, weights, x, by_sums, by_seen, _ordered(h[:-1], side), by_x)

    def _weights_back(self, net: Network, weights: tuple[dict[str, Any], dict[str, Any]], x: Any,
                      by_sums: Any, by_seen: Any, h: Any, by_x: Any) -> None:
        """The gradients by input and parameters, over all steps at once."""
        (ours, by_ours), xp = weights, self.xp
        if "w" in ours:
            self._multiply(_flat(by_sums), ours["w"], _flat(by_x), True)
            self._multiply(_flat(by_sums).T, _flat(x), by_ours["w"], False)
        else:
            by_x += by_sums.reshape(*x.shape[:2], net.gates, net.units).sum(2)
        self._multiply(_flat(by_seen).T, _flat(xp.ascontiguousarray(h)), by_ours["r"], False)
        by_ours["bw"][...] = by_sums.sum((0, 1))
        by_ours["br"][...] = by_seen.sum((0, 1))


def _wide(given: Sequences) -> Sequences:
    x, h, c, params = (a.astype(np.float32) for a in given[:4])
    return Sequences(x, h, c, params, given.lengths)


def _halves(arrays: tuple) -> tuple:
    return tuple(a.astype(np.float16) for a in arrays)


def check_reserve(reserve: Any, size: int) -> None:
    """InvalidArgumentError unless what a forward pass has kept has this size."""
    if reserve.shape != (size,):
        raise invalid(f"reserve_space must have {size} elements, those of the forward op on the "
                      f"same device with is_training, but has the shape {shown(reserve)}")


def _flat(x: Any) -> Any:
    return x.reshape(-1, x.shape[-1])


def _ordered(x: Any, side: int) -> Any:
    """The steps in the order of a direction: the second one goes back."""
    return x[::-1] if side else x


def _blocks(net: Network, dims: tuple[int, ...], dropped: bool) -> list[tuple]:
    """(layer, direction or None, name, dims) of all that a forward pass keeps."""
    steps, rows, _ = dims
    found: list[tuple] = []
    for layer in range(net.layers):
        into = (steps, rows, net.width(layer))
        found += [(layer, None, "x", into)] if layer else []
        found += [(layer, None, "mask", into)] if layer and dropped else []
        for side in range(net.directions):
            found.append((layer, side, "h", (steps + 1, rows, net.outputs)))
            found.append((layer, side, "kept",
                          (steps, CELLS[net.mode].kept, rows, net.units)))
            if net.mode == "lstm":
                found.append((layer, side, "c", (steps + 1, rows, net.units)))
            if net.projects:
                found.append((layer, side, "inner", (steps, rows, net.units)))
    return found


def _reserved(net: Network, dims: tuple[int, ...], dropped: bool) -> int:
    return sum(math.prod(block[-1]) for block in _blocks(net, dims, dropped))


def _saved(net: Network, dims: tuple[int, ...], dropped: bool,
           reserve: Any) -> list[dict[str, Any]]:
    """What is kept of each layer by name, `sides` being those of its directions."""
    found: list[dict[str, Any]] = [{"sides": [{} for _ in range(net.directions)]}
                                   for _ in range(net.layers)]
    start = 0
    for layer, side, name, shape in _blocks(net, dims, dropped):
        end = start + math.prod(shape)
        owner = found[layer] if side is None else found[layer]["sides"][side]
        owner[name] = reserve[start:end].reshape(shape)
        start = end
    return found
