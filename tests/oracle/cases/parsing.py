"""Cases of ops that parse strings."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import numpy as np
from arrays import strings
from case import Shape, Type
from table import ALL, Table, family, scalar


@family
def raw_bytes(table: Table) -> None:
    kinds = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
    for dtype in table.dtypes("DecodeRaw", kinds, attr="out_type"):
        size = np.dtype(dtype).itemsize
        for shape in ((), (0,), (3,), (2, 2)):
            items = [bytes(table.rng.integers(0, 60, 4 * size, np.uint8).tolist())
                     for _ in range(int(np.prod(shape)))]
            text = strings(items).reshape(shape) if items else np.empty(shape, object)
            for little in (True, False):
                table.add("DecodeRaw", {"bytes": text}, {"out_type": Type(dtype),
                                                         "little_endian": little})
        table.add("DecodeRaw", {"bytes": strings([b"", b""])}, {"out_type": Type(dtype)})
        table.bad("DecodeRaw", {"bytes": strings([bytes(8), bytes(16)])},
                  {"out_type": Type(dtype)})
        if size > 1:
            table.bad("DecodeRaw", {"bytes": strings([bytes(size + 1)])},
                      {"out_type": Type(dtype)})


@family
def separated_values(table: Table) -> None:
    types = ("int32", "float32", "int64", "string")
    defaults = [np.array([7], "int32"), np.array([0.5], "float32"), np.array([1], "int64"),
                strings([b"none"])]
    none = [np.empty(0, "int32"), np.empty(0, "float32"), np.empty(0, "int64"),
            np.empty(0, object)]
    attrs = {"OUT_TYPE": [Type(t) for t in types]}
    lines = [b"1,2.5,3,x", b",,,", b'-4,1e3,9223372036854775807,"a,""b""\n c"', b' 5 ,"1.5",6,"" ']
    for records in (strings(lines[:3]), strings(lines[:2]).reshape(2, 1), strings(lines[0]),
                    np.empty(0, object)):
        table.add("DecodeCSV", {"records": records, "record_defaults": defaults}, attrs)
    table.add("DecodeCSV", {"records": strings([b"1;2.5;3;x,y"]), "record_defaults": none},
              {**attrs, "field_delim": ";"})
    for more in ({"na_value": "NA"}, {"use_quote_delim": False}, {"select_cols": [0, 2, 3, 5]},
                 {"na_value": "NA", "use_quote_delim": False, "select_cols": [0, 1, 2, 4]}):
        columns = b"1,NA,3,x" if "select_cols" not in more else b"1,2.5,3,x,NA,z"
        table.add("DecodeCSV", {"records": strings([columns, columns.replace(b"x", b'a"')])
                                if "use_quote_delim" in more else strings([columns]),
                                "record_defaults": defaults}, {**attrs, **more})
    table.bad("DecodeCSV", {"records": strings([lines[0]]), "record_defaults": defaults},
              {**attrs, "select_cols": [0, 1, 2, 9]}, label="select_cols")
    for bad in (b"", b"1,2,3", b"1,2,3,4,5", b"x,2,3,4", b"1.5,2,3,4", b"2147483648,2,3,4",
                b"1,x,3,4", b'1,2,3,a"b', b'1,2,3,"a"b', b'1,2,3,"ab', b"1,2,3,4\n", lines[3],
                b"1,2,3,a\rb", b'1,2,3,"a"\n', b"1_0,2,3,4", b"1,2_0,3,4"):
        table.bad("DecodeCSV", {"records": strings([lines[0], bad]), "record_defaults": defaults},
                  attrs, label=repr(bad))
    for missing in (b",2,3,4", b"1,,3,4", b"1,2,,4", b"1,2,3,", b'1,2,3,""'):
        table.bad("DecodeCSV", {"records": strings([missing]), "record_defaults": none}, attrs,
                  label=repr(missing))
    table.bad("DecodeCSV", {"records": strings([lines[0]]), "record_defaults": defaults},
              {**attrs, "field_delim": ";;"})
    table.bad("DecodeCSV", {"records": strings([b"1"]),
                            "record_defaults": [np.array([1, 2], "int32")]},
              {"OUT_TYPE": [Type("int32")]})


def _message(*fields: tuple[int, bytes]) -> bytes:
    """A message of length-delimited fields (shorter than 128 bytes, or 16384)."""
    out = b""
    for number, data in fields:
        size = len(data)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        out += bytes([number << 3 | 2]) + length + data
    return out


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _feature(values: list, packed: bool = True) -> bytes:
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return _message((1, _message(*[(1, v) for v in values])))
    if isinstance(values[0], float):
        data = [np.float32(v).tobytes() for v in values]
        plain = b"".join(b"\x0d" + d for d in data)
        return _message((2, _message((1, b"".join(data))) if packed else plain))
    data = [_varint(v) for v in values]
    plain = b"".join(b"\x08" + d for d in data)
    return _message((3, _message((1, b"".join(data))) if packed else plain))


def _entries(features: dict, packed: bool = True) -> list:
    return [(1, _message((1, key.encode()), (2, _feature(values, packed))))
            for key, values in features.items()]


def example(packed: bool = True, **features: list) -> bytes:
    """A serialized Example."""
    return _message((1, _message(*_entries(features, packed))))


def sequence(context: dict, **lists: list) -> bytes:
    """A serialized SequenceExample."""
    steps = [(1, _message((1, key.encode()),
                          (2, _message(*[(1, _feature(v)) for v in values]))))
             for key, values in lists.items()]
    return _message((1, _message(*_entries(context))), (2, _message(*steps)))


_SPARSE = {"f": "float32", "i": "int64", "s": "string"}
_DENSE = {"df": ("float32", (2,)), "di": ("int64", ()), "ds": ("string", (1, 1))}
_EMPTY = {"float32": np.empty(0, "float32"), "int64": np.empty(0, "int64"),
          "string": np.empty(0, object)}


def _inputs(serialized: np.ndarray, sparse: dict, dense: dict, defaults: dict) -> dict:
    return {"serialized": serialized, "names": np.empty(0, object),
            "sparse_keys": [strings(k.encode()) for k in sparse],
            "dense_keys": [strings(k.encode()) for k in dense],
            "dense_defaults": [defaults.get(k, _EMPTY[t]) for k, (t, _) in dense.items()]}


def _attrs(sparse: dict, dense: dict) -> dict:
    return {"sparse_types": [Type(t) for t in sparse.values()],
            "Tdense": [Type(t) for t, _ in dense.values()],
            "dense_shapes": [Shape(dims) for _, dims in dense.values()]}


@family
def examples(table: Table) -> None:
    full = {"f": [1.5, -2.0], "i": [1, 300, -5, 2**62], "s": [b"x", b"", b"yz"],
            "df": [3.0, 4.0], "di": [-1], "ds": [b"q"], "other": [1]}
    defaults = {"df": np.array([8, 9], "float32"), "di": np.array(5), "ds": strings([[b"d"]])}
    batches = ([example(**full)], [example(**full), example(df=[1.0, 2.0], di=[2**40], ds=[b""])],
               [example(False, **full), example(**{**full, "i": [], "f": [7.0]})])
    for batch in batches:
        table.add("ParseExample", _inputs(strings(batch), _SPARSE, _DENSE, {}),
                  _attrs(_SPARSE, _DENSE))
        table.add("ParseExample", _inputs(strings(batch), _SPARSE, {}, {}), _attrs(_SPARSE, {}))
    for batch in (strings([example(), example(**full), b""]), np.empty(0, object)):
        table.add("ParseExample", _inputs(batch, _SPARSE, _DENSE, defaults),
                  _attrs(_SPARSE, _DENSE), label="defaults")
    lists = {"i": ("int64", (-1, 2)), "f": ("float32", (-1,)), "s": ("string", (-1,))}
    for fill in ({}, {"i": np.array(-1), "f": np.array(0.5, "float32"), "s": strings(b"-")}):
        blank = {"i": np.array(0), "f": np.array(0, "float32"), "s": strings(b"")}
        table.add("ParseExample", _inputs(strings([example(**full), example(i=[1, 2])]), {}, lists,
                                          {**blank, **fill}), _attrs({}, lists), label="lists")
    dense = {"df": ("float32", (2,))}
    for bad in ({}, {"df": [1.0]}, {"df": [1.0, 2.0, 3.0]}, {"df": [1, 2]}, {"df": [b"ab"]}):
        table.bad("ParseExample", _inputs(strings([example(**full), example(**bad)]), {}, dense,
                                          {}), _attrs({}, dense))
    sparse = {"i": "int64"}
    for bad in ({"i": [1.0]}, {"i": [b"a"]}):
        table.bad("ParseExample", _inputs(strings([example(**bad)]), sparse, {}, {}),
                  _attrs(sparse, {}))
    table.bad("ParseExample", _inputs(strings([example(i=[1, 2, 3])]), {}, {"i": lists["i"]}, {
        "i": np.array(0)}), _attrs({}, {"i": lists["i"]}))
    table.bad("ParseExample", _inputs(strings([b"zzz"]), {}, dense, {}), _attrs({}, dense))


def _ragged(serialized: np.ndarray, sparse: dict, dense: dict, ragged: dict,
            defaults: dict) -> tuple[dict, dict]:
    """Inputs and attributes of ParseExampleV2; `ragged` gives types of values and of splits."""
    inputs = {"serialized": serialized, "names": np.empty(0, object)}
    for name, keys in (("sparse", sparse), ("dense", dense), ("ragged", ragged)):
        inputs[f"{name}_keys"] = strings([k.encode() for k in keys]) if keys else np.empty(
            0, object)
    inputs["dense_defaults"] = _inputs(serialized, {}, dense, defaults)["dense_defaults"]
    return inputs, {**_attrs(sparse, dense), "num_sparse": len(sparse),
                    "ragged_value_types": [Type(v) for v, _ in ragged.values()],
                    "ragged_split_types": [Type(s) for _, s in ragged.values()]}


@family
def later_examples(table: Table) -> None:
    full = {"f": [1.5, -2.0], "i": [1, 300, -5, 2**62], "s": [b"x", b"", b"yz"],
            "df": [3.0, 4.0], "di": [-1], "ds": [b"q"]}
    defaults = {"df": np.array([8, 9], "float32"), "di": np.array(5), "ds": strings([[b"d"]])}
    ragged = {"i": ("int64", "int32"), "s": ("string", "int64")}
    for serialized in (strings([example(**full), example(), example(i=[7])]),
                       np.empty(0, object), strings(example(**full))):
        for kinds in ((_SPARSE, _DENSE, {}), ({}, _DENSE, {}), ({"f": "float32"}, {}, ragged)):
            table.add("ParseExampleV2", *_ragged(serialized, *kinds, defaults))
    table.bad("ParseExampleV2", *_ragged(strings([b"zzz"]), {}, _DENSE, {}, {}))
    table.bad("ParseExampleV2", *_ragged(strings([example()]), {}, _DENSE, {}, {}))
    for serialized in (example(**full), example(), example(i=[7])):
        keys = {"sparse_keys": list(_SPARSE), "dense_keys": list(_DENSE),
                "num_sparse": len(_SPARSE), **_attrs(_SPARSE, _DENSE)}
        inputs = {"serialized": strings(serialized), "dense_defaults": [
            defaults[k] for k in _DENSE]}
        table.add("ParseSingleExample", inputs, keys)
    blank = [_EMPTY[kind] for kind, _ in _DENSE.values()]
    table.bad("ParseSingleExample", {"serialized": strings(b"zzz"), "dense_defaults": blank}, keys)


@family
def later_bytes(table: Table) -> None:
    for dtype in ALL:
        for dims in ((), (2, 3), (0,)):
            value = table.normal(dtype, dims)
            table.add("SerializeTensor", {"tensor": value},
                      check="shapes" if dtype == "string" or not dims else "values")
    for dtype in ("uint8", "int16", "float32"):
        for length in (4, 8):
            for little in (True, False):
                table.add("DecodePaddedRaw", {
                    "input_bytes": strings([b"abcdefgh", b"ab", b""]), "fixed_length": scalar(
                        length)}, {"out_type": Type(dtype), "little_endian": little})
    table.bad("DecodePaddedRaw", {"input_bytes": strings([b"ab"]), "fixed_length": scalar(3)},
              {"out_type": Type("int16")})
    text = b"some text, some text, some text"
    for kind, data in (("", text), ("ZLIB", zlib.compress(text)), ("GZIP", gzip.compress(text))):
        table.add("DecodeCompressed", {"bytes": strings([data, data])}, {"compression_type": kind})
    table.bad("DecodeCompressed", {"bytes": strings([b"nothing"])}, {"compression_type": "ZLIB"})


@family
def sequence_examples(table: Table) -> None:
    context = {"f": [1.5, -2.0], "df": [3.0, 4.0]}
    lists = {"i": [[1, 300], [], [-5]], "di": [[1, 2], [3, 4]], "ds": [[b"a"], [b""]]}
    wanted = {"Tcontext_dense": [Type("float32")], "context_dense_shapes": [Shape((2,))],
              "context_sparse_types": [Type("float32")],
              "feature_list_sparse_types": [Type("int64")],
              "feature_list_dense_types": [Type("int64"), Type("string")],
              "feature_list_dense_shapes": [Shape((2,)), Shape(())]}

    def inputs(serialized: bytes, may_miss: tuple = (), default: object = None) -> dict:
        return {"serialized": strings(serialized),
                "feature_list_dense_missing_assumed_empty":
                    strings(list(may_miss)) if may_miss else np.empty(0, object),
                "context_sparse_keys": [strings(b"f")], "context_dense_keys": [strings(b"df")],
                "feature_list_sparse_keys": [strings(b"i")],
                "feature_list_dense_keys": [strings(b"di"), strings(b"ds")],
                "context_dense_defaults": [_EMPTY["float32"] if default is None else default],
                "debug_name": strings(b"")}

    add = lambda *a: table.add("ParseSingleSequenceExample", inputs(*a), wanted)
    bad = lambda *a: table.bad("ParseSingleSequenceExample", inputs(*a), wanted)
    default = np.array([8, 9], "float32")
    add(sequence(context, **lists))
    add(sequence({"df": [1.0, 2.0]}, **{**lists, "di": [], "i": []}))
    add(sequence({}, di=[[5, 6]]), (b"ds", b"di"), default)
    add(b"", (b"ds", b"di"), default)
    bad(sequence({}, **lists))
    bad(sequence(context, i=[[1]], di=[[1, 2]]))
    for wrong in ([[1]], [[1, 2], [1.0, 2.0]], [[1, 2], []], [[1, 2, 3]]):
        bad(sequence(context, **{**lists, "di": wrong}))
    bad(sequence({"df": [1, 2]}, **lists))
    bad(sequence({"df": [1.0]}, **lists))
    bad(sequence(context, **{**lists, "i": [[1], [1.0]]}))
    bad(b"zz")


@family
def batches_of_sequence_examples(table: Table) -> None:
    whole = sequence({"f": [1.5, -2.0], "df": [3.0, 4.0]}, i=[[1, 300], [], [-5]],
                     di=[[1, 2], [3, 4]], ds=[[b"a"], [b""]])
    short = sequence({"df": [1.0, 2.0]}, di=[[7, 8]], ds=[])
    types = {"Tcontext_dense": [Type("float32")], "context_dense_shapes": [Shape((2,))],
             "context_sparse_types": [Type("float32")],
             "feature_list_sparse_types": [Type("int64")],
             "feature_list_dense_types": [Type("int64"), Type("string")],
             "feature_list_dense_shapes": [Shape((2,)), Shape(())],
             "context_sparse_keys": ["f"], "context_dense_keys": ["df"],
             "feature_list_sparse_keys": ["i"], "feature_list_dense_keys": ["di", "ds"],
             "Ncontext_sparse": 1, "Ncontext_dense": 1, "Nfeature_list_sparse": 1,
             "Nfeature_list_dense": 2}

    def case(put: Callable, items: list, may_miss: list | None = None,
             default: object = None) -> None:
        put("ParseSequenceExample",
            {"serialized": strings(items), "debug_name": np.empty(0, object),
             "context_dense_defaults": [_EMPTY["float32"] if default is None else default]},
            {**types, "feature_list_dense_missing_assumed_empty": may_miss or []})

    case(table.add, [whole, short])
    case(table.add, [short])
    case(table.add, [short, sequence({}, di=[[5, 6]]), whole], ["di", "ds"],
         np.array([8, 9], "float32"))
    case(table.bad, [whole, sequence({}, di=[[5, 6]], ds=[])])
    case(table.bad, [whole, sequence({"df": [1.0, 2.0]}, di=[[5, 6]])])
    case(table.bad, [whole, b"zz"])


@family
def later_sequence_examples(table: Table) -> None:
    whole = sequence({"f": [1.5, -2.0], "df": [3.0, 4.0], "r": [1, 2]},
                     i=[[1, 300], [], [-5]], di=[[1, 2], [3, 4]], q=[[b"a", b"b"], [b""]])
    short = sequence({"df": [1.0, 2.0]}, di=[[7, 8]])
    attrs = {"Tcontext_dense": [Type("float32")], "context_dense_shapes": [Shape((2,))],
             "context_sparse_types": [Type("float32")], "Ncontext_sparse": 1,
             "context_ragged_value_types": [Type("int64")],
             "context_ragged_split_types": [Type("int32")],
             "feature_list_sparse_types": [Type("int64")], "Nfeature_list_sparse": 1,
             "feature_list_dense_types": [Type("int64")], "Nfeature_list_dense": 1,
             "feature_list_dense_shapes": [Shape((2,))],
             "feature_list_ragged_value_types": [Type("string")],
             "feature_list_ragged_split_types": [Type("int64")]}
    keys = {"context_sparse_keys": b"f", "context_dense_keys": b"df", "context_ragged_keys": b"r",
            "feature_list_sparse_keys": b"i", "feature_list_dense_keys": b"di",
            "feature_list_ragged_keys": b"q"}

    def case(put: Callable, items: list | bytes, may_miss: bool = False) -> None:
        put("ParseSequenceExampleV2",
            {"serialized": strings(items), "debug_name": np.empty(0, object),
             **{name: strings([key]) for name, key in keys.items()},
             "feature_list_dense_missing_assumed_empty": np.array([may_miss]),
             "context_dense_defaults": [_EMPTY["float32"]]}, attrs)

    for items in ([whole, short], [short], whole, short):
        case(table.add, items)
    case(table.add, [whole, sequence({"df": [1.0, 2.0]})], True)
    case(table.bad, [whole, sequence({"df": [1.0, 2.0]})])
    case(table.bad, [whole, sequence({}, di=[[5, 6]])])
    case(table.bad, [whole, b"zz"])


@family
def messages(table: Table) -> None:
    floats = b"\x08\x01\x12\x04\x12\x02\x08\x02"  # float32 [2]
    for data in (floats + b"\x22\x08" + np.array([1.5, -2], "float32").tobytes(),
                 floats + b"\x2a\x08" + np.array([1.5, -2], "float32").tobytes()):
        table.add("ParseTensor", {"serialized": strings(data)}, {"out_type": Type("float32")})
        table.bad("ParseTensor", {"serialized": strings(data)}, {"out_type": Type("int32")})
        table.bad("ParseTensor", {"serialized": strings(data[:-2])}, {"out_type": Type("float32")})
    for bad in (b"", b"zz", floats[:5], floats + b"\x22\x07abcdefg"):
        table.bad("ParseTensor", {"serialized": strings(bad)}, {"out_type": Type("float32")})
    table.bad("ParseTensor", {"serialized": strings([floats])}, {"out_type": Type("float32")})
    for text in (b"{}", b'{"features":{}}',
                 b'{"features":{"feature":{"a":{"bytesList":{"value":["eHk="]}}}}}',
                 b'{"features":{"feature":{"a":{"bytes_list":{}}}}}'):
        # The reference writes numbers in another of the two allowed ways.
        table.add("DecodeJSONExample", {"json_examples": strings([text, b"{}"])})
    for bad in (b"", b"{", b'{"x":1}', b'{"features":3}', b"[]"):
        table.bad("DecodeJSONExample", {"json_examples": strings(bad)}, label=repr(bad))
