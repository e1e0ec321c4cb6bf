"""One running step of one task: ready items, frames and iterations, the event loop, devices.

Begin reading with `executor`, then `propagation` and `event_loop`.
"""
