"""Summary operations: the protobufs they make."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.raw import raw_ops
from hpcflow.kernels.io import encoding


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def made(session, summary):
    return hf.Summary.FromString(session.run(summary))


def only(session, summary):
    (value,) = made(session, summary).value
    return value


# ---------------------------------------------------------------- names and collections


def test_names_and_tags(session):
    with hf.name_scope("outer"):
        summary = hf.summary.scalar("a b/c?", 1.5)
        again = hf.summary.scalar("a b/c?", 2.5)
    assert summary.op.name == "outer/a_b/c_"
    assert only(session, summary).tag == "outer/a_b/c_"
    assert only(session, again).tag == "outer/a_b/c__1"
    assert hf.summary.histogram("/h", [1.0]).op.name == "h"
    assert summary.shape.as_list() == []


def test_collections(session):
    assert hf.summary.merge_all() is None
    a = hf.summary.scalar("a", 1.0)
    b = hf.summary.histogram("b", [1.0], collections=["mine"])
    c = hf.summary.scalar("c", 1.0, collections=[])
    assert hf.get_collection(hf.GraphKeys.SUMMARIES) == [a]
    assert hf.get_collection("mine") == [b]
    merged = hf.summary.merge_all()
    assert merged.op.inputs == [a]
    assert hf.summary.merge_all("mine").op.inputs == [b]
    both = hf.summary.merge([a, c], collections=["mine"])
    assert hf.get_collection("mine") == [b, both]
    assert [v.tag for v in made(session, both).value] == ["a", "c"]


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64",
                                   "uint8", "uint16"])  # fmt: skip
def test_scalars(session, dtype):
    value = only(session, hf.summary.scalar("x", hf.constant(3, dtype)))
    assert (value.tag, value.simple_value) == ("x", 3.0)


def test_several_scalars_in_one(session):
    summary = raw_ops.ScalarSummary(tags=["a", "b"], values=[1.0, 2.0])
    assert [(v.tag, v.simple_value) for v in made(session, summary).value] == [("a", 1), ("b", 2)]
    tags = hf.placeholder(hf.string)
    values = hf.placeholder(hf.float32)
    summary = raw_ops.ScalarSummary(tags=tags, values=values)
    assert hf.Summary.FromString(session.run(summary, {tags: "t", values: 2.0})).value[0].tag == "t"
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"same shape: \[2\] != \[1\]"):
        session.run(summary, {tags: ["a", "b"], values: [1.0]})
    unfit = raw_ops.ScalarSummary(tags="a", values=[1.0, 2.0])  # a step refuses it
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"same shape: \[\] != \[2\]"):
        session.run(unfit)
    with pytest.raises(TypeError, match="not in list of allowed"):
        hf.summary.scalar("s", hf.constant("text"))


def test_histogram(session):
    histo = only(session, hf.summary.histogram("h", [1.0, 2.0, -1.0, 0.0, 1e-20, 5e20])).histo
    np.testing.assert_allclose(histo.bucket_limit, [
        -1.0089710279437536, -0.917246389039776, 0, 1e-12, 0.917246389039776, 1.0089710279437536,
        1.9661990955585713, 2.1628190051144287, 9.9207756218597835e19, 1.7976931348623157e308])
    assert list(histo.bucket) == [0, 1, 0, 2, 0, 1, 0, 1, 0, 1]
    assert (histo.min, histo.num) == (-1, 6)
    assert histo.max == pytest.approx(5e20)
    assert histo.sum_squares == pytest.approx(2.5e41)


@pytest.mark.parametrize("values", [np.arange(3), np.ones((2, 3), np.float16), np.uint8(7)])
def test_histograms_count_everything(session, values):
    histo = only(session, hf.summary.histogram("h", values)).histo
    assert histo.num == np.size(values) == sum(histo.bucket)
    assert histo.sum == np.sum(values)


def test_an_empty_histogram(session):
    histo = only(session, hf.summary.histogram("h", np.zeros(0, np.float32))).histo
    largest = np.finfo(np.float64).max
    assert (histo.min, histo.max, histo.num) == (largest, -largest, 0)
    assert (list(histo.bucket_limit), list(histo.bucket)) == ([largest], [0])


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "Nan"), (np.inf, "Infinity")])
def test_a_histogram_of_what_is_not_finite(session, bad, word):
    summary = hf.summary.histogram("h", [1.0, bad])
    with pytest.raises(hf.errors.InvalidArgumentError, match=f"{word} in summary histogram for: h"):
        session.run(summary)


# ---------------------------------------------------------------- images


def pixels_of(value):
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(value.image.encoded_image_string))
    array = np.asarray(image)
    return array.reshape(value.image.height, value.image.width, value.image.colorspace)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_of_bytes_stay_as_they_are(session, channels):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 4, 3, channels), dtype=np.uint8)
    values = made(session, hf.summary.image("i", images, max_outputs=2)).value
    assert [v.tag for v in values] == ["i/image/0", "i/image/1"]
    for value, image in zip(values, images[:2], strict=True):
        assert (value.image.height, value.image.width) == (4, 3)
        np.testing.assert_array_equal(pixels_of(value), image)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (np.linspace(0, 1, 12).reshape(2, 2, 3),
         [[[0, 23, 46], [69, 92, 115]], [[139, 162, 185], [208, 231, 255]]]),
        (np.linspace(-1, 2, 12).reshape(2, 2, 3),
         [[[64, 81, 99], [116, 133, 151]], [[168, 185, 203], [220, 237, 255]]]),
        (np.array([0, 0.5, np.nan, 3, 1, 1]).reshape(1, 2, 3), [[[255, 0, 0], [255, 85, 85]]]),
        (np.full((1, 2, 1), np.nan), [[[255], [255]]]),
        (np.zeros((1, 2, 1)), [[[0], [0]]]),
        (np.full((1, 1, 1), -1.0), [[[1]]]),
    ],
)  # fmt: skip
def test_float_images_are_scaled(session, image, expected):
    summary = hf.summary.image("i", image[None].astype(np.float32), max_outputs=1)
    value = only(session, summary)
    assert value.tag == "i/image"
    assert pixels_of(value).tolist() == expected


def test_wrong_images(session):
    unfit = hf.summary.image("i", np.zeros((1, 2, 2, 2), np.float32))  # a step refuses it
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"not \[1,2,2,2\]"):
        session.run(unfit)
    with pytest.raises(hf.errors.InvalidArgumentError, match="tags must be scalar"):
        session.run(raw_ops.HistogramSummary(tag=["a"], values=[1.0]))
    with pytest.raises(TypeError):
        hf.summary.image("i", hf.zeros([1, 2, 2, 3], hf.int64))
    fed = hf.placeholder(hf.float32)
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"Tensor must be 4-D .* \[2,2\]"):
        session.run(hf.summary.image("i", fed), {fed: np.zeros((2, 2))})
    assert made(session, hf.summary.image("none", np.zeros((0, 2, 2, 3), np.uint8))).value == []


def test_png_of_gray_with_alpha():
    image = pytest.importorskip("PIL.Image").open(
        io.BytesIO(encoding.png(np.arange(12, dtype=np.uint8).reshape(2, 3, 2))))
    assert image.mode == "LA"
    assert np.asarray(image).reshape(-1).tolist() == list(range(12))


# ---------------------------------------------------------------- audio, tensors, text


def test_audio(session):
    samples = np.array([[-1.0, -0.5, 0.0, 0.5, 1.0, 2.0]], np.float32)
    value = only(session, hf.summary.audio("a", samples, 8000, max_outputs=1))
    assert value.tag == "a/audio"
    assert (value.audio.sample_rate, value.audio.num_channels) == (8000, 1)
    assert (value.audio.length_frames, value.audio.content_type) == (6, "audio/wav")
    with wave.open(io.BytesIO(value.audio.encoded_audio_string)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
        frames = np.frombuffer(file.readframes(10), "<i2")
    assert frames.tolist() == [-32768, -16384, 0, 16384, 32767, 32767]


def test_audio_of_several_channels(session):
    samples = np.zeros((4, 5, 2), np.float32)
    rate = hf.placeholder(hf.float32, [])
    summary = hf.summary.audio("a", samples, rate)
    values = hf.Summary.FromString(session.run(summary, {rate: 100.0})).value
    assert [v.tag for v in values] == ["a/audio/0", "a/audio/1", "a/audio/2"]
    assert values[0].audio.num_channels == 2
    old = raw_ops.AudioSummary(tag="t", tensor=samples[..., 0], sample_rate=50.0, max_outputs=1)
    assert only(session, old).audio.sample_rate == 50
    flat = hf.summary.audio("b", np.zeros(3, np.float32), 10)
    with pytest.raises(hf.errors.InvalidArgumentError, match="3-D or 2-D"):
        session.run(flat)


def test_tensors(session):
    description = hf.summary.SummaryDescription(type_hint="a hint")
    summary = hf.summary.tensor_summary("t", [[1, 2]], description)
    value = only(session, summary)
    assert value.node_name == "t"
    from hpcflow.graph.tensor_proto import make_ndarray

    assert make_ndarray(value.tensor).tolist() == [[1, 2]]
    assert hf.summary.get_summary_description(summary.op.node_def) == description
    plain = hf.summary.tensor_summary("s", hf.constant([b"a"]))
    assert list(only(session, plain).tensor.string_val) == [b"a"]
    assert hf.summary.get_summary_description(plain.op.node_def).type_hint == ""
    with pytest.raises(ValueError, match="on ScalarSummary"):
        hf.summary.get_summary_description(hf.summary.scalar("x", 1.0).op.node_def)


def test_text(session):
    value = only(session, hf.summary.text("t", "some *text*"))
    assert value.metadata.plugin_data.plugin_name == "text"
    assert list(value.tensor.string_val) == [b"some *text*"]
    with pytest.raises(ValueError, match="to have dtype string, got int32"):
        hf.summary.text("t", [1])


# ---------------------------------------------------------------- merging


def test_merging(session):
    summaries = [hf.summary.scalar("a", 1.0), hf.summary.histogram("b", [1.0])]
    merged = made(session, hf.summary.merge(summaries))
    assert [v.WhichOneof("value") for v in merged.value] == ["simple_value", "histo"]


def test_summaries_of_any_shape_are_merged(session):
    one, two = hf.summary.scalar("a", 1.0), hf.summary.scalar("b", 2.0)
    several = [hf.stack([one, two]), [], hf.summary.scalar("c", 3.0)]
    merged = made(session, hf.summary.merge(several))
    assert [v.tag for v in merged.value] == ["a", "b", "c"]


def test_what_cannot_be_merged(session):
    twice = raw_ops.MergeSummary(inputs=[raw_ops.ScalarSummary(tags="a", values=1.0)] * 2)
    with pytest.raises(hf.errors.InvalidArgumentError, match="Duplicate tag a"):
        session.run(twice)
    with pytest.raises(hf.errors.InvalidArgumentError, match="Could not parse"):
        session.run(raw_ops.MergeSummary(inputs=["garbage"]))
    with pytest.raises(ValueError, match="minimum length 1"):
        hf.summary.merge([])


@pytest.mark.parametrize("build", [
    lambda: hf.summary.scalar("a b", 1.0, family="f"),
    lambda: hf.summary.histogram("a b", [1.0], family="f"),
    lambda: hf.summary.image("a b", np.zeros((1, 2, 2, 1), np.float32), family="f"),
    lambda: hf.summary.audio("a b", np.zeros((1, 4)), 8.0, family="f"),
    lambda: hf.summary.tensor_summary("a b", [1], family="f"),
])
def test_families(session, build):
    with hf.name_scope("outer"):
        summary = build()
    assert summary.op.name == "outer/f/a_b"
    value, = hf.Summary.FromString(session.run(summary)).value
    assert value.tag.split("/a_b")[0] == "f/outer/f"


def test_tensors_with_a_name_to_show(session):
    summary = hf.summary.tensor_summary("t", [1], display_name="shown")
    value, = hf.Summary.FromString(session.run(summary)).value
    assert value.metadata.display_name == "shown"
