"""The text of a profile."""

from __future__ import annotations

from typing import Any

from hpcflow.profiler.tree import ProfileNode, number_of

_TITLES = {"params": "# parameters", "float_ops": "# float_ops", "bytes": "requested bytes",
           "micros": "total execution time", "occurrence": "op occurrence",
           "accelerator_micros": "accelerator execution time",
           "cpu_micros": "cpu execution time", "peak_bytes": "peak bytes",
           "residual_bytes": "residual bytes", "output_bytes": "output bytes",
           "op_types": "op types", "device": "assigned devices"}
_LINE = "=" * 22


def text_of(root: ProfileNode, options: dict[str, Any], by_type: bool) -> str:
    """The report: a tree of names, or with `by_type` a line for each type."""
    selected = [s for s in options["select"] if s in _TITLES]
    lines = [f"{_LINE}Model Analysis Report{_LINE}", "",
             "node name | " + " | ".join(_TITLES[s] for s in selected)]
    if by_type:
        lines += [_type_line(n, root, selected) for n in root.children]
    else:
        _tree_lines(root, selected, 0, lines)
    return "\n".join([*lines, "", f"{_LINE}End of Report{_LINE}", ""])


def _tree_lines(node: ProfileNode, selected: list[str], depth: int, lines: list[str]) -> None:
    numbers = ", ".join(_pair(node, s) for s in selected)
    shape = "".join(f"{'x'.join(map(str, s))}, " for s in node.shapes if node.parameters)
    lines.append(f"{'  ' * depth}{node.name} ({shape}{numbers})")
    for child in node.children:
        _tree_lines(child, selected, depth + 1, lines)


def _pair(node: ProfileNode, selected: str) -> str:
    number = number_of(selected)
    if selected in ("op_types", "device"):
        return "|".join(sorted(t for t in node.types if not t.startswith("_")))
    own, total = getattr(node, number), getattr(node, f"total_{number}")
    return f"{amount(own, selected, False) if own else '--'}/{amount(total, selected)}"


def _type_line(node: ProfileNode, root: ProfileNode, selected: list[str]) -> str:
    parts = []
    for name in selected:
        number = number_of(name)
        if name in ("op_types", "device"):
            continue
        own, whole = getattr(node, number), getattr(root, f"total_{number}")
        share = 100.0 * own / whole if whole else 0.0
        parts.append(f"{amount(own, name)} ({share:.2f}%)")
    return f"{node.name:<30}" + ", ".join(f"{p:>24}" for p in parts)


def amount(value: float, what: str, unit: bool = True) -> str:
    """A number with its unit: ``1.98KB``, ``37.02ms``, ``189.10k flops``, ``462 params``."""
    if "bytes" in what:
        return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")), "B")
    if "micros" in what:
        return _scaled(value, ((1e6, "sec"), (1e3, "ms")), "us")
    name = {"float_ops": " flops", "params": " params"}.get(what, "")
    return _scaled(value, ((1e9, "b"), (1e6, "m"), (1e3, "k")), "") + (name if unit else "")


def _scaled(value: float, units: tuple, least: str) -> str:
    for size, unit in units:
        if value >= size:
            return f"{value / size:.2f}{unit}"
    return f"{value:.0f}{least}"
