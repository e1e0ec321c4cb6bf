"""Options of a profile: the quantities counted, the nodes shown, and their order."""

from __future__ import annotations

import copy
from typing import Any

_ALL: dict[str, Any] = {
    "max_depth": 100, "min_bytes": 0, "min_micros": 0, "min_params": 0, "min_float_ops": 0,
    "min_occurrence": 0, "order_by": "name", "account_type_regexes": [".*"],
    "start_name_regexes": [".*"], "trim_name_regexes": [], "show_name_regexes": [".*"],
    "hide_name_regexes": [], "account_displayed_op_only": False, "select": ["micros"],
    "step": -1, "output": "stdout",
}  # fmt: skip
TRAINABLE_VARIABLES = "_trainable_variables"  # a type of these, for `account_type_regexes`
_LEAST = ("peak_bytes", "residual_bytes", "output_bytes")


class ProfileOptionBuilder:
    """Builds the options of ``profile``: a dict, from one of the three usual ones or from nothing.

    The methods return the builder; :meth:`build` returns the options.
    """

    def __init__(self, options: dict | None = None) -> None:
        self._options: dict[str, Any] = copy.deepcopy(_ALL) if options is None else copy.deepcopy(
            options)

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """Return options that count the elements of variables that are trained."""
        return {**copy.deepcopy(_ALL), "max_depth": 10000, "select": ["params"],
                "account_type_regexes": [TRAINABLE_VARIABLES], "account_displayed_op_only": True}

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Return options that count float operations."""
        return {**copy.deepcopy(_ALL), "max_depth": 10000, "min_float_ops": 1,
                "select": ["float_ops"], "order_by": "float_ops",
                "account_displayed_op_only": True}

    @staticmethod
    def time_and_memory(min_micros: int = 1, min_bytes: int = 1, min_accelerator_micros: int = 0,
                        min_cpu_micros: int = 0, min_peak_bytes: int = 0,
                        min_residual_bytes: int = 0, min_output_bytes: int = 0) -> dict[str, Any]:
        """Return options that show time and memory, which need the ``RunMetadata`` of a step."""
        return {**copy.deepcopy(_ALL), "max_depth": 10000, "min_bytes": min_bytes,
                "min_micros": min_micros, "min_accelerator_micros": min_accelerator_micros,
                "min_cpu_micros": min_cpu_micros, "min_peak_bytes": min_peak_bytes,
                "min_residual_bytes": min_residual_bytes, "min_output_bytes": min_output_bytes,
                "select": ["micros", "bytes"], "order_by": "micros",
                "account_displayed_op_only": True}

    def build(self) -> dict[str, Any]:
        """Return the options."""
        return copy.deepcopy(self._options)

    def _with(self, **values: Any) -> ProfileOptionBuilder:
        self._options.update(values)
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Show only so many levels."""
        return self._with(max_depth=max_depth)

    def with_min_memory(self, min_bytes: int = 0, min_peak_bytes: int = 0,
                        min_residual_bytes: int = 0,
                        min_output_bytes: int = 0) -> ProfileOptionBuilder:
        """Show only nodes that take so much memory."""
        return self._with(min_bytes=min_bytes, min_peak_bytes=min_peak_bytes,
                          min_residual_bytes=min_residual_bytes,
                          min_output_bytes=min_output_bytes)

    def with_min_execution_time(self, min_micros: int = 0, min_accelerator_micros: int = 0,
                                min_cpu_micros: int = 0) -> ProfileOptionBuilder:
        """Show only nodes that take so long."""
        return self._with(min_micros=min_micros, min_cpu_micros=min_cpu_micros,
                          min_accelerator_micros=min_accelerator_micros)

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Show only nodes with so many parameters."""
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Show only types that occur so often."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Show only nodes with so many float operations."""
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: list) -> ProfileOptionBuilder:
        """Count only nodes whose type, or device, matches."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(self, start_name_regexes: Any = None, show_name_regexes: Any = None,
                        hide_name_regexes: Any = None,
                        trim_name_regexes: Any = None) -> ProfileOptionBuilder:
        """Select nodes by name: to begin with, to show, to hide, and to trim what is below."""
        given = {"start_name_regexes": start_name_regexes, "show_name_regexes": show_name_regexes,
                 "hide_name_regexes": hide_name_regexes, "trim_name_regexes": trim_name_regexes}
        return self._with(**{k: list(v) for k, v in given.items() if v is not None})

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Say whether totals are those of the nodes shown alone."""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self) -> ProfileOptionBuilder:
        """Print nothing."""
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """Print to standard output."""
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """Write into a file."""
        return self._with(output=f"file:outfile={outfile}")

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Show one of the steps of a ``Profiler``; -1: the mean of all."""
        return self._with(step=step)

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Order by ``name``, ``micros``, ``bytes``, ``params``, ``float_ops``, ``occurrence``."""
        return self._with(order_by=attribute)

    def select(self, attributes: list) -> ProfileOptionBuilder:
        """Show these numbers."""
        return self._with(select=list(attributes))
