"""Cases of ops on strings."""

from __future__ import annotations

import numpy as np
from arrays import strings
from case import Type
from table import Table, family, ints, scalar

_NUMBERS = (b"1", b" 1 ", b"+1", b"-1", b"00012", b"\t7\n", b"\x0b3", b"-2147483648")
_REALS = (b"-1.5", b"1e3", b"inf", b"-Infinity", b"NaN", b"0x10", b".5", b"5.", b"1e400",
          b"1e-400", b"0x1.8p1", b"iNF", b"3.14159265358979", b"16777217", b"0.1")
_NO_NUMBERS = (b"", b" ", b"1_0", b"1 2", b"1f", b"- 1", b"1e", b"0b1", b"--1", b"\xef\xbc\x91",
               b"nan(", b".", b"1.5.5", b"x1")


@family
def conversions(table: Table) -> None:
    for dtype in table.dtypes("AsString", ("int8", "int32", "int64", "float32", "float64",
                                           "complex64", "bool")):
        for shape in ((), (0,), (5,), (2, 3)):
            value = table.normal(dtype, shape, 30)
            for attrs in ({}, {"width": 8}, {"width": 8, "fill": "0"}, {"fill": "+"},
                          {"width": 5, "fill": "-"}, {"width": 4, "fill": " "}):
                table.add("AsString", {"input": value}, attrs)
        value = table.normal(dtype, (3,), 30)
        for attrs in ({"precision": 3}, {"scientific": True}, {"shortest": True},
                      {"precision": 0, "width": 9}):
            if dtype in ("float32", "float64", "complex64"):
                table.add("AsString", {"input": value}, attrs)
            else:
                table.bad("AsString", {"input": value}, {k: attrs[k] for k in attrs
                                                         if k != "width"})
        table.bad("AsString", {"input": value}, {"fill": "x"})
        table.bad("AsString", {"input": value}, {"shortest": True, "scientific": True})
    for dtype in ("float32", "float64"):
        for attrs in ({}, {"width": 7, "fill": "0"}, {"fill": "+"}, {"shortest": True}):
            table.add("AsString", {"input": table.special(dtype)}, attrs, label="special")
    for dtype in ("int8", "int32", "int64"):
        table.add("AsString", {"input": table.special(dtype)}, label="special")
    for dtype in ("float32", "float64", "int32", "int64"):
        good = _NUMBERS if dtype.startswith("int") else _NUMBERS + _REALS
        table.add("StringToNumber", {"string_tensor": strings(list(good))},
                  {"out_type": Type(dtype)})
        table.add("StringToNumber", {"string_tensor": strings(b"7")}, {"out_type": Type(dtype)})
        table.add("StringToNumber", {"string_tensor": np.empty((0, 2), object)},
                  {"out_type": Type(dtype)})
        for text in _NO_NUMBERS + (_REALS if dtype.startswith("int") else ()):
            table.bad("StringToNumber", {"string_tensor": strings([b"1", text])},
                      {"out_type": Type(dtype)}, label=repr(text))
    table.bad("StringToNumber", {"string_tensor": strings(b"2147483648")},
              {"out_type": Type("int32")})
    table.bad("StringToNumber", {"string_tensor": strings(b"9223372036854775808")},
              {"out_type": Type("int64")})


@family
def parts(table: Table) -> None:
    words = strings([b"hello", b"", b"abc", b"\xff\0\xfe ab"])
    for dtype in ("int32", "int64"):
        for position, length in ((0, 2), (0, 0), (0, -1), (0, 99)):
            table.add("Substr", {"input": words, "pos": scalar(position, dtype),
                                 "len": scalar(length, dtype)})
        table.add("Substr", {"input": words, "pos": ints(5, 0, -2, 1, dtype=dtype),
                             "len": ints(1, 1, 1, 3, dtype=dtype)})
        table.add("Substr", {"input": words.reshape(4, 1), "pos": ints(0, 0, 0, dtype=dtype),
                             "len": ints(1, 2, 3, dtype=dtype)}, label="broadcast")
        table.add("Substr", {"input": strings(b"broadcast"), "pos": ints(0, 3, dtype=dtype),
                             "len": ints(1, 2, dtype=dtype)}, label="broadcast")
        table.add("Substr", {"input": np.empty(0, object), "pos": scalar(0, dtype),
                             "len": scalar(1, dtype)})
        for position in (1, 6, -1, -6):
            table.bad("Substr", {"input": words, "pos": scalar(position, dtype),
                                 "len": scalar(1, dtype)}, label="range")
        table.bad("Substr", {"input": words, "pos": ints(0, 0, dtype=dtype),
                             "len": ints(1, 1, dtype=dtype)}, label="shape")
        table.bad("Substr", {"input": words, "pos": ints(0, 0, dtype=dtype),
                             "len": scalar(1, dtype)}, label="shape")
    lines = strings([b"a b", b"", b"  c  d ", b"xaybz", b"\xff \xfe"])
    for source in (lines, np.empty(0, object), strings([b""])):
        for delimiter in (b" ", b"", b"ab", b"]^-", b"."):
            for skip in (True, False):
                table.add("StringSplit", {"input": source, "delimiter": strings(delimiter)},
                          {"skip_empty": skip})
    table.bad("StringSplit", {"input": strings(b"a"), "delimiter": strings(b" ")})
    table.bad("StringSplit", {"input": lines, "delimiter": strings([b" "])})
    for shape in ((2, 3), (2, 0, 2), (2, 1, 3), (4,)):
        text = table.normal("string", shape)
        rank = len(shape)
        for axes in ([0], [-1], [], list(range(rank)), list(range(rank - 1, -1, -1))):
            for keep in (True, False):
                table.add("ReduceJoin", {"inputs": text,
                                         "reduction_indices": np.array(axes, "int32")},
                          {"keep_dims": keep, "separator": "--"})
        table.add("ReduceJoin", {"inputs": text, "reduction_indices": scalar(0)})
    text = table.normal("string", (2, 3))
    table.add("ReduceJoin", {"inputs": strings(b"a"), "reduction_indices": np.empty(0, "int32")})
    for axes in ([2], [-3], [0, 0], [0, -2]):
        table.bad("ReduceJoin", {"inputs": text, "reduction_indices": np.array(axes, "int32")})


@family
def codes(table: Table) -> None:
    for shape in ((), (0,), (7,), (2, 3)):
        text = table.normal("string", shape)
        for pad in (True, False):
            table.add("EncodeBase64", {"input": text}, {"pad": pad})
    for good in (b"", b"YQ", b"YQ==", b"YWI", b"YWI=", b"YWJj", b"__79_A", b"YR"):
        table.add("DecodeBase64", {"input": strings([good, b"YWJj"])})
    table.add("DecodeBase64", {"input": strings(b"__79_A")})
    for bad in (b"Y", b"YW!j", b"Y Q", b"//79/A", b"YQ=", b"YQ==YQ==", b"====", b"YWJj=",
                b"YWJjZ", b"Y===", b"YQ\n"):
        table.bad("DecodeBase64", {"input": strings([b"YWJj", bad])}, label=repr(bad))


@family
def hash_buckets(table: Table) -> None:
    lengths = [*range(70), 95, 127, 128, 129, 191, 192, 193, 256, 300, 1000]
    text = strings([table.rng.bytes(n) for n in lengths])
    for buckets in (1, 7, 1000, 2**63 - 25):
        attrs = {"num_buckets": buckets}
        table.add("StringToHashBucket", {"string_tensor": text}, attrs)
        table.add("StringToHashBucketFast", {"input": text}, attrs)
        for key in ([1, 2], [123456789, -5], [0, 2**63 - 1]):
            table.add("StringToHashBucketStrong", {"input": text}, {**attrs, "key": key})
    for value in (strings(b"abc"), np.empty((0, 2), object), table.normal("string", (2, 3))):
        table.add("StringToHashBucket", {"string_tensor": value}, {"num_buckets": 50})
        table.add("StringToHashBucketFast", {"input": value}, {"num_buckets": 50})
        table.add("StringToHashBucketStrong", {"input": value}, {"num_buckets": 50,
                                                                 "key": [3, 4]})
    table.bad("StringToHashBucketStrong", {"input": text}, {"num_buckets": 50, "key": [3]})
    table.bad("StringToHashBucketFast", {"input": text}, {"num_buckets": 0})


@family
def letters_and_patterns(table: Table) -> None:
    words = np.array([[b"Hello 12", b"", b" \tx y\n"], [b"aab", "\u00c4\u00e4Z".encode(), b"12-3"]],
                     object)
    for x in (words, words[0, 0], words[:0]):
        table.add("StringLower", {"input": x})
        table.add("StringUpper", {"input": x})
        table.add("StringStrip", {"input": x})
        for unit in ("BYTE", "UTF8_CHAR"):
            table.add("StringLength", {"input": x}, {"unit": unit})
        for encoding in ("utf-8",):
            table.add("StringLower", {"input": x}, {"encoding": encoding})
            table.add("StringUpper", {"input": x}, {"encoding": encoding})
        for pattern in ("a+b", "[0-9]+.*", "", ".*"):
            table.add("RegexFullMatch", {"input": x, "pattern": pattern.encode()})
            table.add("StaticRegexFullMatch", {"input": x}, {"pattern": pattern})
        for pattern, rewrite in (("([a-z])", r"<\1>"), ("[0-9]", "#"), ("l+", "")):
            for everywhere in (True, False):
                table.add("RegexReplace", {"input": x, "pattern": pattern.encode(),
                                           "rewrite": rewrite.encode()},
                          {"replace_global": everywhere})
                table.add("StaticRegexReplace", {"input": x}, {
                    "pattern": pattern, "rewrite": rewrite, "replace_global": everywhere})
    table.bad("RegexFullMatch", {"input": words, "pattern": b"(a"}, label="pattern")
    table.bad("RegexReplace", {"input": words, "pattern": b"(a", "rewrite": b""}, label="pattern")


@family
def splits_and_formats(table: Table) -> None:
    words = strings([b"a b  c ", b"", b"  x\ty\n z", b"a,b,,c", b",", b"\xff \xfe"])
    for separator in (b"", b",", b"  ", b"b,"):
        for most in (-1, 0, 1, 2):
            table.add("StringSplitV2", {"input": words, "sep": np.array(separator, object)},
                      {"maxsplit": most})
    table.bad("StringSplitV2", {"input": words[0], "sep": np.array(b"", object)})
    for template, values in (
            ("x", []), ("%s", [scalar(3)]), ("<%s|%s>", [table.normal("int32", (9,)), scalar(
                2.5, "float32")]), ("%s", [np.array([[1.5, 1e-9], [1e20, -0.0]])]),
            ("%s %s", [strings([b"a", b"b\t'\0"]), np.array(b"c", object)]),
            ("%s", [np.array([True, False])]), ("%s", [table.normal("int32", (2, 8, 2))])):
        for most in (3, 1, -1):
            table.add("StringFormat", {"inputs": values}, {"template": template,
                                                           "summarize": most})
    for widths in ([1], [2], [1, 3], [4]):
        for pads in (-1, 0, 1):
            for short in (False, True):
                for kind in ("int32", "int64"):
                    table.add("StringNGrams", {
                        "data": strings([b"a", b"b", b"c", b"d", b"e"]),
                        "data_splits": ints(0, 3, 3, 5, dtype=kind)}, {
                        "separator": "|", "ngram_widths": widths, "left_pad": "<",
                        "right_pad": ">", "pad_width": pads, "preserve_short_sequences": short})


@family
def unicode(table: Table) -> None:
    good = strings([["Gr\u00fc\u00dfe".encode(), b""], ["\u20ac\U0001f600".encode(), b"a\tb\x7f"]])
    bad = strings([b"a\xffb", b"\xc3", b"\xe2\x82x"])
    for x in (good, bad, good[0, 0]):
        for errors in ("replace", "ignore", "strict"):
            for controls in (False, True):
                attrs = {"input_encoding": "UTF-8", "errors": errors, "replacement_char": 63,
                         "replace_control_characters": controls}
                add = table.bad if errors == "strict" and x is bad else table.add
                add("UnicodeDecode", {"input": x}, {**attrs, "Tsplits": Type("int32")})
                add("UnicodeDecodeWithOffsets", {"input": x}, attrs)
                if errors == "strict" and controls and x is good:
                    add = table.bad
                for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
                    add("UnicodeTranscode", {"input": x}, {**attrs, "output_encoding": target})
    for points in ((72, 0x20AC, 0x1F600), (65, 0xD800, 66), (0x110000,)):
        for errors in ("replace", "ignore"):
            for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
                table.add("UnicodeEncode", {
                    "input_values": ints(*points), "input_splits": ints(0, 1, len(points))},
                    {"errors": errors, "output_encoding": target})
    table.bad("UnicodeEncode", {"input_values": ints(0xD800), "input_splits": ints(0, 1)},
              {"errors": "strict", "output_encoding": "UTF-8"})
