"""``hpcflow.config.optimizer``: how sessions that are given no config rewrite their graphs."""

from __future__ import annotations

from collections.abc import Mapping

from hpcflow.runtime.session.defaults import default_config, to_edit

_PARTS = ("layout_optimizer", "constant_folding", "shape_optimization", "remapping",
          "arithmetic_optimization", "dependency_optimization", "loop_optimization",
          "function_optimization", "debug_stripper", "scoped_allocator_optimization",
          "pin_to_host_optimization", "implementation_selector", "auto_mixed_precision")
_SWITCHES = ("disable_model_pruning", "disable_meta_optimizer")
_DEFAULT, _ON, _OFF = 0, 1, 2  # the values of RewriterConfig.Toggle


def get_jit() -> bool:
    """Return what :func:`set_jit` set."""
    config = default_config()
    return config is not None and config.graph_options.optimizer_options.global_jit_level > 0


def set_jit(enabled: bool) -> None:
    """Keep the wish for compiled steps in the config; steps are compiled in any case."""
    to_edit().graph_options.optimizer_options.global_jit_level = int(bool(enabled))


def get_experimental_options() -> dict[str, bool]:
    """Return the parts of the optimizer that were turned on or off, and the two switches."""
    config = default_config()
    found = dict.fromkeys(_SWITCHES, False)
    if config is None:
        return found
    rewrite = config.graph_options.rewrite_options
    found |= {name: getattr(rewrite, name) for name in _SWITCHES}
    return found | {name: getattr(rewrite, name) == _ON for name in _known(rewrite)
                    if getattr(rewrite, name) != _DEFAULT}


def set_experimental_options(options: Mapping[str, bool]) -> None:
    """Turn parts of the optimizer on or off, by the names of ``RewriterConfig``; names that it
    does not have say nothing."""
    rewrite = to_edit().graph_options.rewrite_options
    for name in _known(rewrite):
        if name in options:
            setattr(rewrite, name, _ON if options[name] else _OFF)
    for name in _SWITCHES:
        if name in options:
            setattr(rewrite, name, bool(options[name]))


def _known(rewrite: object) -> list[str]:
    return [name for name in _PARTS if hasattr(rewrite, name)]
