"""Checkpoints whose paths are bytes or objects of pathlib, and paths that cannot be."""

from __future__ import annotations

import os

import pytest

import hpcflow as hf


@pytest.fixture
def saved(tmp_path):
    """A session with a variable, its saver, and where that has saved 2."""
    with hf.Graph().as_default(), hf.Session() as session:
        variable = hf.Variable(2.0, name="v")
        session.run(hf.global_variables_initializer())
        saver = hf.train.Saver()
        assert saver.save(session, tmp_path / "m", 1) == str(tmp_path / "m-1")
        yield session, variable, saver, tmp_path / "m-1"


def test_objects_that_stand_for_paths(saved):
    session, variable, saver, path = saved
    session.run(variable.assign(0.0))
    saver.restore(session, path)
    assert session.run(variable) == 2
    assert hf.train.checkpoint_exists(path)
    assert hf.train.load_variable(path, "v") == 2
    assert hf.train.get_checkpoint_mtimes([path])
    hf.train.init_from_checkpoint(path, {"v": variable})
    saver.recover_last_checkpoints([path])
    hf.train.update_checkpoint_state(path.parent, path, [path])
    assert hf.train.latest_checkpoint(path.parent) == str(path)
    hf.train.Checkpoint(v=variable).restore(path)
    hf.train.remove_checkpoint(path)
    assert not hf.train.checkpoint_exists(path)


def test_paths_in_bytes(saved):
    session, variable, saver, path = saved
    assert saver.save(session, os.fsencode(path)) == str(path)
    session.run(variable.assign(0.0))
    saver.restore(session, os.fsencode(path))
    assert session.run(variable) == 2
    assert hf.train.checkpoint_exists(os.fsencode(path))
    assert hf.train.load_variable(os.fsencode(path), "v") == 2


def test_what_no_path_can_be(saved):
    session, _, saver, path = saved
    for wrong, error in ((5, TypeError), (f"{path}\0", ValueError), ("x" * 300, ValueError)):
        with pytest.raises((error, hf.errors.InvalidArgumentError)):
            saver.restore(session, wrong)
        with pytest.raises((error, hf.errors.InvalidArgumentError)):
            saver.save(session, wrong)
    with pytest.raises(ValueError, match=r"Parent directory of .* doesn't exist"):
        saver.save(session, f"{path}.h5/x")


def test_messages_go_through_what_the_program_put_in_place(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(hf.logging, "warning", lambda text, *values: said.append(text % values))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "gone"\n')
    assert hf.train.latest_checkpoint(str(tmp_path)) is None and "gone" in said[0]
