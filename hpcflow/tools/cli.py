"""The command line: ``python -m hpcflow COMMAND ...``.

Each command is a module with ``main(argv) -> exit status``, imported only when it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Sequence

from hpcflow.version import __version__

PROGRAM = "python -m hpcflow"

# Command -> (its module in this room, what it does).
COMMANDS = {
    "doctor": (".doctor", "what hpcflow finds on this machine, and what is wrong"),
    "run": (".run", "start a program on several ranks"),
    "checkpoint": (".checkpoint", "list, verify, compare, convert, prune checkpoints"),
    "simulate": (".simulate", "predict step times on a cluster that is described"),
    "gpu-check": (".gpu_check.command", "check and time the library on a GPU"),
    "bench": (".bench.command", "run a benchmark and print its table"),
}


class CommandError(Exception):
    """What a command cannot do, in words for its user: printed without a traceback."""


def usage() -> str:
    """The help text."""
    width = max(map(len, COMMANDS))
    lines = [f"usage: {PROGRAM} COMMAND [options]", "", "commands:"]
    lines += [f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join([*lines, "", f"{PROGRAM} COMMAND --help lists the options of a command."])


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status, or 2 for wrong arguments."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    if name in ("-V", "--version"):
        print(f"hpcflow {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"{PROGRAM}: {unknown('command', name, COMMANDS)}", file=sys.stderr)
        return 2
    return run_command(name, arguments[1:])


def run_command(name: str, arguments: list[str]) -> int:
    """Run one command; errors meant for the user come without a traceback."""
    try:
        status = importlib.import_module(COMMANDS[name][0], __package__).main(arguments)
        sys.stdout.flush()
        return status
    except CommandError as error:
        print(f"{PROGRAM} {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader of our output has seen enough, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def unknown(kind: str, name: str, known: Sequence[str] | dict) -> str:
    """``no command 'docter'; did you mean doctor? There are: bench, doctor``."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ";"
    return f"no {kind} '{name}'{hint} There are: {', '.join(known)}"
