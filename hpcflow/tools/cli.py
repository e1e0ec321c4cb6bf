"""The command line: ``hpcflow COMMAND ...`` or ``python -m hpcflow COMMAND ...``.

Each command is a module with ``main(argv) -> exit status`` and ``parser()``, a `CommandParser` of
its options, imported only when it is asked for.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hpcflow.base import interrupts
from hpcflow.version import API_VERSION, __version__

#: As the user has started it.
PROGRAM = "hpcflow" if Path(sys.argv[0]).name == "hpcflow" else "python -m hpcflow"

# Command -> (its module in this room, what it does).
COMMANDS = {
    "doctor": (".doctor", "what hpcflow finds on this machine, and what is wrong"),
    "run": (".run", "start a program on several ranks"),
    "trace": (".trace.command", "merge and draw traces of steps; say why a step is slow"),
    "profile": (".profile", "count the work and the parameters of a graph; time of a traced step"),
    "compare": (".compare.command", "run two graphs, or one in two runtimes, node by node"),
    "checkpoint": (".checkpoint", "list, verify, compare, convert, prune checkpoints"),
    "freeze-graph": (".freeze_graph", "make one GraphDef of a graph and a checkpoint"),
    "simulate": (".simulate", "predict step times on a cluster that is described"),
    "gpu-check": (".gpu_check.command", "check and time the library on a GPU"),
    "bench": (".bench.command", "run a benchmark and print its table"),
    "completion": (".completion", "print a script that lets bash, zsh or fish complete commands"),
}

EXIT_CODES = """exit status:
  0    all went well
  1    what was checked, compared or run is not well
  2    wrong arguments, or something that the command cannot do
  130  interrupted by SIGINT
  141  the reader of the output has gone"""


class CommandError(Exception):
    """An error that a command reports to its user in plain words, without a traceback."""


class CommandParser(argparse.ArgumentParser):
    """The options of a command: their errors take one line, their help ends with the statuses."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options.setdefault("epilog", EXIT_CODES)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        """End the program with status 2 and one line."""
        self.exit(2, f"{self.prog}: error: {message} (--help lists the options)\n")


def command_parser(name: str, description: str | None, **options: Any) -> CommandParser:
    """The parser of the command `name`, without options so far."""
    return CommandParser(prog=f"{PROGRAM} {name}", description=description, **options)


def command_module(name: str) -> Any:
    """The module of a command."""
    return importlib.import_module(COMMANDS[name][0], __package__)


def usage() -> str:
    """The help text."""
    width = max(map(len, COMMANDS))
    lines = [f"usage: {PROGRAM} COMMAND [options]", "", "commands:"]
    lines += [f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join([*lines, "", f"{PROGRAM} COMMAND --help lists the options of a command.", "",
                      EXIT_CODES])


def program() -> int:
    """Run the command that this process was started for; its exit status."""
    try:
        interrupts.raise_from_now()
        return main()
    except KeyboardInterrupt:
        return interrupts.STATUS
    finally:
        interrupts.end_from_now()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status, or 2 for wrong arguments."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    if name in ("-V", "--version"):
        print(f"hpcflow {__version__} (API of {API_VERSION})")
        return 0
    if name not in COMMANDS:
        print(f"{PROGRAM}: {unknown('command', name, COMMANDS)}", file=sys.stderr)
        return 2
    return run_command(name, arguments[1:])


def run_command(name: str, arguments: list[str]) -> int:
    """Run one command; errors meant for the user come without a traceback."""
    try:
        status = command_module(name).main(arguments)
        sys.stdout.flush()
        return status
    except CommandError as error:
        print(f"{PROGRAM} {name}: {error}", file=sys.stderr)
        return 2
    except (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError,
            PermissionError) as error:
        if error.filename is None:
            raise
        print(f"{PROGRAM} {name}: {first_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return interrupts.STATUS
    except BrokenPipeError:  # the reader of our output has seen enough, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def first_line(error: BaseException) -> str:
    """The first line of an error's text, for a `CommandError`; its class if it has no text."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    lines = str(getattr(error, "message", text)).splitlines()
    return lines[0] if lines else type(error).__name__


# ---------------------------------------------------------------- values of options


def whole(least: int) -> Callable[[str], int]:
    """The type of an option: whole numbers that are not less than `least`."""

    def convert(text: str) -> int:
        with contextlib.suppress(ValueError):
            if int(text) >= least:
                return int(text)
        raise argparse.ArgumentTypeError(f"expected a whole number >= {least}, got '{text}'")

    return convert


def at_least_zero(text: str) -> float:
    """The type of an option: finite numbers that are not negative."""
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number >= 0, got '{text}'")


def output_file(text: str) -> Path:
    """The type of an option: a file to write at the end, for which there must be a folder."""
    path = Path(text)
    if path.is_dir() or not text:
        raise argparse.ArgumentTypeError(f"expected a file to write, got the folder '{text}'")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder '{path.parent}' to write {text} to")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} may not be written")
    return path


def unknown(kind: str, name: str, known: Sequence[str] | dict) -> str:
    """``no command 'docter'; did you mean doctor? There are: bench, doctor``."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ";"
    return f"no {kind} '{name}'{hint} There are: {', '.join(known)}"
