"""The cases of `programs.kernels` as PyTorch computes them, with tensors in its default layout on
its default device."""

from __future__ import annotations

from types import ModuleType

import numpy as np


def open_case(torch: ModuleType, case, options):
    """Make a case: (function that runs one step, close)."""
    torch.set_num_threads(options["threads"])
    with torch.no_grad():
        step = KINDS[options["kind"]](torch, **options["args"])
    return step, lambda: None


def normal(torch: ModuleType, *dims, scale: float = 1.0, half: bool = False):
    """A tensor of random numbers."""
    values = np.random.default_rng(sum(dims)).standard_normal(dims, np.float32)
    made = torch.from_numpy(values * np.float32(scale)).to(torch.get_default_device())
    return made.half() if half else made


def numbers(torch: ModuleType, count: int, limit: int):
    """`count` random row numbers."""
    values = np.random.default_rng(count).integers(limit, size=count)
    return torch.from_numpy(values).to(torch.get_default_device())


def without_gradients(torch: ModuleType, function):
    """`function`, recording nothing."""
    return torch.no_grad()(function)


def _planes(image):
    batch, height, width, depth = image
    return batch, depth, height, width


def matmul(torch: ModuleType, m: int, k: int, n: int, transpose_a: bool = False,
           transpose_b: bool = False, half: bool = False):
    """A product of matrices."""
    a = normal(torch, *((k, m) if transpose_a else (m, k)), half=half)
    b = normal(torch, *((n, k) if transpose_b else (k, n)), half=half)
    a, b = (a.T if transpose_a else a), (b.T if transpose_b else b)
    return lambda: torch.mm(a, b)


def batch_matmul(torch: ModuleType, batch: int, m: int, k: int, n: int):
    """Many products of small matrices."""
    a, b = normal(torch, batch, m, k), normal(torch, batch, k, n)
    return lambda: torch.bmm(a, b)


def dense(torch: ModuleType, batch: int, inputs, outputs):
    """A fully connected layer with bias and relu."""
    x, w, b = normal(torch, batch, inputs), normal(torch, outputs, inputs), normal(torch, outputs)
    linear = torch.nn.functional.linear
    return without_gradients(torch, lambda: torch.relu(linear(x, w, b)))


def _same_padding(image, window, stride):
    """Padding as symmetric numbers, and the output's size; windows here are odd or unpadded."""
    return [(w - 1) // 2 for w in window[:2]], [-(-n // stride) for n in image[1:3]]


def conv(torch, image, window, stride: int = 1, same: bool = True, part: str = "forward",
         half: bool = False):
    """A convolution, or one of its gradients."""
    height, width, outer = window
    x = normal(torch, *_planes(image), half=half)
    w = normal(torch, outer, image[3], height, width, half=half)
    padding = _same_padding(image, window, stride)[0] if same else [0, 0]
    options = [stride, stride], padding, [1, 1], False, [0, 0], 1
    forward = torch.ops.aten.convolution
    if part == "forward":
        return without_gradients(torch, lambda: forward(x, w, None, *options))
    dy = torch.randn_like(forward(x, w, None, *options))
    mask = [part == "input", part == "filter", False]
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(dy, x, w, None, *options, mask)


def depthwise(torch: ModuleType, image, window: int, stride: int = 1):
    """A convolution of each channel by itself."""
    x, w = normal(torch, *_planes(image)), normal(torch, image[3], 1, window, window)
    conv2d, pad = torch.nn.functional.conv2d, (window - 1) // 2
    return without_gradients(
        torch, lambda: conv2d(x, w, stride=stride, padding=pad, groups=image[3]))


def conv_bias_relu(torch: ModuleType, image, window):
    """A layer of a network."""
    height, width, outer = window
    x, w = normal(torch, *_planes(image)), normal(torch, outer, image[3], height, width)
    b, pad = normal(torch, outer), _same_padding(image, window, 1)[0]
    conv2d = torch.nn.functional.conv2d
    return without_gradients(torch, lambda: torch.relu_(conv2d(x, w, b, padding=pad)))


def pool(torch: ModuleType, image, window: int, stride: int, mean: bool = False,
         backward: int = False):
    """Pooling without padding, or its gradient."""
    x, aten = normal(torch, *_planes(image)), torch.ops.aten
    sizes = [window, window], [stride, stride], [0, 0]
    if mean:
        options = False, True, None
        y = aten.avg_pool2d(x, *sizes, *options)
        dy = torch.randn_like(y)
        if backward:
            return lambda: aten.avg_pool2d_backward(dy, x, *sizes, *options)
        return lambda: aten.avg_pool2d(x, *sizes, *options)
    rest = [1, 1], False
    y, indices = aten.max_pool2d_with_indices(x, *sizes, *rest)
    dy = torch.randn_like(y)
    if backward:
        return lambda: aten.max_pool2d_with_indices_backward(dy, x, *sizes, *rest, indices)
    return lambda: torch.nn.functional.max_pool2d(x, window, stride)


def lrn(torch: ModuleType, image, radius, backward: int = False):
    """Local response normalization, or its gradient."""
    x = normal(torch, *_planes(image)).requires_grad_()
    size = 2 * radius + 1
    norm = torch.nn.functional.local_response_norm

    def forward():
        return norm(x, size, alpha=1e-4 * size, beta=0.75, k=2.0)

    if not backward:
        return without_gradients(torch, forward)
    with torch.enable_grad():
        y = forward()
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, x, dy, retain_graph=True)


def batch_norm(torch: ModuleType, image, backward: int = False):
    """Batch normalization in training, or its gradient."""
    x, channels = normal(torch, *_planes(image)), image[3]
    scale, offset = normal(torch, channels), normal(torch, channels)
    aten, epsilon = torch.ops.aten, 0.001
    if not backward:
        return lambda: aten.native_batch_norm(x, scale, offset, None, None, True, 0.0, epsilon)
    zero, one = torch.zeros(channels), torch.ones(channels)
    dy = torch.randn_like(x)
    return lambda: aten.native_batch_norm_backward(
        dy, x, scale, None, None, zero, one, True, epsilon, [True, True, True])


def softmax(torch: ModuleType, rows: int, columns: int, log: bool = False):
    """Rows that add up to one, or their logarithms."""
    x = normal(torch, rows, columns)
    function = torch.log_softmax if log else torch.softmax
    return lambda: function(x, 1)


def cross_entropy(torch: ModuleType, rows: int, columns: int, sparse: bool = False):
    """Losses of the rows and the gradient of their sum."""
    x = normal(torch, rows, columns).requires_grad_()
    labels = (numbers(torch, rows, columns) if sparse
              else torch.softmax(normal(torch, rows, columns), 1))
    function, ones = torch.nn.functional.cross_entropy, torch.ones(rows)

    def step():
        loss = function(x, labels, reduction="none")
        return loss, torch.autograd.grad(loss, x, ones)

    return step


def lstm(torch: ModuleType, batch: int, units: int, backward: int = False):
    """A step of an LSTM cell, and all its gradients."""
    x, h, c = (normal(torch, batch, units).requires_grad_() for _ in range(3))
    cell = torch.nn.LSTMCell(units, units)
    if not backward:
        return without_gradients(torch, lambda: cell(x, (h, c)))
    wanted, ones = [x, h, c, *cell.parameters()], [torch.ones(batch, units)] * 2

    def step():
        return torch.autograd.grad(cell(x, (h, c)), wanted, ones)

    return step


def gather(torch: ModuleType, rows: int, width: int, count: int):
    """Rows of an embedding."""
    table, ids = normal(torch, rows, width), numbers(torch, count, rows)
    return without_gradients(torch, lambda: torch.nn.functional.embedding(ids, table))


def scatter_add(torch: ModuleType, rows: int, width: int, count: int):
    """Rows added to those of an embedding."""
    table, ids = normal(torch, rows, width), numbers(torch, count, rows)
    values = normal(torch, count, width, scale=1e-6)
    return lambda: table.index_add_(0, ids, values)


def embedding_gradient(torch: ModuleType, rows: int, width: int, count: int):
    """Rows summed by their number: the dense gradient of an embedding."""
    values, ids = normal(torch, count, width), numbers(torch, count, rows)
    return lambda: torch.ops.aten.embedding_dense_backward(values, ids, rows, -1, False)


_OPTIMIZERS = {
    "GradientDescent": ("SGD", {}),
    "Momentum": ("SGD", {"momentum": 0.9}),
    "Adagrad": ("Adagrad", {}),
    "RMSProp": ("RMSprop", {}),
    "Adam": ("Adam", {}),
}


def optimizer(torch: ModuleType, name: str, size: int, **options):
    """An update of one variable, by the fused form where the library has one for the device."""
    variable = normal(torch, size).requires_grad_()
    variable.grad = normal(torch, size, scale=1e-3)
    kind, more = _OPTIMIZERS[name]
    with_fused = ("SGD", "Adam") if variable.is_cuda else ("SGD", "Adagrad", "Adam")
    fused = {"fused": True} if kind in with_fused else {}
    made = getattr(torch.optim, kind)([variable], lr=1e-3, **more, **fused)
    return made.step


KINDS = {
    function.__name__: function
    for function in (
        matmul, batch_matmul, dense, conv, depthwise, conv_bias_relu, pool, lrn, batch_norm,
        softmax, cross_entropy, lstm, gather, scatter_add, embedding_gradient, optimizer,
    )
}
