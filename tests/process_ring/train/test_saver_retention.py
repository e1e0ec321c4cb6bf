"""Which checkpoints are kept, and the file that names them."""

from __future__ import annotations

import os
import time

import pytest

import hpcflow as hf
from hpcflow.train import checkpoint_state


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(1.0, name="v")
        session.run(v.initializer)
        yield session


def files(directory):
    return sorted(name for name in os.listdir(directory) if name != "checkpoint")


def save_steps(saver, session, directory, count, **options):
    return [saver.save(session, str(directory / "m"), step, **options) for step in range(count)]


def test_the_last_few_are_kept_with_their_meta_graphs(tmp_path, session):
    saver = hf.train.Saver(max_to_keep=2)
    paths = save_steps(saver, session, tmp_path, 4)
    assert files(tmp_path) == ["m-2.h5", "m-2.meta", "m-3.h5", "m-3.meta"]
    assert saver.last_checkpoints == paths[2:]
    state = hf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == paths[3]
    assert list(state.all_model_checkpoint_paths) == paths[2:]


@pytest.mark.parametrize("keep", [0, None])
def test_all_are_kept(tmp_path, session, keep):
    save_steps(hf.train.Saver(max_to_keep=keep), session, tmp_path, 7, write_meta_graph=False)
    assert len(files(tmp_path)) == 7


def test_the_same_path_counts_once(tmp_path, session):
    saver = hf.train.Saver(max_to_keep=2)
    path = str(tmp_path / "m")
    for step in (1, 1, 1, 2):
        saver.save(session, path, step, write_meta_graph=False)
    assert files(tmp_path) == ["m-1.h5", "m-2.h5"]


def test_one_every_few_hours_is_kept_for_good(tmp_path, session, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    saver = hf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=2)
    for hour in range(8):
        now += 3600
        saver.save(session, str(tmp_path / "m"), hour, write_meta_graph=False)
    assert files(tmp_path) == ["m-2.h5", "m-4.h5", "m-6.h5", "m-7.h5"]


def test_a_later_run_takes_over(tmp_path, session):
    paths = save_steps(hf.train.Saver(), session, tmp_path, 3, write_meta_graph=False)
    later = hf.train.Saver(max_to_keep=3)
    later.recover_last_checkpoints([*paths, str(tmp_path / "absent")])
    assert later.last_checkpoints == paths
    later.save(session, str(tmp_path / "m"), 3, write_meta_graph=False)
    assert files(tmp_path) == ["m-1.h5", "m-2.h5", "m-3.h5"]
    kept = hf.train.Saver(max_to_keep=1)
    kept.set_last_checkpoints(later.last_checkpoints)
    kept.save(session, str(tmp_path / "m"), 4, write_meta_graph=False)
    assert len(files(tmp_path)) == 4
    for call in (kept.set_last_checkpoints, kept.set_last_checkpoints_with_time):
        with pytest.raises(TypeError, match="must be a list"):
            call("m-1")


def test_an_old_checkpoint_that_cannot_be_deleted_is_no_error(tmp_path, session):
    saver = hf.train.Saver(max_to_keep=1)
    first = saver.save(session, str(tmp_path / "m"), 0, write_meta_graph=False)
    os.unlink(first + ".h5")
    saver.save(session, str(tmp_path / "m"), 1)
    assert files(tmp_path) == ["m-1.h5", "m-1.meta"]


def test_the_latest_checkpoint(tmp_path, session):
    assert hf.train.latest_checkpoint(str(tmp_path)) is None
    saver = hf.train.Saver()
    first, second = save_steps(saver, session, tmp_path, 2, write_meta_graph=False)
    assert hf.train.latest_checkpoint(str(tmp_path)) == second
    other = saver.save(session, str(tmp_path / "n"), latest_filename="other")
    assert hf.train.latest_checkpoint(str(tmp_path), "other") == other
    os.unlink(second + ".h5")
    assert hf.train.latest_checkpoint(str(tmp_path)) is None
    times = hf.train.get_checkpoint_mtimes([first, second])
    assert len(times) == 1
    assert abs(times[0] - time.time()) < 60


def test_relative_paths(tmp_path, session, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    path = hf.train.Saver().save(session, "run/m", 1)
    assert path == "run/m-1"
    assert 'model_checkpoint_path: "m-1"' in (tmp_path / "run/checkpoint").read_text()
    assert hf.train.latest_checkpoint("run") == "run/m-1"
    plain = hf.train.Saver().save(session, "plain")
    assert hf.train.latest_checkpoint(".") == "./plain"
    assert plain == "plain"


def test_a_directory_can_be_moved(tmp_path, session):
    first = tmp_path / "first"
    first.mkdir()
    hf.train.Saver(save_relative_paths=True).save(session, str(first / "m"), 1)
    first.rename(tmp_path / "second")
    assert hf.train.latest_checkpoint(str(tmp_path / "second")) == str(tmp_path / "second/m-1")


def test_the_state_file(tmp_path):
    directory = str(tmp_path)
    hf.train.update_checkpoint_state(directory, "/x/b", ["/x/a"])
    state = hf.train.get_checkpoint_state(directory)
    assert state.model_checkpoint_path == "/x/b"
    assert list(state.all_model_checkpoint_paths) == ["/x/a", "/x/b"]
    proto = hf.train.generate_checkpoint_state_proto("rel", "rel/b", ["rel/a", "/abs"])
    assert list(proto.all_model_checkpoint_paths) == ["a", "/abs", "b"]
    with pytest.raises(RuntimeError, match="conflicts with path used for checkpoint state"):
        hf.train.update_checkpoint_state(directory, str(tmp_path / "checkpoint"))
    for text in ("model_checkpoint_path: 3", "\0"):
        (tmp_path / "checkpoint").write_text(text)
        assert hf.train.get_checkpoint_state(directory) is None
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        hf.train.get_checkpoint_state(directory)
    assert hf.train.get_checkpoint_state(str(tmp_path / "absent")) is None


def test_writing_a_state_file_is_all_or_nothing(tmp_path, monkeypatch):
    target = str(tmp_path / "file")
    checkpoint_state.write_atomically(target, b"old")

    def failing(source, destination):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(hf.errors.ResourceExhaustedError, match="No space left"):
        checkpoint_state.write_atomically(target, b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
