"""Functions of the later modules of 1.x: signal, linalg, image, strings, random."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import scenario


def _numbers(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# ---------------------------------------------------------------- signals


@scenario
def windows(tf: Any, session: Any) -> list:
    made = []
    for size in (1, 2, 7, 16):
        for periodic in (True, False):
            made += [tf.signal.hann_window(size, periodic), tf.signal.hamming_window(
                size, periodic, tf.float64)]
        made += [tf.signal.vorbis_window(size), tf.signal.kaiser_window(size, 5.0)]
    made.append(tf.signal.kaiser_bessel_derived_window(16, dtype=tf.float64))
    return session.run(made)


@scenario
def frames_of_signals(tf: Any, session: Any) -> list:
    x = tf.constant(_numbers(2, 19, 3), tf.float32)
    made = [tf.signal.frame(x, 5, 3, axis=1), tf.signal.frame(x, 5, 3, True, 7.0, axis=-2),
            tf.signal.frame(x, 30, 3, axis=1), tf.signal.overlap_and_add(x, 2),
            tf.gradients(tf.signal.overlap_and_add(x, 2) ** 2, x)[0]]
    y = tf.placeholder(tf.float32, [2, None])
    made.append(tf.signal.frame(y, tf.constant(4), tf.constant(6), pad_end=True))
    return session.run(made, {y: _numbers(2, 11)})


@scenario
def spectrograms(tf: Any, session: Any) -> list:
    x = tf.constant(_numbers(2, 60), tf.float32)
    spectra = tf.signal.stft(x, 16, 4)
    window = tf.signal.inverse_stft_window_fn(4)
    back = tf.signal.inverse_stft(spectra, 16, 4, window_fn=window)
    plain = tf.signal.stft(x, 12, 5, 20, window_fn=None, pad_end=True)
    return session.run([spectra, back, plain, tf.signal.inverse_stft(plain, 24, 5, 20),
                        tf.signal.stft(x, 1, 5, 3),
                        tf.gradients(tf.abs(spectra) ** 2, x)[0]])


@scenario
def cosine_transforms(tf: Any, session: Any) -> list:
    made = []
    for dtype in (tf.float32, tf.float64):
        x = tf.constant(_numbers(2, 3, 8), dtype)
        for kind in (1, 2, 3, 4):
            for norm in (None, "ortho")[:1 if kind == 1 else 2]:
                y = tf.signal.dct(x, kind, norm=norm)
                made += [y, tf.signal.idct(y, kind, norm=norm), tf.gradients(y * y, x)[0]]
        made += [tf.signal.dct(x, n=5), tf.signal.dct(x, type=3, n=11)]
        for norm in (None, "ortho"):
            long = tf.constant(_numbers(2, 40), dtype)
            made += [tf.signal.mdct(long, 16, norm=norm),
                     tf.signal.inverse_mdct(tf.signal.mdct(long, 16, norm=norm), norm=norm)]
    return session.run(made)


@scenario
def mel_spectra(tf: Any, session: Any) -> list:
    # Differences of nearly equal pitches: the last digits of single precision, not of double.
    return session.run([
        tf.cast(tf.signal.linear_to_mel_weight_matrix(dtype=tf.float64), tf.float32),
        tf.cast(tf.signal.linear_to_mel_weight_matrix(10, 33, 16000, 80.0, 7600.0, tf.float64),
                tf.float32),
        tf.signal.mfccs_from_log_mel_spectrograms(tf.constant(_numbers(2, 3, 16), tf.float32)),
        tf.signal.fftshift(tf.range(7)), tf.signal.ifftshift(tf.reshape(tf.range(12), [3, 4])),
        tf.signal.fftshift(tf.reshape(tf.range(12), [3, 4]), axes=[-1])])


# ---------------------------------------------------------------- special functions


@scenario
def derivatives_of_gamma_samples(tf: Any, session: Any) -> list:
    alpha = tf.constant([0.3, 1.0, 4.0, 30.0], tf.float64)
    x = tf.constant([0.2, 3.0, 3.5, 25.0], tf.float64)
    return session.run([*tf.gradients(tf.math.igamma(alpha, x), [alpha, x]),
                        *tf.gradients(tf.math.igammac(alpha, x), [alpha, x])])


# ---------------------------------------------------------------- images


def _images(*shape: int) -> np.ndarray:
    return np.random.default_rng(8).uniform(size=shape)


@scenario
def colour_signals(tf: Any, session: Any) -> list:
    x = tf.constant(_images(2, 4, 3, 3), tf.float32)
    return session.run([f(x) for f in (tf.image.rgb_to_yiq, tf.image.yiq_to_rgb,
                                       tf.image.rgb_to_yuv, tf.image.yuv_to_rgb)])


@scenario
def edges_of_images(tf: Any, session: Any) -> list:
    x = tf.constant(_images(2, 6, 5, 3), tf.float32)
    dy, dx = tf.image.image_gradients(x)
    return session.run([tf.image.sobel_edges(x), dy, dx,
                        tf.gradients(tf.image.sobel_edges(x) ** 2, x)[0]])


@scenario
def qualities_of_images(tf: Any, session: Any) -> list:
    a, b = (tf.constant(_images(2, 3, 32, 30, 3)[:, i], tf.float64) for i in (0, 2))
    near = a + 0.1 * b
    whole = [tf.cast(230 * x, tf.uint8) for x in (a, near)]
    unknown = tf.placeholder(tf.float32, [None, None, None, 3])
    feed = {unknown: _images(2, 17, 15, 3)}
    made = [tf.image.psnr(a, near, 1.0), tf.image.psnr(*whole, 255), tf.image.ssim(a, near, 1.0),
            tf.image.ssim(*whole, 255, filter_size=7, filter_sigma=1.2, k1=0.02, k2=0.05),
            tf.image.ssim_multiscale(a, near, 1.0, (0.3, 0.3, 0.4), filter_size=5),
            tf.image.ssim(unknown, unknown * 0.5, 1.0)]
    return session.run(made, feed)


@scenario
def sizes_of_images(tf: Any, session: Any) -> list:
    x = tf.constant(_images(2, 9, 5, 3), tf.float32)
    return session.run([tf.image.resize_image_with_pad(x, 6, 7),
                        tf.image.resize_image_with_pad(x[0], 20, 8, method=1),
                        tf.image.extract_patches(x, [1, 2, 2, 1], [1, 3, 2, 1], [1, 1, 1, 1],
                                                 "SAME")])


@scenario
def boxes_of_images(tf: Any, session: Any) -> list:
    corners = _images(12, 4)
    corners[:, 2:] += corners[:, :2]
    boxes = tf.constant(corners, tf.float32)
    scores = tf.constant(_images(12), tf.float32)
    overlaps = tf.constant(_images(12, 12), tf.float32)
    image = tf.constant(_images(1, 9, 9, 3), tf.float32)
    return session.run([
        *tf.image.non_max_suppression_with_scores(boxes, scores, 5, 0.3, 0.1, 0.4),
        *tf.image.non_max_suppression_padded(boxes, scores, 10, 0.2, 0.3, True),
        tf.image.non_max_suppression_overlaps(overlaps, scores, 6, 0.6, 0.2),
        tf.image.draw_bounding_boxes(image, boxes[None, :3], colors=[[1.0, 0.5, 0.2],
                                                                     [0.0, 0.5, 1.0]])])


@scenario
def files_of_images(tf: Any, session: Any) -> list:
    smooth = np.add.outer(np.arange(24), 3 * np.arange(20))[..., None] + np.arange(3) * 30
    image = tf.constant(smooth, tf.uint8)
    jpeg = tf.image.encode_jpeg(image, quality=95)
    grey = tf.image.encode_jpeg(image[..., :1])
    rows = b"".join(bytes([10 * i + j for j in range(6)]) + b"\0\0" for i in range(2))
    head = (b"BM" + (54 + len(rows)).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
            + (40).to_bytes(4, "little") + (2).to_bytes(4, "little") + (2).to_bytes(4, "little")
            + (1).to_bytes(2, "little") + (24).to_bytes(2, "little") + bytes(4)
            + len(rows).to_bytes(4, "little") + bytes(16))
    return session.run([
        tf.image.is_jpeg(jpeg), tf.image.is_jpeg(b"GIF89a"), tf.image.extract_jpeg_shape(jpeg),
        tf.image.extract_jpeg_shape(grey, tf.int64), tf.image.decode_bmp(head + rows),
        tf.shape(tf.image.decode_and_crop_jpeg(jpeg, [2, 3, 8, 5])),
        tf.shape(tf.image.adjust_jpeg_quality(image, 50))])


# ---------------------------------------------------------------- matrices


@scenario
def triangles_of_matrices(tf: Any, session: Any) -> list:
    x = tf.constant(_numbers(2, 3, 4, 4), tf.float64)
    both, order = tf.linalg.lu(x)
    rhs = tf.constant(_numbers(2, 3, 4, 2), tf.float64)
    return session.run([
        both, order, tf.linalg.lu_solve(both, order, rhs), tf.linalg.lu_reconstruct(both, order),
        tf.linalg.lu_matrix_inverse(both, order),
        *tf.linalg.lu(tf.complex(x[0], x[1]), tf.int64)])


@scenario
def functions_of_matrices(tf: Any, session: Any) -> list:
    x = tf.constant(_numbers(3, 4, 4) * np.array([0.2, 1, 9])[:, None, None], tf.float64)
    positive = tf.matmul(x, x, transpose_b=True) + tf.eye(4, dtype=tf.float64)
    return session.run([
        tf.linalg.expm(x), tf.gradients(tf.linalg.expm(x[:2]), x)[0],
        tf.linalg.expm(tf.constant(_numbers(2, 2), tf.float32)),
        tf.linalg.sqrtm(positive), tf.gradients(tf.linalg.sqrtm(positive) ** 2, x)[0]])


@scenario
def singular_matrices(tf: Any, session: Any) -> list:
    thin = _numbers(2, 5, 2)
    x = tf.constant(np.matmul(thin, _numbers(2, 2, 4, seed=5)), tf.float64)
    unit, size = tf.linalg.normalize(x, axis=1)
    return session.run([
        tf.linalg.pinv(x), tf.linalg.pinv(tf.constant(thin, tf.float32), 0.3),
        tf.linalg.matrix_rank(x), tf.linalg.matrix_rank(x, 2.0), unit, size,
        tf.linalg.matvec(x, tf.constant(_numbers(2, 4), tf.float64)),
        tf.linalg.matvec(x, tf.constant(_numbers(2, 5), tf.float64), transpose_a=True)])


# ---------------------------------------------------------------- strings, bits, random numbers


@scenario
def parts_of_strings(tf: Any, session: Any) -> list:
    words = tf.constant([b"a b  c", b"", b"d-e-f"])
    found = [tf.strings.split(words, result_type="SparseTensor"),
             tf.strings.split(words, "-", 1, "SparseTensor"),
             tf.strings.split(words[0], result_type="SparseTensor")]
    return session.run([
        *(part for x in found for part in (x.indices, x.values, x.dense_shape)),
        tf.strings.format("<{}|{}>", [tf.range(9), tf.constant([[1.5, 2.0]])]),
        tf.strings.format("$", words, "$", summarize=1),
        tf.strings.unicode_transcode(words, "UTF-8", "UTF-16-BE"), tf.strings.strip(words),
        tf.strings.unsorted_segment_join(words, [1, 0, 1], 3, "+")])


@scenario
def numbers_of_seeds(tf: Any, session: Any) -> list:
    seed, limits = tf.constant([3, 9]), np.array([2.0, 5.0])
    return session.run([
        tf.random.stateless_uniform([2, 3], seed), tf.random.stateless_uniform([5], [1, 2], -3, 7),
        tf.random.stateless_uniform([3, 2], seed, limits, 8, tf.float64),
        tf.random.stateless_uniform([6], seed, 3, 90, tf.int32),
        tf.random.stateless_uniform([4], seed, None, None, tf.int64),
        tf.random.stateless_normal([], seed), tf.random.stateless_normal([7], seed, 2.0, 0.5),
        tf.random.stateless_truncated_normal([40], seed, -1.0, 3.0, tf.float64)])


@scenario
def bits_and_sets(tf: Any, session: Any) -> list:
    x, y = tf.constant([12, 5, -7]), tf.constant([10, 1, 3])
    a, b = tf.constant([[1, 2, 2], [3, 4, 9]]), tf.constant([[2, 5, 1], [9, 9, 0]])
    sets = [tf.sets.intersection(a, b), tf.sets.difference(a, b), tf.sets.union(a, b)]
    return session.run([
        *(f(x, y) for f in (tf.bitwise.bitwise_and, tf.bitwise.bitwise_or, tf.bitwise.bitwise_xor,
                            tf.bitwise.left_shift, tf.bitwise.right_shift)),
        tf.bitwise.invert(x), *(part for s in sets for part in (s.indices, s.values)),
        tf.sets.size(sets[0]), tf.dtypes.cast(x, tf.float32), tf.dtypes.as_string(x)])
