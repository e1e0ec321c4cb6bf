"""Functions of later releases and of contrib, beside what the reference has for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios import raw, scenario


def _images() -> np.ndarray:
    return np.random.default_rng(4).normal(size=(3, 6, 5, 2)).astype(np.float32)


@scenario
def projective_transforms(tf: Any, session: Any) -> list:
    """contrib.image.transform, an op in the reference."""
    images = _images()
    flat = np.float32([[1, 0.1, -0.5, -0.2, 0.9, 1, 0, 0], [0.7, 0, 0.3, 0.1, 1.2, 0, 0.01, 0.02],
                       [-1, 0, 4, 0, 1, -2, 0, 0]])
    made = []
    for kind in ("NEAREST", "BILINEAR"):
        for size in ([6, 5], [4, 7]):
            if tf.__name__ == "hpcflow":
                made.append(tf.contrib.image.transform(images, flat, kind, size))
            else:
                made.append(raw(tf)("ImageProjectiveTransformV2", images=images, transforms=flat,
                                    output_shape=size, interpolation=kind))
    return session.run(made)


@scenario
def bins_of_histograms(tf: Any, session: Any) -> list:
    values = [-1.0, 0.0, 1.5, 2.0, 5.0, 15.0]
    return session.run([tf.histogram_fixed_width_bins(values, [0.0, 5.0], 5),
                        tf.histogram_fixed_width_bins([values], [-1.0, 20.0], 4, tf.int64)])


@scenario
def critical_sections(tf: Any, session: Any) -> list:
    section = tf.CriticalSection(name="cs")
    v = tf.Variable(1.0, use_resource=True)

    def double() -> Any:
        return v.assign(v.read_value() * 2.0).read_value() if tf.__name__ != "hpcflow" else \
            tf.identity(v.assign(v.read_value() * 2.0))

    first = section.execute(double)
    with tf.control_dependencies([first]):
        second = section.execute(double)
    session.run(tf.global_variables_initializer())
    return [session.run([first, second]), session.run(v.read_value())]
