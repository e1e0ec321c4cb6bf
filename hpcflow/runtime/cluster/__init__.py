"""Tasks of a cluster: masters that start steps, endpoints that serve them, lanes, health.

Begin reading with `server` and `master`, then `endpoint` and `lane`.
"""
