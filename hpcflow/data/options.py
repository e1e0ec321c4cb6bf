"""Options of data sets: kept, and without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class Options:
    """Any options, by name; an option that was not set is None."""

    def __init__(self) -> None:
        self.__dict__["_values"] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["_values"].get(name)

    def __setattr__(self, name: str, value: TensorLike) -> None:
        self.__dict__["_values"][name] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def merge(self, options: Options) -> Options:
        """Both together; ``ValueError`` where they differ."""
        result = Options()
        values = vars(result)["_values"]
        values.update(vars(self)["_values"])
        for name, value in vars(options)["_values"].items():
            if values.setdefault(name, value) != value:
                raise ValueError(f"Cannot merge incompatible values of option: {name}")
        return result
