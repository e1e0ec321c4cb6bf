"""superblocks: the regions that always run behind one event of a step become one generated
function.

A step goes on when it starts, and when a value comes from another task. Regions that wait for one
such event alone, perhaps by way of others that do, run behind it in the same order in every step.
They become a function that hands values from one to the next, without counts and a queue; the
executor calls it as long as nothing is dead and nothing has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from hpcflow.compiler.emit.items import CALL, RECEIVE, SOURCE, Item, Layout, Piece

# What the readers of an event or a region are: (output, slot, cell, item), without a slot of those
# that only wait for it.
Reader = tuple[int, int | None, int, Item]

START = None  # the event without an item


def make_pieces(items: Sequence[Item], root: Layout) -> dict[Item | None, Piece]:
    """Event (``START``, or the item of an edge) -> its piece, of the `items` in the frame `root`.

    An event has none if nothing runs behind it alone, or if something that is no region may have
    to run between its regions.
    """
    inside = [i for i in items if i.layout is root]
    feeds = [i for i in inside if i.kind == SOURCE]
    found: dict[Item | None, Piece] = {}
    edges = [i for i in inside if i.kind == RECEIVE and not i.edge.depth]  # type: ignore[union-attr]
    for event in [START, *edges]:
        begins = feeds if event is START else [event]
        sources = root.sources if event is START else []
        order = _order(begins, sources, items)
        if order and _is_whole(begins, order, sources, items):
            found[event] = _generate(event, begins, order, items)
    return found


def _readers(item: Item, items: Sequence[Item]) -> list[Reader]:
    readers: list[Reader] = [(port, slot, cell, items[i]) for port, slot, cell, i in item.targets]
    return readers + [(0, None, cell, items[i]) for cell, i in item.control_targets]


def _order(begins: list[Item], sources: list[Item], items: Sequence[Item]) -> list[Item]:
    """The regions that wait for one event alone, in the order in which the executor runs them: of
    those that are ready the first."""
    left: dict[Item, int] = {}
    ready = [i.index for i in sources if i.kind == CALL]
    heapify(ready)
    order: list[Item] = []

    def completed(item: Item) -> None:
        for *_, reader in _readers(item, items):
            left[reader] = left.get(reader, reader.pending) - 1
            if not left[reader] and reader.kind == CALL:
                heappush(ready, reader.index)

    for item in begins:
        completed(item)
    while ready:
        item = items[heappop(ready)]
        order.append(item)
        completed(item)
    return order


def _is_whole(begins: list[Item], order: list[Item], sources: list[Item],
              items: Sequence[Item]) -> bool:
    """True if everything else that the event may make ready comes after the regions of `order`."""
    if any(i.merges or i.control_merges for i in [*begins, *order]):
        return False
    regions, last = set(order), max(i.index for i in order)
    others = [*sources, *(r[3] for i in [*begins, *order] for r in _readers(i, items))]
    return all(i.index > last for i in others if i not in regions)


def _generate(event: Item | None, begins: list[Item], order: list[Item],
              items: Sequence[Item]) -> Piece:
    """The function of an event behind which the items of `order` run."""
    regions = set(order)
    names: dict[str, Any] = {"heappush": heappush}
    values: dict[int, str] = {}  # slot -> the expression of what would be there
    body = [f"item = item_{order[0].index}"]
    for item in begins:
        value = f"value[{item.nodes[0].attrs['index']}]" if event is START else "value"
        if item.edge is not None and item.edge.parts:  # the value is one of each
            value = "value[{}]"
        body += _hand_on(item, lambda port, v=value: v.format(port), values, regions, items)  # type: ignore[misc]
    for item in order:
        k = item.index
        names[f"item_{k}"], names[f"run_{k}"] = item, item.function
        arguments = [values.pop(item.slot + i) for i in range(item.count)]
        handed = _hand_on(item, lambda port, k=k: f"out_{k}[{port}]", values, regions, items)  # type: ignore[misc]
        body.append(f"item = item_{k}")
        body.append(f"out_{k} = run_{k}({', '.join(['step', *arguments])})")
        body += [f"step.results[{fetch}] = out_{k}[{port}]" for port, fetch in item.results]
        body += handed
        # Values are not kept longer than they are needed.
        kept = {text.partition("[")[0] for text in values.values()}
        done = {text.partition("[")[0] for text in [*arguments, f"out_{k}["]} - kept
        body += [f"{name} = None" for name in sorted(done)]
    return _compile(body, names)


def _compile(body: list[str], names: dict[str, Any]) -> Piece:
    """Return the function with the lines `body`, in which ``item`` is the item that is running."""
    text = ["def piece(step, value):"]
    if any("pending[" in line for line in body):
        text += ["    root = step._root",
                 "    slots, pending, ready = root.slots, root.pending, step._ready"]
    text += ["    try:", *[f"        {line}" for line in body],
             "    except BaseException as error:", "        step._failed(item, error)"]
    exec(compile("\n".join(text), "<piece of a step>", "exec"), names)
    return names["piece"]


def _hand_on(item: Item, value: Callable[[int], str], values: dict[int, str], regions: set[Item],
             items: Sequence[Item]) -> list[str]:
    """Note where the piece's own regions find the outputs of `item`; the lines that give them to
    all other readers."""
    lines: list[str] = []
    for port, slot, cell, reader in _readers(item, items):
        if reader in regions:
            if slot is not None:
                values[slot] = value(port)
            continue
        if slot is not None:
            lines.append(f"slots[{slot}] = {value(port)}")
        lines += [f"left = pending[{cell}] = pending[{cell}] - 1",
                  f"if not left: heappush(ready, {reader.index})"]
    return lines
