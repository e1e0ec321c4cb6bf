"""The base that everything else may use and that uses nothing of the library: hooks between
modules, late names, keyword aliases, creation sites of operations, callbacks.

Begin reading with `hooks`.
"""
