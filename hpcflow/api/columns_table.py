"""The module paths below ``python.feature_column``."""

from hpcflow.api.entry import Entry

_COLUMN = "hpcflow.feature_column.column:"

COLUMNS = {
    **{name: Entry((
        "hpcflow.feature_column", _COLUMN[:-1], *(f"hpcflow.feature_column.{part}" for part in (
            "categorical", "dense", "embeddings", "sequence", "steps"))), {
        "_DenseColumn": _COLUMN + "EarlierDenseColumn", "_FeatureColumn": _COLUMN + "EarlierColumn",
        "_CategoricalColumn": _COLUMN + "EarlierCategoricalColumn",
        "_SequenceDenseColumn": _COLUMN + "EarlierSequenceDenseColumn",
        "_SequenceCategoricalColumn": "hpcflow.feature_column.steps:SequenceCategoricalColumn",
        "DenseFeatures": "hpcflow.keras.layers.features:DenseFeatures",
        "FeatureColumn": _COLUMN + "Column",
        "_EmbeddingColumn": "hpcflow.feature_column.embeddings:EmbeddingColumn",
        **dict.fromkeys(("_LazyBuilder", "FeatureTransformationCache"),
                        "hpcflow.feature_column.features:Features"),
        "StateManager": "hpcflow.feature_column.managers:StateManager",
        "_StateManagerImpl": "hpcflow.feature_column.managers:LayerVariables",
        "LinearModel": "hpcflow.keras.layers.features:LinearModel",
        "InputLayer": "hpcflow.feature_column.reading:EarlierInputLayer",
        "_LinearModel": "hpcflow.feature_column.reading:EarlierLinearModel",
        **dict.fromkeys(("_transform_features", "_transform_features_v2"),
                        "hpcflow.feature_column.features:transform_features"),
        "_to_sparse_input_and_drop_ignore_values": "hpcflow.feature_column.features:sparse_input",
        "_LinearModelLayer": "hpcflow.keras.layers.features:LinearModel",
        "shared_embedding_columns_v2":
            "hpcflow.feature_column.embeddings:shared_embedding_columns_v2",
        "make_parse_example_spec_v2": "hpcflow.feature_column:make_parse_example_spec",
        **{f"_{column}": f"hpcflow.feature_column:{column}" for column in (
            "bucketized_column", "categorical_column_with_hash_bucket",
            "categorical_column_with_identity", "categorical_column_with_vocabulary_file",
            "categorical_column_with_vocabulary_list", "crossed_column", "embedding_column",
            "indicator_column", "numeric_column", "shared_embedding_columns",
            "weighted_categorical_column")},
    }) for name in ("feature_column", "feature_column_lib", "feature_column_v2")},
    **{name: Entry(("hpcflow.keras.layers.features",)) for name in (
        "dense_features", "dense_features_v2")},
    "serialization": Entry(("hpcflow.feature_column.serialization",)),
    "sequence_feature_column": Entry(("hpcflow.feature_column.sequence",), {
        "SequenceFeatures": "hpcflow.keras.layers.features:SequenceFeatures"}),
}
