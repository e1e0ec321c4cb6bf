"""What graphs of later writers hold beside the op types of 1.0, imported and run."""

import gradcheck
import numpy as np
import pytest
from running import run

import hpcflow as hf
from hpcflow.data.functions import ElementFunction

raw = hf.raw_ops
rng = np.random.default_rng(5)
pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own."""


def imported(op_type, *values, results=1, **attrs):
    """The outputs of one node of a GraphDef, with constants as inputs."""
    definition = hf.GraphDef()
    node = definition.node.add(name="it", op=op_type)
    inputs = {}
    for i, value in enumerate(values):
        node.input.append(f"in{i}")
        inputs[f"in{i}"] = hf.convert_to_tensor(value)
    from hpcflow.graph.attr_values import to_proto

    for key, value in attrs.items():
        node.attr[key].CopyFrom(to_proto(value))
    names = [f"it:{i}" for i in range(results)]
    return hf.import_graph_def(definition, inputs, names)


# ---------------------------------------------------------------- einsum


@pytest.mark.parametrize(("equation", "shapes"), [
    ("...ij,...jk->...ik", [(4, 1, 2, 3), (5, 3, 2)]), ("i...->...", [(2, 3, 4)]),
    ("b...,b...->...b", [(2, 1, 3), (2, 4, 1)]), ("...i,...i", [(2, 3), (2, 3)]),
    ("ii->i", [(3, 3)]), ("iji->j", [(2, 3, 2)]), ("ii", [(3, 3)])])
def test_einsum_with_an_ellipsis_and_diagonals(equation, shapes):
    values = [rng.normal(size=s) for s in shapes]
    np.testing.assert_allclose(run(hf.einsum(equation, *values)), np.einsum(equation, *values))
    forms = ["static"] if "..." in equation else gradcheck.FORMS
    gradcheck.check_gradient(lambda *x: hf.einsum(equation, *x), *values, forms=forms)


@pytest.mark.parametrize("equation", ["ii->i", "jii->j", "i->", "ijk->", "ij,jk->ik"])
def test_einsum_refuses_what_does_not_fit_when_it_sees_it(equation):
    values = [np.ones((2, 3)) for _ in equation.partition("->")[0].split(",")]
    with pytest.raises(ValueError, match="einsum"):
        hf.einsum(equation, *values)
    inputs = [hf.placeholder(hf.float64) for _ in values]
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError):
        session.run(hf.einsum(equation, *inputs), dict(zip(inputs, values)))


@pytest.mark.parametrize(("text", "places"), [
    (b"\0A\0B", [0, 2]), (b"\xfe\xff\0A\0B", [0, 4]), (b"\xff\xfeA\0B\0", [0, 4])])
def test_the_first_byte_is_the_highest_without_a_mark(text, places):
    found = raw.UnicodeDecodeWithOffsets(input=hf.constant([text]), input_encoding="UTF-16")
    points, starts = run(found.char_values, found.char_to_byte_starts)
    assert points.tolist() == [65, 66] and starts.tolist() == places


def test_a_mark_of_the_order_of_bytes_is_no_character():
    found = raw.UnicodeTranscode(input=hf.constant([b"\xff\xfe"]), input_encoding="UTF-16",
                                 output_encoding="UTF-8")
    assert run(found).tolist() == [b""]


@pytest.mark.parametrize("calls", [-1, 1, 3])
def test_parallel_maps_of_later_writers(calls):
    function = ElementFunction(lambda x: 3 * x, [hf.data.Dataset.range(1)._structure], "map")
    mapped = hf.data.Dataset.range(4)._derived(
        "ParallelMapDatasetV2", function.structure, num_parallel_calls=np.int64(calls),
        deterministic="true", **function.inputs())
    element = mapped.make_one_shot_iterator().get_next()
    with hf.Session() as session:
        assert [int(session.run(element)) for _ in range(4)] == [0, 3, 6, 9]


def test_gradients_of_rows_by_coordinates_stay_sparse():
    params = hf.placeholder(hf.float64, [4, 2])
    rows = hf.gather_nd(params, [[3], [1], [3]])
    (grad,) = hf.gradients(rows, [params])
    assert isinstance(grad, hf.IndexedSlices)
    with hf.Session() as session:
        found = session.run(hf.convert_to_tensor(grad), {params: np.zeros((4, 2))})
    np.testing.assert_array_equal(found[:, 0], [0, 1, 0, 2])


def test_what_fills_keeps_its_final_zeros():
    value = hf.placeholder(hf.string, [])
    sparse = raw.SparseFillEmptyRows(indices=np.array([[0, 0]]), values=["q"],
                                     dense_shape=np.array([2, 1]), default_value=value)
    rows = hf.data.Dataset.from_tensors(["w"]).padded_batch(1, [2], padding_values="a\0")
    made = [raw.PadV2(input=["q"], paddings=[[0, 1]], constant_values=value),
            sparse.output_values, hf.one_hot([0], 2, on_value="q", off_value=value,
                                             dtype=hf.string)[0],
            rows.make_one_shot_iterator().get_next()[0]]
    with hf.Session() as session:
        assert [m[-1] for m in session.run(made, {value: b"a\0"})] == [b"a\0"] * 4


def test_a_single_string_is_scattered():
    found = raw.ScatterNd(indices=np.array([1]), updates=b"x", shape=np.array([2]))
    assert run(found).tolist() == [b"", b"x"]
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError):
        updates = hf.placeholder(hf.string)
        session.run(raw.ScatterNd(indices=np.array([[1]]), updates=updates, shape=np.array([2])),
                    {updates: b"x"})


def test_einsum_of_a_batch_of_unknown_size():
    x = hf.placeholder(hf.float64, [None, 2, 3])
    y = imported("Einsum", x, np.eye(3)[None], equation=b"...ij,...jk->...ki", N=2, T=hf.float64)
    value = rng.normal(size=(5, 2, 3))
    with hf.Session() as session:
        np.testing.assert_allclose(session.run(y[0], {x: value}), value.swapaxes(1, 2))


@pytest.mark.parametrize("equation, shapes", [
    ("...ij,...jk->...ik", ((3, 1, 2, 3), (1, 7, 3, 4))),
    ("...ij,jk->k...", ((5, 2, 3), (3, 4))),
    ("i...j,...->i...j", ((2, 3, 4), (3,))),
    ("i...j,j->i...", ((2, 4), (4,))),
    ("i...j->...", ((2, 0, 3, 4),)),
    ("i...", ((2, 3),)),
])
def test_einsum_of_unknown_ranks(equation, shapes):
    values = [rng.normal(size=s) for s in shapes]
    fed = [hf.placeholder(hf.float64) for _ in shapes]
    with hf.Session() as session:
        found = session.run(hf.einsum(equation, *fed), dict(zip(fed, values, strict=True)))
    np.testing.assert_allclose(found, np.einsum(equation, *values), atol=1e-12)


def test_an_ellipsis_that_the_result_lacks_has_no_dimensions():
    x = hf.placeholder(hf.float64)
    y = imported("Einsum", x, equation=b"...i->i", N=1, T=hf.float64)[0]
    with hf.Session() as session:
        assert session.run(y, {x: [1, 2]}).tolist() == [1, 2]
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(y, {x: [[1, 2]]})


@pytest.mark.parametrize("equation, shape", [
    ("a->aa", (3,)), ("ab->bab", (2, 3)), ("a->aaa", (2,)), ("...a->a...a", (2, 3))])
def test_einsum_onto_diagonals(equation, shape):
    value = rng.normal(size=shape)
    (made,) = imported("Einsum", value, equation=equation.encode(), N=1, T=hf.float64)
    with hf.Session() as session:
        found = session.run(made)
    back = ",".join(equation.split("->")[::-1]).replace(",", "->")
    np.testing.assert_allclose(np.einsum(back, found), value)
    assert np.count_nonzero(found) == value.size


# ---------------------------------------------------------------- diagonals


def band(matrix, low, high, padding=0.0):
    """The diagonals of a band as rows, from the left."""
    rows = [np.diagonal(matrix, k, -2, -1) for k in range(high, low - 1, -1)]
    longest = max(r.shape[-1] for r in rows)
    return np.stack([np.pad(r, [(0, 0)] * (r.ndim - 1) + [(0, longest - r.shape[-1])],
                            constant_values=padding) for r in rows], -2)


@pytest.mark.parametrize(("low", "high"), [(-2, 1), (0, 2), (-1, 0), (-2, -1), (-1, 3)])
def test_bands_of_diagonals(low, high):
    x, k = rng.normal(size=(2, 3, 4)), np.array([low, high], np.int32)
    stored = band(x, low, high, 7.0)
    part = raw.MatrixDiagPartV3(input=x, k=k, padding_value=7.0, align="LEFT_LEFT")
    assert part.shape.as_list() == list(stored.shape)
    np.testing.assert_array_equal(run(part), stored)
    within = (np.arange(4) - np.arange(3)[:, None] >= low) & (
        np.arange(4) - np.arange(3)[:, None] <= high)
    made = raw.MatrixDiagV3(diagonal=stored, k=k, num_rows=3, num_cols=4, padding_value=9.0,
                            align="LEFT_LEFT")
    np.testing.assert_array_equal(run(made), np.where(within, x, 9.0))
    changed = raw.MatrixSetDiagV3(input=x * 0, diagonal=stored, k=k, align="LEFT_LEFT")
    np.testing.assert_array_equal(run(changed), np.where(within, x, 0.0))
    right = raw.MatrixDiagPartV3(input=x, k=k, padding_value=0.0, align="RIGHT_RIGHT")
    np.testing.assert_array_equal(
        run(raw.MatrixSetDiagV3(input=x * 0, diagonal=right, k=k, align="RIGHT_RIGHT")),
        np.where(within, x, 0.0))
    gradcheck.check_gradient(lambda v: raw.MatrixDiagPartV3(
        input=v, k=k, padding_value=np.float64(0)), x)
    gradcheck.check_gradient(lambda v: raw.MatrixDiagV3(
        diagonal=v, k=k, num_rows=3, num_cols=4, padding_value=np.float64(0)), stored)
    gradcheck.check_gradient(lambda v, d: raw.MatrixSetDiagV3(input=v, diagonal=d, k=k), x, stored)


def test_a_diagonal_beside_the_main_one():
    x = np.arange(3.0)
    for version, attrs in (("V2", {}), ("V3", {"align": b"RIGHT_LEFT"})):
        for k in (0, 1, -2):
            found, = imported(f"MatrixDiag{version}", x, k, -1, -1, 0.0 * x[0], T=hf.float64,
                              **attrs)
            np.testing.assert_array_equal(run(found), np.diag(x, k))
        found, = imported(f"MatrixDiag{version}", x, 0, -1, -1, x[1] + 6, T=hf.float64, **attrs)
        np.testing.assert_array_equal(run(found), np.where(np.eye(3), np.diag(x), 7))


def test_diagonals_of_booleans_beside_the_main_one():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.matrix_diag([True, False, True], k=1)
        made, rows, padded = session.run([x, hf.matrix_diag_part(x, k=(0, 1)),
                                          hf.matrix_diag_part(x, k=(0, 1), padding_value=1)])
    np.testing.assert_array_equal(made, np.diag([True, False, True], 1))
    assert rows.tolist() == [[False, True, False, True], [False] * 4]
    assert padded.tolist() == [[True, True, False, True], [False] * 4]


def test_a_diagonal_that_is_not_there():
    with pytest.raises(ValueError, match="not in a matrix of 2 rows"):
        raw.MatrixDiagPartV3(input=np.ones((2, 2)), k=2, padding_value=0.0)
    k = hf.placeholder(hf.int32)
    part = raw.MatrixDiagPartV3(input=np.ones((2, 2)), k=k, padding_value=np.float64(0))
    with hf.Session() as session:
        for bad in (5, [1, 0]):
            with pytest.raises(hf.errors.InvalidArgumentError, match=r"diagonal 5|ascending"):
                session.run(part, {k: bad})


# ---------------------------------------------------------------- images


def test_resizing_by_the_centres_of_pixels():
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1)
    size = np.array([1, 8], np.int32)
    smooth = run(raw.ResizeBilinear(images=x, size=size, half_pixel_centers=True))
    np.testing.assert_allclose(smooth.ravel(), [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3])
    near = run(raw.ResizeNearestNeighbor(images=x, size=np.array([1, 2], np.int32),
                                         half_pixel_centers=True))
    assert near.ravel().tolist() == [1, 3]
    cubic = run(raw.ResizeBicubic(images=x * 0 + 1, size=size, half_pixel_centers=True))
    np.testing.assert_allclose(cubic, 1, rtol=1e-6)
    for op in (raw.ResizeBilinear, raw.ResizeBicubic):
        gradcheck.check_gradient(
            lambda v: hf.cast(op(images=v, size=[3, 5], half_pixel_centers=True), hf.float64),
            rng.normal(size=(1, 2, 4, 2)), delta=1e-2, tolerance=1e-2, forms=["static"])


def test_the_centres_of_pixels_are_written_only_if_they_matter():
    x = np.ones((1, 2, 2, 1), np.float32)
    plain = raw.ResizeBilinear(images=x, size=[3, 3])
    centred = raw.ResizeBilinear(images=x, size=[3, 3], half_pixel_centers=True)
    assert "half_pixel_centers" not in plain.op.node_def.attr
    assert centred.op.node_def.attr["half_pixel_centers"].b
    turned = hf.contrib.image.transform(x, [1.0, 0, 1, 0, 1, 0, 0, 0])
    assert "fill_mode" not in str(hf.get_default_graph().as_graph_def()) and turned is not None
    with pytest.raises(hf.errors.InvalidArgumentError, match="align_corners must be False"):
        run(raw.ResizeBilinear(images=x, size=[3, 3], align_corners=True, half_pixel_centers=True))


BOXES = np.array([[0, 0, 2, 2], [0, 0, 2, 1.9], [0, 1, 2, 3], [5, 5, 6, 6]], np.float32)
SCORES = np.array([0.5, 0.9, 0.8, 0.1], np.float32)


def test_selected_boxes():
    third = raw.NonMaxSuppressionV3(boxes=BOXES, scores=SCORES, max_output_size=4,
                                    iou_threshold=0.5, score_threshold=0.2)
    assert run(third).tolist() == [1, 2]
    found, count = run(*raw.NonMaxSuppressionV4(
        boxes=BOXES, scores=SCORES, max_output_size=4, iou_threshold=0.5, score_threshold=0.0,
        pad_to_max_output_size=True))
    assert found.tolist() == [1, 2, 3, 0] and count == 3
    found, scores, count = run(*raw.NonMaxSuppressionV5(
        boxes=BOXES, scores=SCORES, max_output_size=3, iou_threshold=1.0, score_threshold=0.0,
        soft_nms_sigma=0.5))
    assert found[0] == 1 and count == 3 and scores[0] == SCORES[1] and scores[1] < SCORES[2]
    with pytest.raises(hf.errors.InvalidArgumentError, match="iou_threshold must be in"):
        run(raw.NonMaxSuppressionV2(boxes=BOXES, scores=SCORES, max_output_size=4,
                                    iou_threshold=1.5))


def test_boxes_selected_from_all_classes():
    boxes, scores = BOXES[None, :, None], np.stack([SCORES, SCORES[::-1]], -1)[None]
    found, values, classes, counts = run(*raw.CombinedNonMaxSuppression(
        boxes=boxes, scores=scores, max_output_size_per_class=2, max_total_size=5,
        iou_threshold=0.5, score_threshold=0.2, clip_boxes=False))
    assert counts.tolist() == [4]
    assert (np.diff(values[0, :4]) <= 0).all() and values[0, 4] == 0
    assert found.shape == (1, 5, 4) and sorted(classes[0, :4]) == [0, 0, 1, 1]


# ---------------------------------------------------------------- tables


def test_tables_by_resource_handle():
    handle = raw.HashTableV2(key_dtype=hf.string, value_dtype=hf.int64, shared_name="words")
    found = raw.LookupTableFindV2(table_handle=handle, keys=["b", "x"],
                                  default_value=np.int64(-1))
    assert found.shape.as_list() == [2]
    fill = raw.LookupTableImportV2(table_handle=handle, keys=["a", "b"],
                                   values=np.array([1, 2]))
    with hf.Session() as session:
        with pytest.raises(hf.errors.FailedPreconditionError, match="not initialized"):
            session.run(found)
        session.run(fill)
        assert session.run(found).tolist() == [2, -1]
        assert session.run(raw.LookupTableSizeV2(table_handle=handle)) == 2


# ---------------------------------------------------------------- others


def test_forms_that_older_types_compute():
    x = rng.normal(size=(3, 4))
    norm, = imported("EuclideanNorm", x, np.array([1], np.int32), T=hf.float64, Tidx=hf.int32,
                     keep_dims=True)
    np.testing.assert_allclose(run(norm), np.linalg.norm(x, axis=1, keepdims=True))
    z = x + 1j * x[::-1]
    np.testing.assert_allclose(run(*imported("Angle", z, T=hf.complex128, Tout=hf.float64)),
                               np.angle(z))
    places, = imported("UnravelIndex", np.array([5, 11]), np.array([3, 4]), Tidx=hf.int64)
    assert run(places).tolist() == [[1, 2], [1, 3]]
    ids = [np.array(v, np.int32) for v in ([0, 2, 1], [0, 0, 2])]
    for kind, first in (("Sum", x[0] + x[2]), ("Mean", (x[0] + x[2]) / 2),
                        ("SqrtN", (x[0] + x[2]) / np.sqrt(2))):
        found, = imported(f"SparseSegment{kind}WithNumSegments", x, *ids, np.int32(4),
                          T=hf.float64, Tidx=hf.int32)
        np.testing.assert_allclose(run(found), [first, 0 * x[0], x[1], 0 * x[0]])


def test_a_switch_of_many_outputs():
    index = hf.placeholder(hf.int32, [])
    definition = hf.GraphDef()
    definition.node.add(name="it", op="_SwitchN", input=["data", "index"])
    definition.node.add(name="taken", op="Merge", input=["it", "it:1", "it:2"])
    for node, attrs in zip(definition.node, ("num_outs", "N"), strict=True):
        node.attr["T"].type = hf.float32.as_datatype_enum
        node.attr[attrs].i = 3
    value, which = hf.import_graph_def(
        definition, {"data": hf.constant(7.0), "index": index}, ["taken:0", "taken:1"])
    with hf.Session() as session:
        for number, taken in ((0, 0), (1, 1), (2, 2), (9, 2), (-1, 2)):
            assert session.run([value, which], {index: number}) == [7.0, taken]


def test_variables_are_not_guaranteed_to_be_constant():
    v = hf.get_variable("v", [], use_resource=True)
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError,
                                                match="cannot be a resource variable"):
        session.run(raw.GuaranteeConst(input=v.handle))
