"""Communication between ranks: transports, waiting, MPI start-up and shut-down.

The only room that imports mpi4py, and only when a world of ranks is asked for; it may use nothing
but the public vocabulary. Begin reading with `transport`, the contract of all transports.
"""

from hpcflow.base import held_signals

held_signals.hold_in(__name__)
