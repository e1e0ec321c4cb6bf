"""The versions of hpcflow; pyproject.toml reads its own from here."""

__version__ = "0.1.0"
GRAPH_DEF_VERSION = 21  # of the GraphDefs that it writes, and the newest that it must know
GRAPH_DEF_VERSION_MIN_CONSUMER = GRAPH_DEF_VERSION_MIN_PRODUCER = 0
GIT_VERSION = COMPILER_VERSION = ""
API_VERSION = "1.15.0"  # the last version of the API whose core it has: programs ask for it
VERSION = API_VERSION  # what programs compare
