"""Flags: what programs do with them besides defining and reading."""

from __future__ import annotations

import pytest

from hpcflow.platform import app, flags


@pytest.fixture(autouse=True)
def own_flags(monkeypatch):
    own = flags._Flags()
    monkeypatch.setattr(flags, "FLAGS", own)
    own.mark_as_parsed()
    return own


def test_flags_that_are_forgotten_may_be_defined_again(own_flags):
    flags.DEFINE_boolean("fast", True, "")
    flags.DEFINE_integer("size", 3, "")
    flags.mark_flag_as_required("size")
    for name in own_flags._flags():
        own_flags.__delattr__(name)
    assert own_flags(["program", "--fast"], known_only=True) == ["program", "--fast"]
    flags.DEFINE_float("size", 1.5, "")
    own_flags(["program", "--size=2"])
    assert own_flags.size == 2.0
    with pytest.raises(AttributeError):
        del own_flags.fast


def test_defaults_aliases_and_lines(own_flags, tmp_path):
    flags.DEFINE_boolean("fast", True, "")
    flags.DEFINE_string("name", None, "")
    flags.DEFINE_multi_integer("sizes", [1], "")
    flags.DEFINE_list("parts", ["a", "b"], "")
    flags.DEFINE_alias("called", "name")
    flags.set_default("fast", False)
    assert own_flags.get_flag_value("name", "none") == "none"
    own_flags(["program", "--called=x", "--sizes=2", "--sizes=3"])
    assert own_flags.name == own_flags.called == "x"
    own_flags.append_flags_into_file(tmp_path / "flags")
    assert (tmp_path / "flags").read_text() == (
        "--nofast\n--name=x\n--parts=a,b\n--sizes=2\n--sizes=3\n")


def test_checks_of_several_flags(own_flags, capsys):
    flags.DEFINE_boolean("a", False, "")
    flags.DEFINE_boolean("b", True, "")
    flags.DEFINE_integer("n", 1, "")
    flags.mark_bool_flags_as_mutual_exclusive(["a", "b"], required=True)
    flags.validator("n", "must be odd")(lambda n: n % 2 == 1)
    flags.multi_flags_validator(["a", "n"], "n is for a")(lambda v: v["a"] or v["n"] < 5)
    own_flags(["program"])
    for arguments, message in ((["--a"], "must be True"), (["--n=2"], "must be odd"),
                               (["--n=7"], "n is for a")):
        own_flags.a, own_flags.n = False, 1
        with pytest.raises(SystemExit):
            own_flags(["program", *arguments])
        assert message in capsys.readouterr().err


def test_flags_of_absl_are_parsed_before_main(own_flags, monkeypatch):
    theirs = pytest.importorskip("absl.flags")
    values = theirs.FlagValues()
    monkeypatch.setattr(theirs, "FLAGS", values)
    theirs.DEFINE_integer("epochs", 1, "", flag_values=values)
    theirs.DEFINE_string("both", "", "", flag_values=values)
    flags.DEFINE_string("both", "", "")
    flags.DEFINE_multi_integer("sizes", [1], "")
    monkeypatch.setattr(app, "FLAGS", own_flags)
    got = []
    with pytest.raises(SystemExit):
        app.run(got.append, ["program", "--sizes=2", "--epochs", "20", "--both=mine", "file"])
    assert (values.epochs, own_flags.sizes, own_flags.both, values.both) == (20, [2], "mine", "")
    assert got == [["program", "file"]]
