"""One run that says how the library does on a real GPU: ``python -m hpcflow gpu-check``."""
