"""``hpcflow compare``: the values of two graphs, or of one in two runtimes, node by node."""
