"""Options of data sets: kept, and without effect on what is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class OptionsBase:
    """A base of classes of options, which :func:`create_option` makes.

    Each option has a type, and a default value until it is set. Options of one class are equal if
    all their values are. Setting anything else is an ``AttributeError``.
    """

    def __init__(self) -> None:
        object.__setattr__(self, "_options", {})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name)
            for name in {*set_options(self), *set_options(other)})

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        if not hasattr(self, name):
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        object.__setattr__(self, name, value)


def set_options(options: Any) -> dict[str, Any]:
    """The values of the options that were set or looked at, by name."""
    return options._options


def create_option(name: str, ty: type | tuple[type, ...], docstring: str,
                  default_factory: Callable[[], Any] = lambda: None) -> property:
    """Return a property for a class of options.

    It is ``default_factory()`` until it is set, and raises ``TypeError`` when it is set to anything
    but a value of type `ty`.
    """
    def get(options: OptionsBase) -> Any:
        return set_options(options).setdefault(name, default_factory())

    def put(options: OptionsBase, value: object) -> None:
        if not isinstance(value, ty):
            raise TypeError(f'Property "{name}" must be of type {ty}, got: {value!r} '
                            f"(type: {type(value)!r})")
        set_options(options)[name] = value

    return property(get, put, None, docstring)


def merge_options(*options_list: Any) -> Any:
    """Return options that have what was set in any of several of one class.

    Raises ``ValueError`` for none, or for values that differ, ``TypeError`` for options of
    different classes, or anything else.
    """
    if not options_list:
        raise ValueError("At least one options should be provided")
    kind = type(options_list[0])
    if not issubclass(kind, OptionsBase):
        raise TypeError("All options to be merged should inherit from `OptionsBase` but found "
                        f"option of type {kind} which does not.")
    result, defaults = kind(), kind()
    for options in options_list:
        if not isinstance(options, kind):
            raise TypeError("Could not merge incompatible options of type "
                            f"{type(options)} and {kind}.")
        for name, value in set_options(options).items():
            default = getattr(defaults, name)
            if value != default:
                setattr(result, name, _merged(name, getattr(result, name), value, default))
    return result


def _merged(name: str, first: object, second: object, default: object) -> object:
    """The value of an option that `second`, not the default, is merged into."""
    if first == default:
        return second
    if isinstance(first, OptionsBase):
        return merge_options(first, second)
    if first != second:
        raise ValueError(f"Cannot merge incompatible values ({first!r} and {second!r}) of option: "
                         f"{name}")
    return first


def _having(kind: type, *names: str) -> Callable[[type], type]:
    """A decorator that gives a class options of one type that have no default values."""
    def decorate(cls: type) -> type:
        for name in names:
            setattr(cls, name, create_option(name, kind, f"The option ``{name}``."))
        return cls

    return decorate


@_having(bool, "enabled", "use_choose_fastest")
class MapVectorizationOptions(OptionsBase):
    """Options of how maps are made to work on whole batches."""


@_having(bool, "apply_default_optimizations", "autotune", "autotune_buffers", "filter_fusion",
         "filter_with_random_uniform_fusion", "hoist_random_uniform", "map_and_batch_fusion",
         "map_and_filter_fusion", "map_fusion", "map_parallelization", "noop_elimination",
         "parallel_batch", "shuffle_and_repeat_fusion")
@_having(int, "autotune_algorithm", "autotune_cpu_budget")
class OptimizationOptions(OptionsBase):
    """Options of how data sets are rewritten and tuned."""

    map_vectorization = create_option("map_vectorization", MapVectorizationOptions,
                                      "Vectorization of maps.", MapVectorizationOptions)


@_having(int, "num_devices")
class DistributeOptions(OptionsBase):
    """Options of how elements are dealt out to workers."""

    auto_shard = create_option("auto_shard", bool, "If each worker gets its part.", lambda: True)


@_having(object, "aggregator")
@_having(bool, "latency_all_edges")
class StatsOptions(OptionsBase):
    """Options of what is measured while elements are computed."""

    prefix = create_option("prefix", str, "What names begin with.", str)
    counter_prefix = create_option("counter_prefix", str, "What names of counters begin with.", str)


@_having(int, "max_intra_op_parallelism", "private_threadpool_size")
class ThreadingOptions(OptionsBase):
    """Options of how many threads compute elements."""


@_having(list, "experimental_stateful_whitelist")
@_having(bool, "experimental_deterministic", "experimental_slack")
@_having(bool, "experimental_autotune", "experimental_filter_fusion",
         "experimental_hoist_random_uniform", "experimental_latency_all_edges",
         "experimental_map_and_batch_fusion", "experimental_map_and_filter_fusion",
         "experimental_map_fusion", "experimental_map_parallelization",
         "experimental_map_vectorization", "experimental_noop_elimination",
         "experimental_numa_aware", "experimental_shuffle_and_repeat_fusion")
class Options(OptionsBase):
    """Options of a data set: four groups of options, and some by themselves.

    The names that versions up to 1.13 have for what now is in a group are there too.
    """

    experimental_distribute = create_option(
        "experimental_distribute", DistributeOptions, "Distribution.", DistributeOptions)
    experimental_optimization = create_option(
        "experimental_optimization", OptimizationOptions, "Rewriting.", OptimizationOptions)
    experimental_stats = create_option(
        "experimental_stats", StatsOptions, "Measurements.", StatsOptions)
    experimental_threading = create_option(
        "experimental_threading", ThreadingOptions, "Threads.", ThreadingOptions)

    def merge(self, options: Options) -> Options:
        """Both together; ``ValueError`` where they differ."""
        return merge_options(self, options)
