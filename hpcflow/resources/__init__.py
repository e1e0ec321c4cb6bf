"""The objects that stateful ops act on: variables, queues, tables, iterators, by name.

May use `comm` and `host`, and knows nothing of graphs. Begin reading with `manager`, then
`variables`.
"""

from hpcflow.base import held_signals

held_signals.hold_in(__name__)
