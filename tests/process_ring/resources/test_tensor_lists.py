"""Lists of tensors, their gradients, and lists in loops and branches."""

import gradcheck
import numpy as np
import pytest
from running import run

import hpcflow as hf

raw = hf.raw_ops
rng = np.random.default_rng(11)
pytestmark = pytest.mark.usefixtures("form", "checked")
F = np.float32


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own."""


def new_list(*items, shape=(2,)):
    found = raw.EmptyTensorList(element_shape=np.array(shape, np.int32), max_num_elements=-1,
                                element_dtype=hf.float32)
    for item in items:
        found = raw.TensorListPushBack(input_handle=found, tensor=np.array(item, F))
    return found


def test_lists():
    items = new_list([1, 2], [3, 4])
    shape = np.array([2], np.int32)
    rest, last = raw.TensorListPopBack(input_handle=items, element_shape=shape,
                                       element_dtype=hf.float32)
    stacked = raw.TensorListStack(input_handle=items, element_shape=shape,
                                  element_dtype=hf.float32, num_elements=2)
    assert stacked.shape.as_list() == [2, 2] and last.shape.as_list() == [2]
    assert run(stacked).tolist() == [[1, 2], [3, 4]] and run(last).tolist() == [3, 4]
    assert run(raw.TensorListLength(input_handle=items), raw.TensorListLength(input_handle=rest)
               ) == [2, 1]
    assert run(raw.TensorListElementShape(input_handle=items, shape_type=hf.int64)).tolist() == [2]
    gathered = raw.TensorListGather(input_handle=items, indices=[1, 1], element_shape=shape,
                                    element_dtype=hf.float32)
    assert run(gathered).tolist() == [[3, 4], [3, 4]]


def test_lists_of_a_given_length():
    items = raw.TensorListReserve(element_shape=-1, num_elements=3, element_dtype=hf.float32)
    items = raw.TensorListSetItem(input_handle=items, index=1, item=[5.0, 6.0])

    def get(index, shape=-1):
        return raw.TensorListGetItem(input_handle=items, index=index, element_shape=shape,
                                     element_dtype=hf.float32)

    assert run(get(1)).tolist() == [5, 6] and run(get(0)).tolist() == [0, 0]
    longer = raw.TensorListResize(input_handle=items, size=4)
    assert run(raw.TensorListLength(input_handle=longer)) == 4
    twice = raw.AddN(inputs=[items, items])
    assert run(raw.TensorListGetItem(input_handle=twice, index=1, element_shape=-1,
                                     element_dtype=hf.float32)).tolist() == [10, 12]
    with pytest.raises(hf.errors.InvalidArgumentError, match="element 3 in a list with 3"):
        run(get(3))


def test_lists_from_tensors_and_back():
    x = np.arange(6, dtype=F).reshape(3, 2)
    items = raw.TensorListFromTensor(tensor=x, element_shape=np.array([2], np.int32))
    back = raw.TensorListStack(input_handle=items, element_shape=-1, element_dtype=hf.float32)
    assert run(back).tolist() == x.tolist()
    parts = raw.TensorListSplit(tensor=x, element_shape=np.array([-1, 2], np.int32),
                                lengths=np.array([1, 2]))
    whole, lengths = raw.TensorListConcatV2(
        input_handle=parts, element_shape=np.array([-1, 2], np.int32), element_dtype=hf.float32,
        leading_dims=np.zeros(0, np.int64))
    found = run(whole, lengths)
    assert found[0].tolist() == x.tolist() and found[1].tolist() == [1, 2]
    places = raw.TensorListScatterV2(tensor=x, indices=[2, 0, 1], num_elements=-1,
                                     element_shape=np.array([2], np.int32))
    back = raw.TensorListStack(input_handle=places, element_shape=-1, element_dtype=hf.float32)
    assert run(back).tolist() == x[[1, 2, 0]].tolist()


@pytest.mark.parametrize(("build", "message"), [
    (lambda: raw.TensorListPushBack(input_handle=new_list(), tensor=[1.0]), "elements of shape"),
    (lambda: raw.TensorListPopBack(input_handle=new_list(), element_shape=-1,
                                   element_dtype=hf.float32)[1], "empty list"),
    (lambda: raw.TensorListStack(input_handle=new_list([1, 2]), element_shape=-1, num_elements=2,
                                 element_dtype=hf.float32), "a list with 2 elements but got"),
    (lambda: raw.TensorListStack(input_handle=new_list(shape=(-1,)), element_shape=-1,
                                 element_dtype=hf.float32), "empty list"),
    (lambda: raw.AddN(inputs=[new_list(), new_list([1, 2])]), "different lengths")])
def test_lists_refuse(build, message):
    tensor = build()
    if tensor.dtype is hf.variant:
        tensor = raw.TensorListLength(input_handle=tensor)
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        run(tensor)


def stack(items, shape=-1):
    return raw.TensorListStack(input_handle=items, element_shape=shape, element_dtype=hf.float64)


def test_gradients_of_lists():
    def from_tensor(x):
        return raw.TensorListFromTensor(tensor=x, element_shape=-1)

    def item(items, index):
        return raw.TensorListGetItem(input_handle=items, index=index, element_shape=-1,
                                     element_dtype=hf.float64)

    def changed(x, y):
        items = raw.TensorListSetItem(input_handle=from_tensor(x), index=1, item=y)
        longer = raw.TensorListResize(input_handle=items, size=4)
        return stack(longer, y.shape.as_list() if y.shape.ndims else hf.shape(y)), item(items, 2)

    def pushed(x, y):
        items = raw.TensorListPushBack(input_handle=from_tensor(x), tensor=y)
        items = raw.TensorListPushBack(input_handle=items, tensor=y * y)
        rest, last = raw.TensorListPopBack(input_handle=items, element_shape=-1,
                                           element_dtype=hf.float64)
        return stack(rest), last

    def gathered(x):
        return raw.TensorListGather(input_handle=from_tensor(x), indices=[2, 0, 2],
                                    element_shape=-1, element_dtype=hf.float64)

    def scattered(x, y):
        items = raw.TensorListScatterV2(tensor=x, indices=[2, 0, 1], element_shape=-1,
                                        num_elements=-1)
        items = raw.TensorListScatterIntoExistingList(input_handle=items, tensor=y, indices=[1])
        return stack(items)

    def parts(x):
        items = raw.TensorListSplit(tensor=x, element_shape=-1, lengths=np.array([1, 2]))
        return raw.TensorListConcatV2(input_handle=items, element_shape=-1, leading_dims=np.zeros(
            0, np.int64), element_dtype=hf.float64)[0] * x

    x, y = rng.normal(size=(3, 2)), rng.normal(size=2)
    gradcheck.check_gradient(changed, x, y)
    gradcheck.check_gradient(pushed, x, y)
    gradcheck.check_gradient(gathered, x)
    gradcheck.check_gradient(scattered, x, y[None])
    gradcheck.check_gradient(parts, x)


def test_gradients_of_lists_in_loops_and_branches():
    def build(x, w):
        def body(i, total, items):
            value = raw.TensorListGetItem(input_handle=given, index=i, element_shape=[],
                                          element_dtype=hf.float64)
            total = total * w + value * value
            return i + 1, total, raw.TensorListPushBack(input_handle=items, tensor=total)

        given = raw.TensorListFromTensor(tensor=x, element_shape=np.zeros(0, np.int32))
        start = raw.EmptyTensorList(element_shape=np.zeros(0, np.int32), max_num_elements=-1,
                                    element_dtype=hf.float64)
        items = hf.while_loop(lambda i, *_: i < 3, body, [0, np.float64(0.5), start])[2]
        return stack(hf.cond(w > 0, lambda: items, lambda: given), [])

    for w in (0.7, -0.7):
        gradcheck.check_gradient(build, rng.normal(size=3), np.array(w), second=False,
                                 forms=["static"])
