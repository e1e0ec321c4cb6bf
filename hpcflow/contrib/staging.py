"""Staging areas, under the name that 1.x programs use."""

from __future__ import annotations

from hpcflow.ops.io.staging import StagingArea

__all__ = ["StagingArea"]
