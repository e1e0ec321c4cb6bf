"""Straight runs: the items of a step in an order that is known, as far as nothing has to wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.compiler.emit.items import CALL, Item
from hpcflow.compiler.emit.straight import Order
from hpcflow.compiler.ir.withdrawable import ATTR
from hpcflow.resources.effects import Effect
from hpcflow.runtime.executor.completion import Completion
from hpcflow.runtime.executor.running import Running


class StraightRun(Running):
    """The items of a step, one after the other without counting, until a kernel waits."""

    __slots__ = ()

    def _run_straight(self, order: Order, feeds: Sequence[Any]) -> None:
        """Run all, or what comes before the first that waits, and then as ever."""
        root = self._root
        slots = root.slots
        self._ready = []
        for index, item in self.executable.feeds.items():
            self._hand_over(item, slots, (feeds[index],))
        for position, item in enumerate(order.items):
            start = item.slot
            end = start + item.count
            values = slots[start:end]
            slots[start:end] = [None] * item.count
            if item.kind == CALL:
                try:
                    outputs = item.function(self, *values)
                except BaseException as e:  # noqa: BLE001  (reported by whoever waits for the step)
                    self._failed(item, e)
                    return
                del values
            else:
                completion = Completion(self, item, root)
                effect = None
                try:
                    effect = item.function(self, completion, *values)
                except BaseException as e:  # noqa: BLE001  (the same as done(error))
                    completion(e)
                if isinstance(effect, Effect):
                    self.effects[0, item.index] = (item, effect)
                else:
                    effect = None
                came = completion.came
                outputs = came[0] if came else None
                if type(outputs) is not tuple or len(outputs) != len(item.outputs):
                    root.pending, self._ready = order.reached(position)
                    self._outstanding += 1
                    self._called(item, root, completion, values)
                    del values
                    self._run_ready()
                    return
                del values
                if effect is not None:
                    effect.pass_on(ATTR in item.nodes[0].attrs)
            self._hand_over(item, slots, outputs)
            outputs = None  # values are not kept longer than they are needed

    def _hand_over(self, item: Item, slots: list[Any], outputs: Sequence[Any]) -> None:
        """Put `outputs` where they are read."""
        for port, slot, _, _ in item.targets:
            slots[slot] = outputs[port]
        for port, fetch in item.results:
            self.results[fetch] = outputs[port]
