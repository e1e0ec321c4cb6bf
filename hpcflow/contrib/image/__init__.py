"""``contrib.image``: images rotated, moved and seen from elsewhere; matches by distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.image.warping import (
    dense_image_warp,
    interpolate_spline,
    sparse_image_warp,
)

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

__all__ = ["angles_to_projective_transforms", "bipartite_match", "compose_transforms",
           "dense_image_warp", "flat_transforms_to_matrices", "interpolate_spline",
           "matrices_to_flat_transforms", "rotate", "sparse_image_warp", "transform", "translate",
           "translations_to_projective_transforms"]


def bipartite_match(distance_mat: TensorLike, num_valid_rows: TensorLike, top_k: int = -1,
                    name: str | None = "bipartite_match") -> Any:
    """Match rows and columns of a matrix of distances, those of the least distance first.

    Args:
        distance_mat: floats ``[rows, columns]``.
        num_valid_rows: how many rows, from the first on, are matched; all if negative. A scalar or
            one element.
        top_k: the most pairs; as many as there can be if not positive.
        name: of the operation.

    Returns:
        for each row its column, and for each column its row, int32; -1 for those without.

    Steps raise ``InvalidArgumentError`` for more valid rows than there are. Of pairs at one
    distance the first one in the order of rows is chosen.
    """
    return hf.raw_ops.BipartiteMatch(distance_mat, num_valid_rows, top_k=top_k, name=name)


def rotate(images: TensorLike, angles: TensorLike, interpolation: str = "NEAREST",
           name: str | None = None) -> Any:
    """Return images rotated counterclockwise around their centres; zeros where nothing was.

    Args:
        images: one image ``[rows, columns]``, ``[rows, columns, channels]``, or a batch.
        angles: radians, one or one for each image.
        interpolation: ``NEAREST`` or ``BILINEAR``.
        name: name scope.
    """
    with hf.name_scope(name, "rotate"):
        batch = _batch(images)
        height, width = (hf.cast(n, hf.float32) for n in hf.unstack(hf.shape(batch)[1:3], 2))
        flat = angles_to_projective_transforms(angles, height, width)
        return transform(images, flat, interpolation)


def translate(images: TensorLike, translations: Any, interpolation: str = "NEAREST",
              name: str | None = None) -> Any:
    """Return images moved by ``[dx, dy]`` pixels, one pair or one for each image."""
    with hf.name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations),
                         interpolation)


def angles_to_projective_transforms(angles: TensorLike, image_height: Any, image_width: Any,
                                    name: str | None = None) -> Any:
    """Return the transforms ``[images, 8]`` of rotations around the centres of images."""
    with hf.name_scope(name, "angles_to_projective_transforms"):
        angles = hf.convert_to_tensor(angles, hf.float32)
        if (angles.shape.ndims or 0) > 1:
            raise TypeError("Angles should have rank 0 or 1.")
        angles = hf.reshape(angles, [-1])
        cos, sin, zero = hf.cos(angles), hf.sin(angles), hf.zeros_like(angles)
        right, down = image_width - 1.0, image_height - 1.0
        x = (right - (cos * right - sin * down)) / 2.0
        y = (down - (sin * right + cos * down)) / 2.0
        return hf.stack([cos, -sin, x, sin, cos, y, zero, zero], 1)


def translations_to_projective_transforms(translations: TensorLike, name: str | None = None) -> Any:
    """Return the transforms ``[images, 8]`` of translations ``[images, 2]``, or of one."""
    with hf.name_scope(name, "translations_to_projective_transforms"):
        moves = hf.convert_to_tensor(translations, hf.float32)
        if moves.shape.ndims not in (None, 1, 2):
            raise TypeError("Translations should have rank 1 or 2.")
        moves = hf.reshape(moves, [-1, 2])
        x, y = hf.unstack(-moves, axis=1)
        one, zero = hf.ones_like(x), hf.zeros_like(x)
        return hf.stack([one, zero, x, zero, one, y, zero, zero], 1)


def transform(images: TensorLike, transforms: TensorLike, interpolation: str = "NEAREST",
              output_shape: TensorLike | None = None, name: str | None = None) -> Any:
    """Return images whose pixel (x, y) is that at ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)
    of the input, k = c0 x + c1 y + 1; 0 where that lies outside.

    Args:
        images: one image ``[rows, columns]``, ``[rows, columns, channels]``, or a batch.
        transforms: ``[a0, a1, a2, b0, b1, b2, c0, c1]``, one or one for each image.
        interpolation: ``NEAREST`` or ``BILINEAR``.
        output_shape: rows and columns of the result; those of the images if None.
        name: name scope.

    Raises ``ValueError`` for another interpolation and for transforms without a known rank,
    ``TypeError`` for ranks that do not fit and images without a known one.
    """
    if interpolation not in ("NEAREST", "BILINEAR"):
        raise ValueError(f"interpolation must be NEAREST or BILINEAR, got {interpolation!r}")
    with hf.name_scope(name, "transform"):
        given, batch = hf.convert_to_tensor(images), _batch(images)
        flat = hf.convert_to_tensor(transforms, hf.float32)
        if flat.shape.ndims is None:
            raise ValueError("The rank of transforms must be statically known")
        if flat.shape.ndims not in (1, 2):
            raise TypeError(f"Transforms should have rank 1 or 2, but got rank {flat.shape.ndims}")
        flat = hf.reshape(flat, [-1, 8])
        size = hf.shape(batch)[1:3] if output_shape is None else hf.convert_to_tensor(
            output_shape, hf.int32)
        result = hf.raw_ops.ImageProjectiveTransformV2(batch, flat, size,
                                                       interpolation=interpolation)
        if output_shape is None:
            result.set_shape(batch.shape)
        rank = given.shape.ndims
        if rank == 2:
            return result[0, :, :, 0]
        return result[0] if rank == 3 else result


def _batch(images: Any) -> Any:
    images = hf.convert_to_tensor(images)
    rank = images.shape.ndims
    if rank is None:
        raise TypeError("image_or_images rank must be statically known")
    if rank not in (2, 3, 4):
        raise TypeError("Images should have rank between 2 and 4")
    return {2: lambda: images[None, :, :, None], 3: lambda: images[None], 4: lambda: images}[rank]()


# ---------------------------------------------------------------- transforms


def flat_transforms_to_matrices(transforms: TensorLike) -> Any:
    """Return the matrices ``[images, 3, 3]`` of transforms of 8 numbers."""
    flat = hf.reshape(hf.convert_to_tensor(transforms, hf.float32), [-1, 8])
    ones = hf.ones(hf.stack([hf.shape(flat)[0], 1]))
    return hf.reshape(hf.concat([flat, ones], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: TensorLike) -> Any:
    """Return transforms ``[images, 8]`` of matrices, which are divided by their last number."""
    flat = hf.reshape(hf.convert_to_tensor(transform_matrices), np.array([-1, 9], np.int32))
    return (flat / flat[:, 8:9])[:, :8]


def compose_transforms(*transforms: Any) -> Any:
    """Return the transforms that are the product of several, the first of them outermost.

    ``AssertionError`` for none.
    """
    assert transforms, "transforms cannot be empty"
    product = flat_transforms_to_matrices(transforms[0])
    for other in transforms[1:]:
        product = hf.matmul(product, flat_transforms_to_matrices(other))
    return matrices_to_flat_transforms(product)

__getattr__ = named_otherwise(__name__)
