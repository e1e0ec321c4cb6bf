"""``python -m hpcflow COMMAND``; see `hpcflow.tools.cli`."""

import sys

from hpcflow.tools.cli import program

if __name__ == "__main__":
    sys.exit(program())
