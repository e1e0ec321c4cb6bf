"""Captured stacks."""

from __future__ import annotations

import inspect

import hpcflow
from hpcflow.base import tracing


def _capture(depth):
    return tracing.creation_site(depth)


def test_depth_leaves_frames_out():
    line = inspect.currentframe().f_lineno + 1
    stack = _capture(0)
    sites = tracing.resolve(stack)
    assert [site.function for site in sites[:2]] == ["_capture", "test_depth_leaves_frames_out"]
    assert sites[1].lineno == line and sites[1].filename == __file__
    assert tracing.resolve(_capture(1))[0].function == "test_depth_leaves_frames_out"
    assert tracing.creation_site(10_000) == ()


def test_lines_of_long_statements():
    line = inspect.currentframe().f_lineno + 2
    site = tracing.user_frame(
        _capture(1),
    )
    assert site == (__file__, line, "test_lines_of_long_statements")


def test_user_frame_skips_the_package():
    package = hpcflow.__path__[0]
    code = compile("def inside(f):\n    return f(0)\n", f"{package}/fake.py", "exec")
    names = {"f": _capture}
    exec(code, names)
    stack = names["inside"](tracing.creation_site)
    assert tracing.resolve(stack)[0].function == "inside"
    assert tracing.user_frame(stack).function == "test_user_frame_skips_the_package"
    assert tracing.user_frame(stack[:1]) is None and tracing.user_frame(()) is None
    assert "fake.py" in tracing.format_stack(stack)
    assert "fake.py" not in tracing.format_stack(stack, user_only=True)


def test_text_is_that_of_a_traceback():
    text = tracing.format_stack(_capture(0)[:2])
    first, second = text.index("in test_text_is_that_of_a_traceback"), text.index("in _capture")
    assert first < second and "    return tracing.creation_site(depth)\n" in text


def test_deep_stacks_are_bounded():
    def recurse(levels):
        return _capture(0) if levels == 0 else recurse(levels - 1)

    assert len(recurse(200)) == 64
