"""Where in the user's program something was created.

Every operation remembers its stack, so capturing must be cheap: frames are kept as
(code object, instruction offset); line numbers and text are worked out when asked for.
"""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType
from typing import NamedTuple

#: An opaque captured stack, innermost frame first.
Stack = tuple[tuple[CodeType, int], ...]

_PACKAGE_PREFIX = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MAX_FRAMES = 64


class Site(NamedTuple):
    """One place in a program."""

    filename: str
    lineno: int
    function: str


def creation_site(depth: int = 1) -> Stack:
    """Capture the calling stack, innermost first, leaving out the `depth` innermost frames.

    Depth 0 starts at the function that calls `creation_site`, 1 at its caller. At most the
    64 innermost frames are kept.
    """
    try:
        frame = sys._getframe(depth + 1)
    except ValueError:  # the stack is shallower than that
        return ()
    stack = []
    room = _MAX_FRAMES
    while frame is not None and room:
        stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back  # type: ignore[assignment]
        room -= 1
    return tuple(stack)


def _line_of(code: CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


def resolve(stack: Stack) -> list[Site]:
    """The places of a captured stack, innermost first."""
    return [Site(code.co_filename, _line_of(code, at), code.co_name) for code, at in stack]


def user_frame(stack: Stack) -> Site | None:
    """The innermost place outside the hpcflow package, or None if there is none."""
    for code, offset in stack:
        if not code.co_filename.startswith(_PACKAGE_PREFIX):
            return Site(code.co_filename, _line_of(code, offset), code.co_name)
    return None


def format_stack(stack: Stack, user_only: bool = False) -> str:
    """The stack as Python prints tracebacks: outermost first, with source lines.

    `user_only` leaves out the frames of the hpcflow package.
    """
    lines = []
    for site in reversed(resolve(stack)):
        if user_only and site.filename.startswith(_PACKAGE_PREFIX):
            continue
        lines.append(f'  File "{site.filename}", line {site.lineno}, in {site.function}\n')
        source = linecache.getline(site.filename, site.lineno).strip()
        if source:
            lines.append(f"    {source}\n")
    return "".join(lines)
