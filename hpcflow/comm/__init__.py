"""Communication between ranks: transports, waiting, MPI start-up and shut-down.

The only package that imports mpi4py, and only when a world of ranks is asked for.
"""
