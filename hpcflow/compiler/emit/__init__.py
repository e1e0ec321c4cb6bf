"""The text of a region's function, and the executable form of a part.

Begin reading with `writer` (text), `codegen` (function), `executable` (part).
"""
