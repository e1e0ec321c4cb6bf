"""Values as messages: headers, encodings, packs of small values, memory shared on one node.

May use `comm`. Begin reading with `wire`.
"""
