"""Command-line tools: ``python -m hpcflow doctor`` and ``python -m hpcflow bench``."""
