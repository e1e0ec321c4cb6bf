"""Data sets of files for ``hpcflow.contrib.slim``: what is in them, and how it is read."""
