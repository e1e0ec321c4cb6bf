"""SavedModels: written and loaded here, and loaded from the files of other 1.x runtimes.

``tests/data/saved_models`` was written by the reference runtime: "later" by its 2.x functions, the
others by its 1.x builder. ``expected.json`` holds what it computed of their signatures.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.saved_model import signature_def_utils, utils

FOLDER = Path(__file__).parents[2] / "data" / "saved_models"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())

sm = hf.saved_model


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def call(session, meta, feeds, import_scope=None, key="serving_default"):
    """The outputs of a signature by name."""
    signature = meta.signature_def[key]

    def tensor(info):
        return utils.get_tensor_from_tensor_info(info, session.graph, import_scope)

    outputs = {name: tensor(info) for name, info in signature.outputs.items()}
    return session.run(outputs, {tensor(signature.inputs[k]): v for k, v in feeds.items()})


def assert_values(got, wanted):
    assert set(got) == set(wanted)
    for key, value in wanted.items():
        if np.asarray(value).dtype.kind == "U":
            assert [v.decode() for v in got[key]] == value
        else:
            np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-6, err_msg=key)


# ---------------------------------------------------------------- those of others


@pytest.mark.parametrize("import_scope", [None, "scope"])
@pytest.mark.parametrize("name", sorted(n for n, c in EXPECTED.items() if "values" in c))
def test_signatures_of_others(name, import_scope):
    with hf.Session() as session:
        meta = sm.loader.load(session, ["serve"], str(FOLDER / name), import_scope=import_scope)
        got = call(session, meta, EXPECTED[name]["feeds"], import_scope)
    assert_values(got, EXPECTED[name]["values"])


def test_several_meta_graphs_and_a_main_op():
    """The main op of the first doubles the variable; the second has none."""
    k = np.array(EXPECTED["sparse"]["k"], np.float32)
    value = hf.SparseTensorValue([[0, 1], [1, 2]], [1.0, 3.0], [2, 3])
    with hf.Session() as session:
        meta = sm.load(session, {"cpu", "serve"}, str(FOLDER / "sparse"))
        got = call(session, meta, {"x": value})["y"]
    np.testing.assert_allclose(got, 2 * np.stack([k[1], 3 * k[2]]), rtol=1e-6)
    with hf.Graph().as_default(), hf.Session() as session:
        meta = sm.load(session, ["train"], str(FOLDER / "sparse"))
        got = call(session, meta, {"z": 3.0}, key="times")["u"]
        np.testing.assert_allclose(got, 3 * k, rtol=1e-6)
        with pytest.raises(RuntimeError, match=r"'serve'.*could not be found.*'cpu'"):
            sm.load(session, ["serve"], str(FOLDER / "sparse"))


@pytest.mark.parametrize("name", ["dense", "lookup", "loop", "partitioned", "resource"])
def test_written_again(name, tmp_path):
    """What was loaded can be saved here, and loaded again."""
    with hf.Session() as session:
        meta = sm.load(session, ["serve"], str(FOLDER / name))
        signatures = dict(meta.signature_def)
        builder = sm.Builder(str(tmp_path / "again"))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    assert [p.name for p in (tmp_path / "again" / "variables").iterdir()] == ["variables.h5"]
    if name == "lookup":
        shutil.copytree(FOLDER / name / "assets", tmp_path / "again" / "assets")
    with hf.Graph().as_default(), hf.Session() as session:
        meta = sm.load(session, ["serve"], str(tmp_path / "again"))
        assert_values(call(session, meta, EXPECTED[name]["feeds"]), EXPECTED[name]["values"])


# ---------------------------------------------------------------- written here


def vocabulary_model(path):
    """A table of the words of a file, and a variable: inputs and outputs."""
    words = hf.placeholder(hf.string, [None], name="words")
    ids = hf.contrib.lookup.index_table_from_file(str(path), num_oov_buckets=1).lookup(words)
    scale = hf.get_variable("scale", [], hf.int64, initializer=hf.ones_initializer())
    return {"words": words}, {"ids": ids * scale}


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("main_op", ["main_op", "legacy_init_op"])
def test_assets_and_main_op(tmp_path, as_text, main_op):
    source, saved = tmp_path / "words.txt", str(tmp_path / "model")
    source.write_text("a\nb\n")
    inputs, outputs = vocabulary_model(source)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(hf.assign(hf.global_variables()[0], 10))
        builder = sm.builder.SavedModelBuilder(saved)
        builder.add_meta_graph_and_variables(
            session, [sm.tag_constants.SERVING],
            {"ids": signature_def_utils.predict_signature_def(inputs, outputs)},
            assets_collection=hf.get_collection(hf.GraphKeys.ASSET_FILEPATHS),
            **{main_op: hf.tables_initializer()})
        path = builder.save(as_text)
    assert path.decode() == f"{saved}/saved_model.pb{'txt' if as_text else ''}"
    source.unlink()  # the copy is read from now on, wherever it is moved
    moved = str((tmp_path / "model").rename(tmp_path / "moved"))
    with hf.Graph().as_default(), hf.Session() as session:
        meta = sm.load(session, ["serve"], moved, import_scope="in")
        got = call(session, meta, {"words": ["b", "a", "?"]}, "in", "ids")
    assert got["ids"].tolist() == [10, 0, 20]


def test_assets_of_one_name(tmp_path):
    """Different files of one name get different names; the same file is stored once."""
    tensors = []
    for folder, content in (("x", "1"), ("y", "2"), ("z", "1")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text(content)
        tensors.append(hf.constant(str(tmp_path / folder / "file"), name=folder))
    with hf.Session() as session:
        builder = sm.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(session, [], assets_collection=tensors)
        builder.save()
    assets = tmp_path / "model" / "assets"
    assert {p.name: p.read_text() for p in assets.iterdir()} == {"file": "1", "file_1": "2"}
    from hpcflow.saved_model.assets import asset_feeds

    meta = sm.loader.SavedModelLoader(str(tmp_path / "model")).get_meta_graph_def_from_tags([])
    assert {k: Path(v.decode()).name for k, v in asset_feeds(meta, "d", None).items()} == {
        "x:0": "file", "y:0": "file_1", "z:0": "file"}


def test_simple_save(tmp_path):
    x = hf.placeholder(hf.float32, [None])
    with hf.device("/cpu:1"):
        y = x * 2.0
    with hf.Session() as session:
        sm.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    assert sm.maybe_saved_model_directory(str(tmp_path / "model"))
    assert not sm.maybe_saved_model_directory(str(tmp_path))
    with hf.Graph().as_default(), hf.Session() as session:
        meta = sm.load(session, [sm.tag_constants.SERVING], str(tmp_path / "model"))
        assert {n.device for n in meta.graph_def.node} == {""}
        assert call(session, meta, {"x": [3.0]})["y"].tolist() == [6.0]


def test_default_attributes_can_be_left_out(graph):
    x, y = hf.placeholder(hf.float32, [2, 2]), hf.Variable([[1.0, 2.0], [3.0, 4.0]])
    hf.matmul(x, y, transpose_b=True, name="m")
    meta = hf.train.export_meta_graph(strip_default_attrs=True)
    node = next(n for n in meta.graph_def.node if n.name == "m")
    assert sorted(node.attr) == ["T", "_output_shapes", "transpose_b"]
    assert meta.meta_info_def.stripped_default_attrs
    hf.train.Saver(name="other")
    saver = hf.train.Saver()
    hf.add_to_collection(hf.GraphKeys.SAVERS, saver)
    hf.add_to_collection(hf.GraphKeys.SAVERS, hf.train.Saver(name="third"))
    meta = saver.export_meta_graph(clear_extraneous_savers=True)
    scopes = {n.name.split("/")[0] for n in meta.graph_def.node if "/" in n.name}
    assert {"other", "save"} <= scopes and "third" not in scopes
    (own,) = meta.collection_def[hf.GraphKeys.SAVERS].bytes_list.value
    assert own == meta.saver_def.SerializeToString()


def test_savers_beside_imported_ones(graph, tmp_path):
    """Operations of a saver get new names where an imported graph has taken them."""
    hf.get_variable("v", [2], initializer=hf.ones_initializer())
    hf.train.Saver()
    definition = graph.as_graph_def()
    with hf.Graph().as_default() as other, hf.Session() as session:
        hf.import_graph_def(definition, name="")
        w = hf.get_variable("w", [], initializer=hf.ones_initializer())
        saver = hf.train.Saver({"w": w})
        session.run(w.initializer)
        saver.save(session, str(tmp_path / "model"))
        names = [n.name for n in other.as_graph_def().node]
    assert len(names) == len(set(names))


# ---------------------------------------------------------------- what is refused


def test_order_of_calls(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AssertionError, match="isn't empty"):
        sm.Builder(str(tmp_path))
    builder = sm.Builder(str(tmp_path / "model"))
    with pytest.raises(AssertionError, match="add_meta_graph_and_variables"):
        builder.add_meta_graph(["x"])
    with hf.Session() as session:
        builder.add_meta_graph_and_variables(session, ["x"], main_op=hf.no_op())
        with pytest.raises(AssertionError, match="already been saved"):
            builder.add_meta_graph_and_variables(session, ["x"])
    with pytest.raises(ValueError, match="already contains one or more main ops"):
        builder.add_meta_graph(["y"], main_op=hf.no_op())


def test_arguments(tmp_path):
    builder, x = sm.Builder(str(tmp_path / "model")), hf.placeholder(hf.float32, [2], name="x")

    def add(**kwargs):
        with hf.Session() as session:
            builder.add_meta_graph_and_variables(session, ["x"], **kwargs)

    with pytest.raises(TypeError, match="main_op needs to be an Operation"):
        add(main_op=x)
    for asset, error, text in (("a", TypeError, "must be a Tensor"),
                               (x, TypeError, "x:0 must be a constant"),
                               (hf.constant(1), TypeError, "dtype string, not int32"),
                               (hf.constant(["a", "b"]), TypeError, "must be a scalar"),
                               (hf.constant(""), ValueError, "empty path")):
        with pytest.raises(error, match=text):
            add(assets_collection=[asset])
    for field in ("name", "dtype"):
        signature = sm.predict_signature_def({"x": x}, {"x": x})
        signature.inputs["x"].ClearField(field)
        with pytest.raises(AssertionError, match=f"has no {field}"):
            add(signature_def_map={"k": signature})
    with pytest.raises(KeyError, match="reserved for initialization"):
        add(signature_def_map={"__saved_model_init_op": sm.predict_signature_def({"x": x},
                                                                                 {"x": x})})


def test_damaged_files(tmp_path):
    with hf.Session() as session:
        with pytest.raises(IOError, match="does not exist at"):
            sm.load(session, ["serve"], str(tmp_path))
        for name in ("saved_model.pbtxt", "saved_model.pb"):
            (tmp_path / name).write_text("garbage")
            with pytest.raises(IOError, match=f"Cannot parse file .*{name}"):
                sm.load(session, ["serve"], str(tmp_path))


def test_signatures():
    x, s = hf.placeholder(hf.float32, [2]), hf.placeholder(hf.string, [2])
    u = signature_def_utils
    regression, classes = u.regression_signature_def(s, x), u.classification_signature_def(s, s, x)
    assert regression.method_name == sm.REGRESS_METHOD_NAME == "tensorflow/serving/regress"
    assert regression.outputs["outputs"].name == x.name
    assert sorted(classes.outputs) == ["classes", "scores"]
    assert all(map(u.is_valid_signature, (regression, classes, u.predict_signature_def(
        {"a": x}, {"b": s}))))
    other = u.build_signature_def(regression.inputs, classes.outputs, regression.method_name)
    assert not u.is_valid_signature(other)
    assert not u.is_valid_signature(u.build_signature_def(regression.inputs, {}, "other"))
    for function, args, text in (
            (u.predict_signature_def, ({}, {"y": x}), "Prediction `inputs`"),
            (u.predict_signature_def, ({"x": x}, None), "Prediction `outputs`"),
            (u.regression_signature_def, (None, x), "`examples` cannot be None"),
            (u.regression_signature_def, (x, x), "input tensors must be of type string"),
            (u.regression_signature_def, (s, None), "`predictions` cannot be None"),
            (u.regression_signature_def, (s, s), "must be of type float"),
            (u.classification_signature_def, (s, None, None), "`classes` and `scores`"),
            (u.classification_signature_def, (s, x, None), "classes must be of type string"),
            (u.classification_signature_def, (s, None, s), "scores must be a float")):
        with pytest.raises(ValueError, match=text):
            function(*args)


def test_tensor_info(graph):
    sparse = hf.sparse_placeholder(hf.float32, [2, 3], name="sp")
    info = utils.build_tensor_info(sparse)
    found = utils.get_tensor_from_tensor_info(info)
    assert found.indices is sparse.indices and found.dense_shape is sparse.dense_shape
    v = hf.get_variable("v", [2], hf.float64)
    info = utils.build_tensor_info(v)
    assert (info.name, info.dtype) == ("v:0", v.dtype.as_datatype_enum)
    info.ClearField("name")
    with pytest.raises(ValueError, match="encoding"):
        utils.get_tensor_from_tensor_info(info)


def test_operations_in_signatures(tmp_path):
    from hpcflow.python.saved_model import builder, loader_impl

    v = hf.Variable(5.0, name="v")
    first = hf.group(hf.assign(v, 7.0), name="first")
    step = hf.assign_add(v, 1.0, name="step").op
    signature = signature_def_utils.supervised_train_signature_def(
        {"x": hf.constant(1.0)}, loss={"loss": v}, metrics={"metrics/value": v})
    with hf.Session() as session:
        session.run(v.initializer)
        writer = builder._SavedModelBuilder(str(tmp_path / "m"))
        writer.add_meta_graph_and_variables(session, ["train"], {"train": signature},
                                            init_op=first, train_op=step)
        writer.save()
    with hf.Graph().as_default(), hf.Session() as session:
        meta = sm.load(session, ["train"], str(tmp_path / "m"), import_scope="in")
        assert session.run("in/v:0") == 7.0  # the operation ran after the variables were restored
        session.run(loader_impl.get_train_op(meta, "in"))
        assert session.run("in/v:0") == 8.0
    assert set(signature.outputs) == {"loss", "metrics/value"}
    with pytest.raises(ValueError, match="inputs cannot be None or empty"):
        signature_def_utils.supervised_eval_signature_def({})
    with hf.Graph().as_default(), pytest.raises(hf.errors.NotFoundError, match="init_op"):
        loader_impl.get_init_op(meta)
