"""Programs of summaries and of candidate samplers."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import _outcome, raw, scenario

_SAMPLED, _RANGE = 4000, 12

_SAMPLERS: dict[str, dict] = {
    "UniformCandidateSampler": {"range_max": _RANGE},
    "LogUniformCandidateSampler": {"range_max": _RANGE},
    "LearnedUnigramCandidateSampler": {"range_max": _RANGE},
    "ThreadUnsafeUnigramCandidateSampler": {"range_max": _RANGE},
    "FixedUnigramCandidateSampler": {
        "range_max": _RANGE, "unigrams": [float(i + 1) for i in range(_RANGE - 2)],
        "distortion": 0.5, "num_reserved_ids": 2},
}


@scenario
def samplers(tf: Any, session: Any) -> list:
    """What is expected of a class equals the reference's, and is how often it is drawn."""
    add, values = raw(tf), []
    for op, options in _SAMPLERS.items():
        if op == "FixedUnigramCandidateSampler":
            options = {**options, "vocab_file": "", "num_shards": 1, "shard": 0}
        true = tf.constant(np.arange(_RANGE).reshape(6, 2), tf.int64)
        outputs = add(op, true_classes=true, num_true=2, num_sampled=_SAMPLED, unique=False,
                      seed=3, seed2=5, **options)
        drawn, expected, of_drawn = session.run(list(outputs))
        counts = np.bincount(drawn, minlength=_RANGE)
        per_class = expected.ravel()
        wrong = np.abs(counts - per_class) > 6 * np.sqrt(per_class + 1)
        same = np.abs(of_drawn - per_class[drawn]) <= 1e-3 * per_class[drawn]
        # The learned samplers learn the classes of this step before or after they draw.
        learned = "Unigram" in op and "Fixed" not in op
        values += [op, len(drawn), np.zeros(0) if learned else expected,
                   bool(learned or not wrong.any()), bool(learned or same.all())]
        unique = add(op, true_classes=true, num_true=2, num_sampled=_RANGE - 2, unique=True,
                     seed=3, seed2=5, **options)
        drawn = session.run(unique[0])
        values += [len(set(drawn.tolist())), _outcome(session, add(
            op, true_classes=tf.placeholder_with_default(np.int64([[1, 2]]), None), num_true=1,
            num_sampled=3, unique=False, seed=1, seed2=1, **options)[0])]
    for count in (5, _RANGE):
        found = _outcome(session, list(add("AllCandidateSampler", true_classes=true, num_true=2,
                                           num_sampled=count, unique=True)))
        values += [found] if isinstance(found, str) else [np.sort(found[0]), *found[1:]]
    hits = add("ComputeAccidentalHits", true_classes=tf.constant([[1, 2], [3, 1]], tf.int64),
               sampled_candidates=tf.constant([3, 1, 1, 7], tf.int64), num_true=2)
    rows, ids, weights = session.run(list(hits))
    order = np.lexsort((ids, rows))
    return [*values, rows[order], ids[order], weights[order]]


@scenario
def media_summaries(tf: Any, session: Any) -> list:
    add, values = raw(tf), []
    pictures = np.linspace(-1, 1, 2 * 3 * 4).reshape(2, 3, 4, 1).astype(np.float32)
    for images in (pictures, np.abs(pictures), (pictures * 100 + 120).astype(np.uint8),
                   np.concatenate([pictures] * 3, 3), np.where(pictures > 0.9, np.nan, pictures)):
        text = add("ImageSummary", tag=tf.constant("pictures"), tensor=tf.constant(images),
                   max_images=2)
        for value in _summary(tf, session.run(text)).value:
            image = value.image
            pixels = session.run(tf.image.decode_png(image.encoded_image_string))
            values += [value.tag, image.height, image.width, image.colorspace, pixels]
    sound = np.sin(np.arange(40, dtype=np.float32)).reshape(2, 10, 2)
    for tensor in (sound, sound[:, :, 0], sound[:1] * 2):
        text = add("AudioSummaryV2", tag=tf.constant("sound"), tensor=tf.constant(tensor),
                   sample_rate=tf.constant(44100.0), max_outputs=3)
        for value in _summary(tf, session.run(text)).value:
            audio = value.audio
            values += [value.tag, audio.sample_rate, audio.num_channels, audio.length_frames,
                       audio.content_type, audio.encoded_audio_string]
    for bad in (np.zeros((2, 3), np.float32), np.zeros((1, 2, 2, 2), np.float32)):
        values.append(_outcome(session, add(
            "ImageSummary", tag=tf.constant("x"), tensor=tf.placeholder_with_default(bad, None))))
    values.append(_outcome(session, add(
        "AudioSummaryV2", tag=tf.constant("x"), sample_rate=tf.constant(1.0),
        tensor=tf.placeholder_with_default(np.float32(1), None))))
    return values


@scenario
def audio_of_fixed_rate(tf: Any, session: Any) -> list:
    """The first form, which has the rate as an attribute; the reference refuses it now."""
    add, ours = raw(tf), tf.__name__ == "hpcflow"
    sound = np.cos(np.arange(20, dtype=np.float32)).reshape(1, 20)
    inputs = {"tag": tf.constant("sound"), "tensor": tf.constant(sound)}
    text = add("AudioSummary", sample_rate=8000.0, **inputs) if ours else add(
        "AudioSummaryV2", sample_rate=tf.constant(8000.0), **inputs)
    audio = _summary(tf, session.run(text)).value[0].audio
    return [audio.sample_rate, audio.length_frames, audio.encoded_audio_string]


@scenario
def tensor_summaries(tf: Any, session: Any) -> list:
    add, values = raw(tf), []
    x = tf.constant([[1.0, 2.0]])
    for text in (add("TensorSummary", tensor=x, description="d", labels=["a"], display_name="n"),
                 add("TensorSummaryV2", tag=tf.constant("t"), tensor=x,
                     serialized_summary_metadata=tf.constant(b""))):
        value = _summary(tf, session.run(text)).value[0]
        shape = [d.size for d in value.tensor.tensor_shape.dim]
        values += [value.tensor.dtype, shape, value.tensor.tensor_content
                   or np.array(value.tensor.float_val, np.float32).tobytes()]
    return values


def _summary(tf: Any, data: bytes) -> Any:
    message = tf.Summary()
    message.ParseFromString(data)
    return message
