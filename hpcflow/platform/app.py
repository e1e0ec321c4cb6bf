"""``hf.app``: running a program's ``main`` after its flags were parsed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from hpcflow.platform import flags
from hpcflow.platform.flags import FLAGS

__all__ = ["flags", "run"]


def run(main: Callable | None = None, argv: list[str] | None = None) -> Any:
    """Parse the flags in `argv` (the command line by default) and exit with ``main(argv)``.

    `main` defaults to the ``main`` of the program; it gets the arguments that are no flags behind
    the program's name. Flags that the program defined by ``absl.flags`` are parsed, too.
    """
    arguments = sys.argv if argv is None else argv
    absl_flags = sys.modules.get("absl.flags")  # there only if something uses it
    if absl_flags is not None:
        arguments = absl_flags.FLAGS(FLAGS(arguments, known_only=True), known_only=True)
    rest = FLAGS._parse(arguments[1:])
    main = main or sys.modules["__main__"].main
    sys.exit(main([arguments[0], *rest]))
