"""Classes and functions inside modules of 1.x that layers of other libraries are made of."""

from __future__ import annotations

import inspect
import pydoc

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.keras.utils import generic_utils
from hpcflow.python.ops import nn_ops


@pytest.mark.parametrize("data_format,shape", [(None, [2, 5, 6, 3]), ("NHWC", [2, 5, 6, 3])])
def test_a_convolution_that_is_built_before_its_filter(data_format, shape):
    x = np.random.RandomState(0).rand(*shape).astype(np.float32)
    kernel = np.random.RandomState(1).rand(2, 2, 3, 4).astype(np.float32)
    built = nn_ops.Convolution(hf.TensorShape([None, 5, 6, 3]), filter_shape=hf.TensorShape(
        kernel.shape), padding="SAME", dilation_rate=(2, 2), data_format=data_format)
    with hf.Session() as session:
        ours, plain = session.run([built(x, kernel), hf.nn.convolution(
            x, kernel, "SAME", dilation_rate=[2, 2])])
    np.testing.assert_array_equal(ours, plain)


def test_a_convolution_says_early_what_does_not_fit():
    of = hf.TensorShape
    with pytest.raises(ValueError, match="3 != 5"):
        nn_ops.Convolution(of([None, 5, 6, 3]), of([2, 2, 5, 4]), "SAME")
    with pytest.raises(ValueError, match="must have rank 4"):
        nn_ops.Convolution(of([None, 5, 3]), of([2, 2, 3, 4]), "SAME")
    with pytest.raises(ValueError, match="not supported"):
        nn_ops.Convolution(of([None, 5, 6, 3]), of([2, 2, 3, 4]), "SAME", [2, 2], [2, 2])


def test_models_are_saved_by_the_path_of_the_module():
    from hpcflow.python.keras.saving import hdf5_format, save

    assert save.load_model is hf.keras.models.load_model
    assert hdf5_format.save_model is hf.keras.models.save_model


def test_functions_are_kept_as_texts():
    factor = 3

    def scaled(x, plus=1):
        return factor * x + plus

    kept = generic_utils.func_dump(scaled)
    assert kept[1:] == ((1,), (3,)) and isinstance(kept[0], str)
    assert generic_utils.func_load(kept)(2) == 7
    assert generic_utils.func_load(*generic_utils.func_dump(lambda x: x + 1))(2) == 3


def test_classes_of_layers_say_what_arguments_they_take():
    found = inspect.getfullargspec(hf.layers.Dense.__init__).args
    assert found[:4] == ["self", "units", "activation", "use_bias"] and "name" in found
    assert "training" not in inspect.getfullargspec(hf.layers.Dropout.__init__).args


def test_boxes_of_all_classes_are_selected_at_once():
    boxes = np.float32([[[[0, 0, 1, 1]], [[0, 0, 1, 0.9]], [[2, 2, 3, 3]]]])
    scores = np.float32([[[0.9, 0.2], [0.8, 0.7], [0.1, 0.6]]])
    with hf.Session() as session:
        chosen, best, classes, count = session.run(hf.image.combined_non_max_suppression(
            boxes, scores, 2, 4, score_threshold=0.3, clip_boxes=False))
    np.testing.assert_allclose(best, [[0.9, 0.7, 0.6, 0]])
    np.testing.assert_allclose(classes, [[0, 1, 1, 0]])
    np.testing.assert_allclose(chosen[0, 2], [2, 2, 3, 3])
    assert count.tolist() == [3]


def test_modules_of_autograph_are_imported_and_refused_on_use():
    from hpcflow.python.autograph.core import converter
    from hpcflow.python.autograph.pyct import anno, transformer

    class Own(transformer.Base):
        pass

    with pytest.raises(NotImplementedError, match=r"transformer.Base: hpcflow does without; use"):
        Own(None)
    with pytest.raises(AttributeError, match="does without"):
        _ = anno.Basic.QN
    with pytest.raises(NotImplementedError, match="does without"):
        converter.standard_analysis(None, None)


def test_what_is_computed_from_constants_is_known_while_the_graph_is_built():
    from hpcflow.python import pywrap_tensorflow as functions

    x = hf.placeholder(hf.float32, [None, 3])
    for value, known in ((hf.equal(hf.rank(x) - 1, 1), True), (hf.shape(x)[0] > 2, None)):
        found = functions.TF_TryEvaluateConstant_wrapper(value.graph._c_graph,
                                                         value._as_tf_output())
        assert found == known


def test_name_scopes_know_what_they_are_to_be_called():
    assert hf.name_scope("given").name == "given"
    assert hf.name_scope(None, "default").name == hf.compat.v2.name_scope("default").name


def test_an_optimizer_with_gradients_of_its_own_and_without_a_learning_rate():
    class Own(hf.keras.optimizers.Optimizer):
        def _compute_gradients(self, loss, var_list, grad_loss=None):
            assert loss == "of one's own"
            return [(hf.constant([0.5, 0.25]), v) for v in var_list]

        def _resource_apply_dense(self, grad, var):
            return hf.assign_sub(var, 2.0 * grad)

    v = hf.Variable([1.0, 2.0], use_resource=True)
    update = Own("own").minimize("of one's own", var_list=[v])
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(update)
        np.testing.assert_allclose(session.run(v), [0, 1.5])


def test_properties_of_modules_may_be_set_to_what_they_are():
    class Shaped(hf.Module):
        @property
        def shape(self):
            return hf.TensorShape([None, 2])

    made = Shaped()
    made.shape = hf.TensorShape([None, 2])
    with pytest.raises(AttributeError, match="shape"):
        made.shape = hf.TensorShape([3, 2])


def test_cases_of_conditions_of_ones_own():
    from hpcflow.python.ops import control_flow_ops

    def choose(preds, default=lambda: hf.constant(9)):
        pairs = [(p, lambda i=i: hf.constant(i)) for i, p in enumerate(preds)]
        return control_flow_ops._case_helper(hf.cond, pairs, default, False, None,
                                             allow_python_preds=True)

    x = hf.constant(3)
    with hf.Session() as session:
        assert session.run(choose([x > 5, x > 2, x > 1])) == 1
        assert session.run(choose([x > 5, x > 4])) == 9
        assert session.run(choose([x > 5, x > 4], None)) == 1
    with pytest.raises(TypeError, match="pair"):
        control_flow_ops._case_helper(hf.cond, [x > 1], None, False, None)


def test_classes_are_located_by_their_paths():
    assert pydoc.locate("hpcflow.contrib.rnn.GRUCell") is hf.contrib.rnn.GRUCell
    assert pydoc.locate("hpcflow.keras.layers.Dense") is hf.keras.layers.Dense


def test_a_session_keeps_its_configuration():
    with hf.Session(config=hf.ConfigProto(inter_op_parallelism_threads=3)) as session:
        assert session._config.inter_op_parallelism_threads == 3
