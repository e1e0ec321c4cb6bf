"""``hpcflow completion``: scripts by which a shell completes commands, options and their values.

The words come from the parsers of the commands when the script is made, so that completing starts
no Python.
"""

from __future__ import annotations

import argparse
import re
import string
import sys
from collections.abc import Iterator, Sequence

from hpcflow.tools.cli import COMMANDS, CommandParser, command_module, command_parser

#: Characters that need no quotes in a shell.
_PLAIN = {*string.ascii_letters, *string.digits, *"-_"}
_ABOUT = """Print a script that completes the commands and options of hpcflow.

  bash:  eval "$(hpcflow completion bash)"          in ~/.bashrc
  zsh:   eval "$(hpcflow completion zsh)"           in ~/.zshrc, after compinit
  fish:  hpcflow completion fish | source           in ~/.config/fish/config.fish"""

_BASH = """\
# Completion of hpcflow, made by `hpcflow completion bash`.
_hpcflow() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""
    local key="${COMP_WORDS[1]}" sub="${COMP_WORDS[1]} ${COMP_WORDS[2]}"
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "%(commands)s" -- "$word"))
        return
    fi
    case "$key $before" in
%(values)s
    esac
    if [[ -z "$words" ]]; then
        case "$key" in
%(first)s
        esac
        if (( COMP_CWORD > 2 )); then
            case "$sub" in
%(second)s
            esac
        fi
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _hpcflow hpcflow
"""
_ZSH = """\
# Completion of hpcflow, made by `hpcflow completion zsh`.
autoload -U +X bashcompinit && bashcompinit
"""


def parser() -> CommandParser:
    """The options."""
    made = command_parser("completion", _ABOUT)
    made.add_argument("shell", choices=("bash", "zsh", "fish"),
                      help="the shell that reads the script")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Print the script."""
    shell = parser().parse_args(argv).shell
    if shell == "fish":
        sys.stdout.write(fish_script())
    else:
        sys.stdout.write((_ZSH if shell == "zsh" else "") + bash_script())
    return 0


def bash_script() -> str:
    """The script for bash, which zsh reads too."""
    values, first, second = [], [], []
    for name in COMMANDS:
        made = command_module(name).parser()
        first.append(_case(name, _words(made)))
        for sub, inner in _subcommands(made):
            second.append(_case(f"{name} {sub}", _words(inner)))
            values += _values(name, inner)
        values += _values(name, made)
    return _BASH % {"commands": " ".join(COMMANDS), "values": _lines(values, 8),
                    "first": _lines(first, 12), "second": _lines(second, 16)}


def fish_script() -> str:
    """The script for fish, which shows what each command and option does beside it."""
    lines = ["# Completion of hpcflow, made by `hpcflow completion fish`."]
    for name, (_, what) in COMMANDS.items():
        lines.append(_fish("__fish_use_subcommand", "-f", "-a", name, "-d", what))
        made, here = command_module(name).parser(), f"__fish_seen_subcommand_from {name}"
        subs = dict(_subcommands(made))
        lines += _fish_options(here, made)
        for sub, inner in subs.items():
            lines.append(_fish(f"{here}; and not __fish_seen_subcommand_from {' '.join(subs)}",
                               "-f", "-a", sub, "-d", inner.description or ""))
            lines += _fish_options(f"{here}; and __fish_seen_subcommand_from {sub}", inner)
    return "\n".join([*lines, ""])


def _fish_options(here: str, made: argparse.ArgumentParser) -> Iterator[str]:
    """A line for each option of a parser, and for each argument with fixed values."""
    for action in made._actions:
        if action.help is argparse.SUPPRESS or isinstance(action.choices, dict):
            continue
        flags = [word for option in action.option_strings for word in (
            "-l" if option.startswith("--") else "-s", option.lstrip("-"))]
        values = " ".join(map(str, action.choices or ()))
        if not flags and not values:
            continue
        takes = ["-x", "-a", values] if values and flags else ["-f", "-a", values] if values else [
            "-r"] if action.nargs != 0 else []
        yield _fish(here, *flags, *takes, "-d", _first_sentence(made, action))


def _first_sentence(made: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = made._get_formatter()._expand_help(action) if action.help else ""
    return re.split(r"; | \(|\. ", text)[0].strip()


def _fish(here: str, *words: str) -> str:
    return " ".join(["complete -c hpcflow -n", *(
        "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" if set(word) - _PLAIN else word
        for word in (here, *words))])


def _lines(cases: list[str], indent: int) -> str:
    return "\n".join(" " * indent + case for case in dict.fromkeys(cases))


def _case(pattern: str, words: Sequence[str]) -> str:
    return f'"{pattern}") words="{" ".join(words)}" ;;'


def _words(made: argparse.ArgumentParser) -> list[str]:
    """The options, subcommands and fixed values of a parser."""
    words: list[str] = []
    for action in made._actions:
        if action.help is argparse.SUPPRESS:
            continue
        words += action.option_strings or [str(c) for c in action.choices or ()]
    return words


def _values(name: str, made: argparse.ArgumentParser) -> list[str]:
    """The cases of options with fixed values: ``run --launcher`` has auto, mpirun, srun."""
    return [_case(f"{name} {option}", [str(c) for c in action.choices])
            for action in made._actions if action.choices for option in action.option_strings]


def _subcommands(made: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in made._actions:
        if isinstance(action.choices, dict):
            yield from action.choices.items()
