"""Images warped by a field of displacements, and splines through points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


def dense_image_warp(image: TensorLike, flow: TensorLike, name: str = "dense_image_warp") -> Any:
    """Return images whose pixel (i, j) is that of `image` at (i, j) - flow[i, j], between four
    pixels interpolated; places outside are those at the edge.

    Args:
        image: ``[batch, height, width, channels]``, floats, of two pixels or more each way.
        flow: ``[batch, height, width, 2]``: rows, columns.
        name: name scope.
    """
    with hf.name_scope(name):
        image = hf.convert_to_tensor(image)
        size = hf.shape(image)
        batch, height, width, channels = (size[i] for i in range(4))
        rows, columns = hf.meshgrid(hf.range(height), hf.range(width), indexing="ij")
        flow = hf.convert_to_tensor(flow)
        places = hf.cast(hf.stack([rows, columns], -1), flow.dtype) - flow
        found = _interpolated(image, hf.reshape(places, [batch, height * width, 2]))
        warped = hf.reshape(found, [batch, height, width, channels])
        warped.set_shape(image.shape)
        return warped


def _interpolated(grid: Any, places: Any) -> Any:
    """The values ``[batch, places, channels]`` of a grid at places ``[batch, places, 2]``."""
    size = hf.shape(grid)
    low, part = [], []
    for axis in range(2):
        at = places[..., axis]
        highest = hf.cast(size[1 + axis] - 2, at.dtype)
        floor = hf.minimum(hf.maximum(hf.zeros([], at.dtype), hf.floor(at)), highest)
        low.append(hf.cast(floor, hf.int32))
        share = hf.clip_by_value(at - floor, hf.zeros([], at.dtype), hf.ones([], at.dtype))
        part.append(hf.expand_dims(hf.cast(share, grid.dtype), -1))
    flat = hf.reshape(grid, [size[0] * size[1] * size[2], size[3]])
    first = hf.reshape(hf.range(size[0]) * size[1] * size[2], [-1, 1])

    def pixels(row: int, column: int) -> Any:
        return hf.gather(flat, first + (low[0] + row) * size[2] + low[1] + column)

    top = pixels(0, 0) + part[1] * (pixels(0, 1) - pixels(0, 0))
    bottom = pixels(1, 0) + part[1] * (pixels(1, 1) - pixels(1, 0))
    return top + part[0] * (bottom - top)


def interpolate_spline(train_points: TensorLike, train_values: TensorLike,
                       query_points: TensorLike, order: int, regularization_weight: float = 0.0,
                       name: str = "interpolate_spline") -> Any:
    """Return the values at some points of the polyharmonic spline through others (Iske, 2004).

    Args:
        train_points: ``[batch, points, dimensions]``, floats.
        train_values: ``[batch, points, values]``: what the spline is there.
        query_points: ``[batch, queries, dimensions]``.
        order: of the spline: 1 is piecewise linear, 2 the thin plate.
        regularization_weight: above 0 the spline passes by the values, and is smoother.
        name: name scope.

    Returns: ``[batch, queries, values]``.

    Raises (when run) ``InvalidArgumentError`` where the points do not determine a spline.
    """
    with hf.name_scope(name):
        points, values, queries = (hf.convert_to_tensor(x) for x in (
            train_points, train_values, query_points))
        weights, line = _coefficients(points, values, order, regularization_weight)
        radial = _basis(_squares(queries, points), order)
        return hf.matmul(radial, weights) + hf.matmul(_with_ones(queries), line)


def _coefficients(points: Any, values: Any, order: int, weight: float) -> tuple[Any, Any]:
    """The factors of the radial functions, and those of the linear part."""
    size = hf.shape(points)
    count = size[1]
    radial = _basis(_squares(points, points), order)
    if weight:
        radial += weight * hf.expand_dims(hf.eye(count, dtype=points.dtype), 0)
    linear = _with_ones(points)
    columns = hf.shape(linear)[2]
    corner = hf.zeros(hf.stack([size[0], columns, columns]), points.dtype)
    left = hf.concat([hf.concat([radial, linear], 2),
                      hf.concat([hf.matrix_transpose(linear), corner], 2)], 1)
    right = hf.concat([values, hf.zeros(hf.stack([size[0], columns, hf.shape(values)[2]]),
                                        points.dtype)], 1)
    solution = hf.matrix_solve(left, right)
    return solution[:, :count], solution[:, count:]


def _with_ones(points: Any) -> Any:
    return hf.concat([points, hf.ones_like(points[..., :1])], -1)


def _squares(x: Any, y: Any) -> Any:
    """The squared distances ``[batch, points of x, points of y]``."""
    difference = hf.expand_dims(x, 2) - hf.expand_dims(y, 1)
    return hf.reduce_sum(hf.square(difference), -1)


def _basis(squares: Any, order: int) -> Any:
    """r**order, times log(r) for an even order."""
    safe = hf.maximum(squares, hf.constant(1e-10, squares.dtype))  # as its logarithm is taken
    power = hf.pow(safe, hf.constant(0.5 * order, squares.dtype))
    return power if order % 2 else 0.5 * power * hf.log(safe)


def sparse_image_warp(image: TensorLike, source_control_point_locations: TensorLike,
                      dest_control_point_locations: TensorLike, interpolation_order: int = 2,
                      regularization_weight: float = 0.0, num_boundary_points: int = 0,
                      name: str = "sparse_image_warp") -> tuple[Any, Any]:
    """Return images in which some points have moved, and the field of displacements.

    Args:
        image: ``[batch, height, width, channels]``, height and width known.
        source_control_point_locations: ``[batch, points, 2]``: rows, columns.
        dest_control_point_locations: where they move to.
        interpolation_order: of the spline between the displacements.
        regularization_weight: as of :func:`interpolate_spline`.
        num_boundary_points: 0; or 1 more than the points between two corners that stay where they
            are, with the corners.
        name: name scope.
    """
    with hf.name_scope(name):
        image = hf.convert_to_tensor(image)
        sizes: list[Any] = image.shape.as_list()
        height, width = sizes[1:3]
        source: Any = hf.convert_to_tensor(source_control_point_locations)
        target: Any = hf.convert_to_tensor(dest_control_point_locations)
        moved: Any = target - source
        if num_boundary_points:
            edge = hf.constant(_edge(height, width, num_boundary_points), target.dtype)
            edges = hf.tile(hf.expand_dims(edge, 0), [hf.shape(target)[0], 1, 1])
            target = hf.concat([target, edges], 1)
            moved = hf.concat([moved, hf.zeros_like(edges)], 1)
        grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), -1)
        places = hf.tile(hf.constant(grid.reshape(1, -1, 2), target.dtype),
                         [hf.shape(target)[0], 1, 1])
        flow = interpolate_spline(target, moved, places, interpolation_order,
                                  regularization_weight)
        flow = hf.reshape(flow, [-1, height, width, 2])
        return dense_image_warp(image, flow), flow


def _edge(height: int, width: int, count: int) -> np.ndarray:
    """The corners, and `count` - 1 points between two of them, each once."""
    rows, columns = (np.linspace(0, size - 1, count + 1) for size in (height, width))
    upright = [(row, column) for row in rows for column in (0, width - 1)]
    across = [(row, column) for column in columns[1:-1] for row in (0, height - 1)]
    return np.array(upright + across)
