"""The sources of the module paths of 1.x below ``python.data``."""

from __future__ import annotations

from hpcflow.api.entry import Entry

DATA = {
    "data": Entry(("hpcflow.data",)),
    **{f"data.ops.{name}": Entry(("hpcflow.data", "hpcflow.data.experimental"), {
        **dict.fromkeys(("DatasetV1", "DatasetV2"), "hpcflow.data:Dataset"),
        "DatasetSpec": "hpcflow.data.structure:DatasetSpec",
        "OptionalSpec": "hpcflow.data.experimental.optional:OptionalSpec",
        **{kind: f"hpcflow.data.experimental:{kind}_CARDINALITY" for kind in (
            "INFINITE", "UNKNOWN")},
        **{f"get_legacy_output_{what}": f"hpcflow.data:get_output_{what}" for what in (
            "classes", "shapes", "types")}}) for name in (
        "dataset_ops", "iterator_ops", "multi_device_iterator_ops", "optional_ops", "readers")},
    **{f"data.experimental.ops.{name}": Entry(("hpcflow.data.experimental", "hpcflow.data"))
       for name in (
        "batching", "cardinality", "counter", "distribute", "distribute_options", "enumerate_ops",
        "error_ops", "get_single_element", "grouping", "interleave_ops", "iterator_ops",
        "map_defun", "matching_files", "optimization", "optimization_options", "parsing_ops",
        "prefetching_ops", "random_ops", "readers", "resampling", "scan_ops", "shuffle_ops",
        "sleep", "stats_aggregator", "stats_ops", "stats_options", "take_while_ops",
        "threading_options", "threadpool", "unique", "writers")},
    "data.util.nest": Entry(("hpcflow.data.nest",), {
        "is_sequence": "hpcflow.data.nest:is_nested",
        "pack_sequence_as": "hpcflow.data.nest:pack_as"}),
    **{f"data.util.{name}": Entry((f"hpcflow.data.{source}",)) for name, source in (
        ("convert", "arguments"), ("options", "options"), ("random_seed", "arguments"),
        ("sparse", "sparse_parts"), ("structure", "specs"))},
}
