"""The modes of ``contrib.learn``, one of which has another value than in ``estimator``."""


class ModeKeys:
    """Names of what a model is built for."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ``ValueError`` for a key that is none of them."""
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key!r}: use {cls.TRAIN!r}, {cls.EVAL!r} or "
                             f"{cls.INFER!r}")
