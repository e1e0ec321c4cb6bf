"""Kernels of connectionist temporal classification: one step in time for all examples at once.

Probabilities are float64 logarithms. The loss and its gradient follow Graves et al. (2006): labels
are extended by blanks around each, α and β are the probabilities of the beginnings and of the ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import FailedPreconditionError
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


def _check_inputs(inputs: Any) -> None:
    if inputs.ndim != 3:
        raise invalid(f"inputs must be [time, batch, classes], but have shape {shown(inputs)}")
    if not inputs.shape[0]:
        raise invalid("inputs have no time steps")
    if not inputs.shape[2]:
        raise invalid("inputs have no classes")


def _wrong_number(inputs: Any, lengths: Any) -> str:
    return (f"sequence_length of shape {shown(lengths)} must have one entry for each of the "
            f"{inputs.shape[1]} examples")


def log_softmax(xp: Any, inputs: Any) -> Any:
    """The logarithms of probabilities, in double precision."""
    x = inputs.astype(np.float64)
    x -= x.max(axis=2, keepdims=True)
    x -= xp.log(xp.exp(x).sum(axis=2, keepdims=True))
    return x


def _sum(*logs: Any) -> Any:
    """The logarithm of the sum; of nothing but zeros it is zero's."""
    top = np.maximum.reduce(logs)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return safe + np.log(sum(np.exp(x - safe) for x in logs))


# ---------------------------------------------------------------- loss


def _check_batch(inputs: Any) -> None:
    _check_inputs(inputs)
    if not inputs.shape[1]:
        raise invalid(f"batch_size must not be 0: inputs have shape {shown(inputs)}")


@kernel("CTCLoss", device="CPU", fresh=True)
def _loss(node: KernelNode) -> Callable:
    """The last class is the blank; every example has labels."""
    return loss_of(node, False, _Paths)


@kernel("CTCLossV2", device="CPU", fresh=True)
def _loss_v2(node: KernelNode) -> Callable:
    """The first class is the blank; examples may have no labels, or more than there is time for."""
    return loss_v2_of(node, _Paths)


def loss_v2_of(node: KernelNode, paths: Callable[..., Any]) -> Callable:
    """The loss whose blank is the first class, by `paths` like `_Paths`."""
    compute, xp = loss_of(node, True, paths), node.xp

    def run(inputs: Any, indices: Any, values: Any, lengths: Any) -> tuple:
        _check_inputs(inputs)
        loss, grad = compute(xp.roll(inputs, -1, 2), indices, values - 1, lengths)
        return loss, xp.roll(grad, 1, 2)

    return run


def loss_of(node: KernelNode, any_length: bool, paths: Callable[..., Any]) -> Callable:
    """The loss whose blank is the last class, by `paths` like `_Paths`."""
    xp, dtype = node.xp, node.np_dtype()
    collapse, merge = node.attr("preprocess_collapse_repeated"), node.attr("ctc_merge_repeated")
    ignore_long = node.attr("ignore_longer_outputs_than_inputs")

    def run(inputs: Any, indices: Any, values: Any, lengths: Any) -> tuple:
        _check_batch(inputs)
        steps, _, classes = inputs.shape
        if lengths.shape != inputs.shape[1:2]:
            raise invalid(_wrong_number(inputs, lengths))
        if (lengths > steps).any():
            wrong = int(np.argmax(lengths > steps))
            raise invalid(f"sequence_length({wrong}) = {int(lengths[wrong])} is more than the "
                          f"{steps} time steps")
        labels, counts = _labels(indices, values, len(lengths), classes, collapse)
        if not any_length:
            _check_room(counts, lengths, ignore_long)
        loss, grad = paths(inputs, labels, counts, lengths, merge).loss_and_gradient()
        if ignore_long:
            loss, grad = _without(xp, counts > lengths, loss, grad)
        return loss.astype(dtype), grad.astype(dtype)

    return run


def _labels(indices: Any, values: Any, batch: int, classes: int, collapse: bool) -> tuple:
    """(labels as a table, padded with blanks; how many each example has)."""
    blank = classes - 1
    if indices.ndim != 2 or indices.shape != (len(values), 2) or values.ndim != 1:
        raise invalid(f"labels_indices of shape {shown(indices)} do not fit labels_values of "
                      f"shape {shown(values)}")
    rows, columns = indices[:, 0], indices[:, 1]
    if len(rows) and (rows.min() < 0 or rows.max() >= batch or columns.min() < 0):
        raise invalid(f"labels_indices are out of bounds for {batch} examples")
    same = rows[1:] == rows[:-1]
    if ((rows[1:] < rows[:-1]) | (same & (columns[1:] <= columns[:-1]))).any():
        raise invalid("labels_indices are out of order")
    if (values < 0).any():
        raise invalid("All labels must be nonnegative integers, batch: "
                      f"{int(rows[np.argmax(values < 0)])}")
    late = same & (values[:-1] >= blank) & (values[1:] < blank)
    if late.any():
        raise invalid(f"Saw a non-null label (index >= num_classes - 1) following a null label, "
                      f"batch: {int(rows[1:][late][0])} num_classes: {classes}")
    kept = values < blank
    if collapse:
        kept[1:] &= ~(same & (values[1:] == values[:-1]))
    rows, values = rows[kept], values[kept]
    counts = np.bincount(rows, minlength=batch)
    table = np.full((batch, int(counts.max(initial=0))), blank, np.int64)
    starts = np.cumsum(counts) - counts
    table[rows, np.arange(len(rows)) - starts[rows]] = values
    return table, counts


def _without(xp: Any, left_out: Any, loss: Any, grad: Any) -> tuple:
    """The results with nothing for the examples that are left out."""
    left_out = xp.asarray(left_out)
    return xp.where(left_out, 0.0, loss), xp.where(left_out[None, :, None], 0.0, grad)


def _check_room(counts: Any, lengths: Any, ignore_long: bool) -> None:
    if (counts == 0).any():
        raise invalid(f"Labels length is zero in batch {int(np.argmax(counts == 0))}")
    short = counts > lengths
    if short.any() and not ignore_long:
        wrong = int(np.argmax(short))
        raise invalid("Not enough time for target transition sequence (required: "
                      f"{int(counts[wrong])}, available: {int(lengths[wrong])}), batch: {wrong}")


class Labels:
    """The labels of a batch of examples with blanks around each.

    Attributes:
        symbols: [batch, symbols], those behind an example's last are blanks.
        ends: the place of each example's last symbol.
    """

    def __init__(self, labels: Any, counts: Any, classes: int) -> None:
        self.ends = 2 * counts
        self.symbols = np.full((len(counts), 2 * labels.shape[1] + 1), classes - 1)
        self.symbols[:, 1::2] = labels


class _Paths(Labels):
    """All ways in which the labels can be spread over time, for a batch of examples."""

    def __init__(self, inputs: Any, labels: Any, counts: Any, lengths: Any, merge: bool) -> None:
        batch, classes = inputs.shape[1:]
        super().__init__(labels, counts, classes)
        self.lengths = lengths
        self.log_y = log_softmax(np, inputs)
        # log y of every symbol: [steps, batch, symbols]
        self.emitted = self.log_y[:, np.arange(batch)[:, None], self.symbols]
        blank = self.symbols == classes - 1
        self.stays = np.where(blank | merge, 0.0, -np.inf)
        before = np.full_like(self.symbols, -1)
        before[:, 2:] = self.symbols[:, :-2]
        skips = ~blank & ~((self.symbols == before) & merge)
        skips[:, :2] = False
        self.skips = np.where(skips, 0.0, -np.inf)

    def _forward(self) -> Any:
        steps, shape = len(self.emitted), self.symbols.shape
        alpha = np.full((steps, *shape), -np.inf)
        alpha[0, :, :2] = self.emitted[0, :, :2]
        one, two = np.full(shape, -np.inf), np.full(shape, -np.inf)
        for t in range(1, steps):
            last = alpha[t - 1]
            one[:, 1:], two[:, 2:] = last[:, :-1], last[:, :-2]
            alpha[t] = _sum(last + self.stays, one, two + self.skips) + self.emitted[t]
        return alpha

    def _backward(self) -> Any:
        steps, shape = len(self.emitted), self.symbols.shape
        beta = np.full((steps, *shape), -np.inf)
        place = np.arange(shape[1])
        ends = self.ends[:, None]
        final = np.where((place == ends) | (place == ends - 1), 0.0, -np.inf)
        one, two = np.full(shape, -np.inf), np.full(shape, -np.inf)
        beta[-1] = np.where(self.lengths[:, None] == steps, final, -np.inf)
        for t in range(steps - 2, -1, -1):
            following = beta[t + 1] + self.emitted[t + 1]
            one[:, :-1], two[:, :-2] = following[:, 1:], (following + self.skips)[:, 2:]
            reached = _sum(following + self.stays, one, two)
            beta[t] = np.where(self.lengths[:, None] == t + 1, final, reached)
        return beta

    def loss_and_gradient(self) -> tuple:
        """(-log p, its gradient by the logits); where p is zero the gradient is the softmax."""
        alpha, batch = self._forward(), np.arange(len(self.lengths))
        last = alpha[self.lengths - 1, batch]
        before = np.where(self.ends > 0, last[batch, self.ends - 1], -np.inf)
        log_p = _sum(last[batch, self.ends], before)
        shares = alpha + self._backward()
        shares -= np.where(np.isneginf(log_p), 0.0, log_p)[:, None]
        np.exp(shares, out=shares)
        grad = np.exp(self.log_y)
        for u in range(shares.shape[2]):  # each example's symbol u is of one class
            grad[:, batch, self.symbols[:, u]] -= shares[:, :, u]
        grad[np.arange(len(grad))[:, None] >= self.lengths] = 0.0
        return -log_p, grad


# ---------------------------------------------------------------- decoders


def _as_sparse(rows: Any, places: Any, values: Any, batch: int) -> tuple:
    indices = np.stack([rows, places], axis=1).astype(np.int64)
    longest = int(places.max(initial=-1)) + 1
    return indices, values.astype(np.int64), np.array([batch, longest], np.int64)


def _packed(kept: Any, values: Any) -> tuple:
    """The kept values of each row, moved together, as a sparse tensor."""
    rows, _ = np.nonzero(kept)
    places = (np.cumsum(kept, axis=1) - 1)[kept]
    return _as_sparse(rows, places, values[kept], len(values))


def _check_lengths(inputs: Any, lengths: Any) -> None:
    """Of a decoder; other than the loss it calls them a failed precondition."""
    steps = len(inputs)
    if lengths.shape != inputs.shape[1:2]:
        raise FailedPreconditionError(None, None, _wrong_number(inputs, lengths))
    if (lengths > steps).any():
        wrong = int(np.argmax(lengths > steps))
        raise FailedPreconditionError(None, None, f"sequence_length[{wrong}] = "
                                      f"{int(lengths[wrong])} is more than the {steps} time steps")


def _first_largest(inputs: Any) -> Any:
    """The class of each step and example that no other is larger than: no NaN but class 0's is."""
    if np.isnan(inputs).any():
        first, inputs = np.isnan(inputs[:, :, 0]), np.where(np.isnan(inputs), -np.inf, inputs)
        return np.where(first, 0, inputs.argmax(axis=2))
    return inputs.argmax(axis=2)


@kernel("CTCGreedyDecoder", device="CPU", fresh=True)
def _greedy(node: KernelNode) -> Callable:
    merge, blank = node.attr("merge_repeated"), node.attr("blank_index", -1)

    def run(inputs: Any, lengths: Any) -> tuple:
        _check_inputs(inputs)
        _check_lengths(inputs, lengths)
        steps, _, classes = inputs.shape
        if not -classes <= blank < classes:
            raise invalid(f"blank_index expected to be between -{classes} and {classes - 1}, got "
                          f"{blank}")
        likely = _first_largest(inputs)
        best = likely.T
        within = np.arange(steps) < lengths[:, None]
        top = np.take_along_axis(inputs, likely[:, :, None], axis=2)[:, :, 0]
        scores = np.where(within, -top.T, 0).sum(axis=1, dtype=inputs.dtype)
        kept = within & (best != blank % classes)
        if merge:
            kept[:, 1:] &= best[:, 1:] != best[:, :-1]
        return (*_packed(kept, best), scores.reshape(-1, 1))

    return run


@kernel("CTCBeamSearchDecoder", device="CPU", fresh=True)
def _beam_search(node: KernelNode) -> Callable:
    width, paths = node.attr("beam_width"), node.attr("top_paths")
    merge = node.attr("merge_repeated")

    def run(inputs: Any, lengths: Any) -> tuple:
        _check_inputs(inputs)
        _check_lengths(inputs, lengths)
        if paths > width:
            raise invalid(f"requested more paths than the beam width: {paths} of {width}")
        beams = _Beams(len(lengths), width)
        going_on = np.arange(len(inputs))[:, None] < lengths
        for log_y, active in zip(log_softmax(np, inputs), going_on):
            beams.advance(log_y, active)
        found, scores = beams.best(paths, merge)
        return (*(f[0] for f in found), *(f[1] for f in found), *(f[2] for f in found),
                scores.astype(inputs.dtype))

    return run


class _Beams:
    """The likeliest prefixes of every example: arrays ``[batch, width]``.

    A prefix is known by a hash of its labels, because it may leave the beam and come back while
    longer ones that start with it stay.
    """

    _MIX = np.uint64(0x9E3779B97F4A7C15)

    def __init__(self, batch: int, width: int) -> None:
        self.blank = np.full((batch, width), -np.inf)
        self.blank[:, 0] = 0.0
        self.label = np.full((batch, width), -np.inf)
        self.last = np.full((batch, width), -1)
        self.ids = np.ones((batch, width), np.uint64)
        self.parents = np.zeros((batch, width), np.uint64)
        # Per step: which prefix each one came from, and the label that was added (-1: none).
        self.history: list[tuple] = []

    def advance(self, log_y: Any, active: Any) -> None:
        """One step in time, for the `active` examples."""
        width, letters = self.last.shape[1], log_y.shape[1] - 1
        kept_blank, kept_label, grown, families = self._candidates(log_y)
        kept = np.logaddexp(kept_blank, kept_label)
        self._stop_growth(kept, grown, families, active)
        scores = np.concatenate([kept, grown.reshape(len(grown), -1)], axis=1)
        chosen = np.argpartition(-scores, width - 1, axis=1)[:, :width]
        # What stays is left in its place where the example has ended.
        chosen = np.where(active[:, None], chosen, np.arange(width))
        stays = chosen < width
        beyond = np.maximum(chosen - width, 0)
        source = np.where(stays, chosen, beyond // max(letters, 1))
        added = np.where(stays, -1, beyond % max(letters, 1))
        self._take(source, added, np.where(stays, _at(kept_blank, source), -np.inf),
                   np.where(stays, _at(kept_label, source), _at(scores, chosen)), active)

    def _candidates(self, log_y: Any) -> tuple:
        """(prefixes that end in a blank, in a label; prefixes with one more label; examples,
        children and parents where both are in the beam)."""
        letters = log_y.shape[1] - 1
        total = np.logaddexp(self.blank, self.label)
        is_prefix = self.last >= 0
        own = np.where(is_prefix, _at(log_y, np.maximum(self.last, 0)), -np.inf)
        grown = np.repeat(total[:, :, None], letters, axis=2)
        rows, slots = np.nonzero(is_prefix)
        grown[rows, slots, self.last[rows, slots]] = self.blank[rows, slots]
        grown += log_y[:, None, :letters]
        kept_label = self.label + own
        # Where the parent of a prefix is in the beam too, it grows into the prefix.
        alive = ~np.isneginf(total)
        match = (self.parents[:, :, None] == self.ids[:, None, :]) & (
            (alive & is_prefix)[:, :, None] & alive[:, None, :])
        row, child, parent = np.nonzero(match)
        letter = self.last[row, child]
        kept_label[row, child] = np.logaddexp(kept_label[row, child], grown[row, parent, letter])
        grown[row, parent, letter] = -np.inf
        return total + log_y[:, -1:], kept_label, grown, (row, child, parent)

    def _stop_growth(self, kept: Any, grown: Any, families: tuple, active: Any) -> None:
        """Let prefixes not grow that leave the beam before their parents have.

        Prefixes grow in the order of their probabilities, label by label. One that is pushed out
        before its turn, and before its parent comes to its last label, is dropped with it.
        """
        width = kept.shape[1]
        order = np.argsort(-np.logaddexp(self.blank, self.label), axis=1, kind="stable")
        turns = np.argsort(order, axis=1)
        row, child, parent = families
        above = np.sum(kept[row] > kept[row, child][:, None], axis=1) + np.sum(
            grown[row] > kept[row, child][:, None, None], axis=(1, 2))
        lost = (above >= width) & (turns[row, child] > turns[row, parent]) & active[row]
        row, child, parent = row[lost], child[lost], parent[lost]
        for i in np.lexsort((turns[row, child], row)):
            r, c, p = row[i], child[i], parent[i]
            better = grown[r] > kept[r, c]
            count = np.sum(kept[r] > kept[r, c]) + better[turns[r] < turns[r, p]].sum()
            if count + better[p, :self.last[r, c]].sum() >= width:
                grown[r, c] = -np.inf

    def _take(self, source: Any, added: Any, blank: Any, label: Any, active: Any) -> None:
        active = active[:, None]
        self.blank = np.where(active, blank, self.blank)
        self.label = np.where(active, label, self.label)
        own, grows = _at(self.ids, source), added >= 0
        ids = (own + np.uint64(1) + added.astype(np.uint64)) * self._MIX
        ids ^= ids >> np.uint64(29)
        self.parents = np.where(grows, own, _at(self.parents, source))
        self.ids = np.where(grows, ids, own)
        self.last = np.where(grows, added, _at(self.last, source))
        self.history.append((source, added))

    def best(self, paths: int, merge: bool) -> tuple:
        """The likeliest `paths` as sparse tensors, and their log probabilities."""
        total = np.logaddexp(self.blank, self.label)
        order = np.argsort(-total, axis=1, kind="stable")[:, :paths]
        scores = _at(total, order)
        if np.isneginf(scores).any():
            raise invalid(f"the beam holds fewer than the {paths} paths requested")
        labels = np.empty((len(self.history), *order.shape), np.int64)
        slot = order
        for t in range(len(self.history) - 1, -1, -1):
            source, added = self.history[t]
            labels[t] = _at(added, slot)
            slot = _at(source, slot)
        return [_path(labels[:, :, i].T, merge) for i in range(paths)], scores


def _at(table: Any, columns: Any) -> Any:
    return np.take_along_axis(table, columns, axis=1)


def _path(added: Any, merge: bool) -> tuple:
    """One path per example, from the labels added at each step (-1: none)."""
    kept = added >= 0
    if merge:
        place = np.where(kept, np.arange(added.shape[1]), -1)
        before = np.maximum.accumulate(place, axis=1)[:, :-1]
        previous = np.where(before >= 0, _at(added, np.maximum(before, 0)), -1)
        kept[:, 1:] &= added[:, 1:] != previous
    return _packed(kept, added)
