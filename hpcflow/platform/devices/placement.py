"""Placement of ops whose device is not there, in sessions that are given no config."""

from __future__ import annotations

from hpcflow.platform.devices.physical import list_logical_devices
from hpcflow.runtime.session.defaults import default_config, to_edit


def get_soft_device_placement() -> bool:
    """Return True if ops whose device is not there run on another."""
    config = default_config()
    return config is not None and config.allow_soft_placement


def set_soft_device_placement(enabled: bool) -> None:
    """Let the ops of sessions made from now on run elsewhere where their device is not there."""
    to_edit().allow_soft_placement = enabled


def list_device_names() -> list[str]:
    """Return the names of the devices that a session without a config has."""
    return [device.name for device in list_logical_devices()]
