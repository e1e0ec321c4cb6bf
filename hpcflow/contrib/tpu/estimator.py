"""TPUEstimator: see :class:`TPUEstimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hpcflow.contrib.tpu.config import RunConfig
from hpcflow.errors import UnimplementedError
from hpcflow.estimator.base import Estimator
from hpcflow.estimator.spec import ModeKeys

_SIZE = "batch_size"


class TPUEstimator(Estimator):
    """An ``Estimator`` whose model and input functions find the number of examples of a batch in
    ``params["batch_size"]``.

    Args:
        model_fn: as of ``Estimator``; it may return a ``TPUEstimatorSpec``.
        model_dir: where checkpoints and summaries go.
        config: a ``RunConfig`` of this module.
        params: given to `model_fn` and to input functions; it must not have a ``batch_size``.
        use_tpu: must be False: there is no TPU.
        train_batch_size: the batch size of training.
        eval_batch_size: that of evaluation.
        predict_batch_size: that of predictions.
        batch_axis, eval_on_tpu, export_to_tpu, export_to_cpu: accepted, of no effect.
        warm_start_from: as of ``Estimator``.

    Raises ``UnimplementedError`` for `use_tpu`, ``ValueError`` for a ``batch_size`` among `params`.
    """

    def __init__(self, model_fn: Callable, model_dir: str | None = None,
                 config: RunConfig | None = None, params: Mapping[str, Any] | None = None,
                 use_tpu: bool = True, train_batch_size: int | None = None,
                 eval_batch_size: int | None = None, predict_batch_size: int | None = None,
                 batch_axis: object = None, eval_on_tpu: bool = True, export_to_tpu: bool = True,
                 export_to_cpu: bool = True, warm_start_from: Any = None, **others: Any) -> None:
        if use_tpu:
            raise UnimplementedError(None, None,
                                     "TPUEstimator: there is no TPU; pass use_tpu=False")
        if params is not None and _SIZE in params:
            raise ValueError("batch_size are reserved keys but existed in params")
        self._sizes = {ModeKeys.TRAIN: train_batch_size, ModeKeys.EVAL: eval_batch_size,
                       ModeKeys.PREDICT: predict_batch_size}
        super().__init__(model_fn, model_dir, config or RunConfig(), params, warm_start_from)

    def _params_of(self, mode: str) -> Any:
        """Return the params for the functions of a mode, with the batch size if there is one."""
        params, size = self.params, self._sizes.get(mode)
        if size is not None:
            if hasattr(params, "add_hparam"):
                params.add_hparam(_SIZE, size)
            else:
                params[_SIZE] = size
        return params
