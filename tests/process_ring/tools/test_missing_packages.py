"""Messages for what is missing: packages, with the command to install them, and ranks."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.storage import crc32c
from hpcflow.tools import doctor
from hpcflow.tools.cli import main


def test_saving_without_h5py_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(1.0)
        session.run(v.initializer)
        with pytest.raises(hf.errors.UnavailableError, match="pip install h5py"):
            hf.train.Saver().save(session, str(tmp_path / "model"))


def test_images_without_pillow_name_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with hf.Graph().as_default(), hf.Session() as session:
        image = hf.image.encode_jpeg(np.zeros([2, 2, 3], np.uint8))
        with pytest.raises(hf.errors.UnimplementedError, match="pip install pillow"):
            session.run(image)


def test_records_without_google_crc32c_have_the_same_checksums(monkeypatch):
    records = [b"", b"a", bytes(range(256)) * 9]
    usual = [crc32c.masked_crc32c(record) for record in records]
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    spec = importlib.util.spec_from_file_location("without", crc32c.__file__)
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    assert [without.masked_crc32c(record) for record in records] == usual


@pytest.mark.parametrize("name", ["llvmlite", "pillow", "isal", "google-crc32c"])
def test_the_doctor_names_the_command(name):
    (text,) = doctor.warn_about_packages({"versions": {name: None}})
    assert text.endswith(f"pip install {name}.")


def test_one_process_for_parameter_servers_is_told(capsys):
    task = hf.mpi.task(jobs={"ps": 2})
    assert (task.job, task.size) == ("worker", 1)
    said = capsys.readouterr().err
    assert "2 of job 'ps'" in said and "hpcflow run -n 3" in said
    hf.mpi.task()
    assert not capsys.readouterr().err


def test_profiles_of_graphs_in_files(tmp_path, capsys):
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [4, 3])
        y = hf.matmul(x, hf.Variable(np.ones([3, 2], np.float32), name="w"), name="product")
        metadata = hf.RunMetadata()
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            session.run(y, {x: np.ones([4, 3])}, hf.RunOptions(trace_level=3), metadata)
        hf.train.export_meta_graph(str(tmp_path / "g.meta"), graph=graph)
        hf.train.write_graph(graph, str(tmp_path), "g.pbtxt")
    (tmp_path / "trace").write_bytes(metadata.SerializeToString())
    assert main(["profile", str(tmp_path / "g.meta")]) == 0
    text = capsys.readouterr().out
    assert "MatMul" in text and " 48 " in text  # 2 * 4 * 3 * 2
    assert main(["profile", str(tmp_path / "g.pbtxt"), "--trace", str(tmp_path / "trace"),
                 "--view", "scope", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["product"]["float_ops"] == 48 and rows["product"]["run_count"] == 1
    assert found["total"]["exec_micros"] > 0


def test_a_damaged_graph_takes_one_line(tmp_path, capsys):
    for name in ("g.meta", "g.pb", "g.pbtxt"):
        (tmp_path / name).write_bytes(b"\xff\xfenonsense")
        assert main(["profile", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
