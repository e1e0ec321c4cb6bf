"""Command-line tools: ``python -m hpcflow doctor``, ``run``, ``bench``, ``simulate`` and others.

Outermost room: it may use all others. Begin reading with `cli`.
"""
