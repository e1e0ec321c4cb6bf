"""The public names of 1.x: module paths, later and earlier names, lazily loaded modules, as tables.

Only this room holds names of hpcflow's modules as strings, and nothing but the package itself and
its outermost rooms imports it; the modules of others ask for late names through `base.late_names`.
Begin reading with `modules` and `table`.
"""
