"""The ``ConfigProto`` of sessions that are given none, as the functions of ``hf.config`` set it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message

_config: Message | None = None


def default_config() -> Message | None:
    """Return the options of sessions without a config; None where nothing was set."""
    return _config


def to_edit() -> Message:
    """Return the options for a change, which concerns the sessions made after it."""
    global _config
    if _config is None:
        from tensorboard.compat.proto.config_pb2 import ConfigProto

        _config = ConfigProto()
    return _config


def reset() -> None:
    """Forget all that was set."""
    global _config
    _config = None
