"""What the user and the hooks of a step ask for, as one request."""

from __future__ import annotations

from typing import Any

from hpcflow.framework.session_run_hook import SessionRunArgs


def merged_feeds(given: Any, requests: list[SessionRunArgs | None]) -> Any:
    """Return the user's feeds and the hooks'; ``RuntimeError`` if two feed the same tensor."""
    merged: dict[Any, Any] = {}
    for request in requests:
        if request is not None and request.feed_dict:
            _check_apart(merged, request.feed_dict, "Same tensor is fed by two hooks.")
            merged.update(request.feed_dict)
    if not merged:
        return given
    _check_apart(merged, given or {}, "Same tensor is fed by a SessionRunHook and user.")
    return {**(given or {}), **merged}


def _check_apart(one: dict, other: dict, message: str) -> None:
    both = set(one) & set(other)
    if both:
        raise RuntimeError(f"{message} Conflict: {', '.join(map(str, both))}")


def merged_options(given: Any, requests: list[SessionRunArgs | None]) -> Any:
    """Return one ``RunOptions`` that does what all ask for; None if nobody does."""
    wanted = [r.options for r in requests if r is not None and r.options is not None]
    if not wanted:
        return given
    merged = type(wanted[0])()
    for options in [given, *wanted] if given is not None else wanted:
        level, timeout = merged.trace_level, merged.timeout_in_ms
        merged.MergeFrom(options)
        merged.trace_level = max(level, options.trace_level)
        merged.timeout_in_ms = max(timeout, options.timeout_in_ms)
    return merged
