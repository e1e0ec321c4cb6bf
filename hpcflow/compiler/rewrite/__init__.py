"""Passes that replace nodes by fewer or better ones, whatever the devices.

Begin reading with `prune` and `fold`.
"""
