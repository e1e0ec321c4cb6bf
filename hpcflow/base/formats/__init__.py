"""Protobuf messages of the 1.x formats, and arrays in them.

May use the public vocabulary (`dtypes`, `shapes`). Begin reading with `array_protos`.
"""
