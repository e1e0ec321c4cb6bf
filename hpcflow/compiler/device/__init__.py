"""Fusion of what runs on a device with memory of its own, into programs of the form of loops:
`units` puts lines together, `groups` makes programs of them, `calls` runs these.
"""
