"""Tags, signatures and predictors of SavedModels."""

import pytest

import hpcflow as hf
from hpcflow.contrib.predictor import saved_model_predictor
from hpcflow.contrib.saved_model.python.saved_model import reader
from hpcflow.contrib.tensorboard.plugins.projector import projector_config_pb2
from hpcflow.python.util import nest


def test_what_a_saved_model_holds(graph, tmp_path):
    directory = str(tmp_path / "model")
    x = hf.placeholder(hf.float32, [], name="x")
    y = x * hf.Variable(3.0)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        hf.saved_model.simple_save(session, directory, {"x": x}, {"y": y})
    assert reader.get_saved_model_tag_sets(directory) == [["serve"]]
    meta = reader.read_saved_model(directory).meta_graphs[0]
    signature = hf.contrib.saved_model.get_signature_def_by_key(meta, "serving_default")
    assert signature.inputs["x"].name == "x:0"
    with pytest.raises(ValueError, match="No SignatureDef with key 'other'"):
        hf.contrib.saved_model.get_signature_def_by_key(meta, "other")
    with pytest.raises(OSError, match="SavedModel file does not exist"):
        reader.get_saved_model_tag_sets(str(tmp_path))
    predictor = saved_model_predictor.SavedModelPredictor(directory)
    assert predictor({"x": 2.0}) == {"y": 6.0}
    with pytest.raises(AttributeError, match="simple_save"):
        _ = hf.contrib.saved_model.save_keras_model


def test_small_differences():
    assert projector_config_pb2.ProjectorConfig is hf.contrib.tensorboard.plugins.projector.\
        ProjectorConfig
    with pytest.raises(ValueError, match=r"Only valid keyword arguments.*foo"):
        nest.map_structure(len, [1], foo=1)
    with pytest.raises(TypeError, match="ambiguous TensorShape"):
        hf.TensorShape("347")
    assert hf.TensorShape([3, 4, 7]) != "347"
