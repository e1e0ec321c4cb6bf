"""Format of the fuzzer (`fuzz.py`): SavedModels, which are loaded and asked for a result."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from faults.damage import Case, damaged_bytes, damaged_text
from faults.fuzz_graphs import damage_meta, use

DATA = Path(__file__).parents[1] / "data" / "saved_models"
#: What loading documents besides errors of the library's, as the reference runtime does.
DOCUMENTED = ("Cannot parse file", "SavedModel file does not exist", "could not be found in Saved",
              "Expected exactly one SavedModel main op", "which does not exist",
              "refers to an Operation not in the graph")


def prepare_saved_model(hf: Any, folder: Path) -> Case:
    """Cases of SavedModels of this library and of the reference runtime."""
    _export(hf, folder / "own")
    sources = [folder / "own", *[p for p in sorted(DATA.iterdir())
                                 if (p / "saved_model.pb").exists()]]

    def case(rng: random.Random) -> str:
        model = folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(rng.choice(sources), model)
        _damage(rng, model)
        try:
            return use(hf, rng, lambda: _load(hf, model))
        except (OSError, RuntimeError, KeyError) as error:
            if not any(text in str(error) for text in DOCUMENTED):
                raise
            return f"{type(error).__name__}, as documented"

    return case


def _export(hf: Any, folder: Path) -> None:
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [None, 2], name="x")
        w = hf.get_variable("w", [2, 3])
        table = hf.contrib.lookup.index_table_from_tensor(["a", "b"])
        found = table.lookup(hf.placeholder_with_default(["a"], [None]))
        session.run([hf.global_variables_initializer(), hf.tables_initializer()])
        hf.saved_model.simple_save(session, str(folder), {"x": x},
                                   {"y": hf.matmul(x, w), "found": found},
                                   legacy_init_op=hf.tables_initializer())


def _damage(rng: random.Random, model: Path) -> None:
    from google.protobuf import text_format

    from hpcflow.base.formats.protos import message_class

    path, how = model / "saved_model.pb", rng.randrange(8)
    values = [p for p in model.rglob("*") if p.is_file() and p != path]
    if how == 0 and values:
        other = rng.choice(values)
        other.write_bytes(damaged_bytes(rng, other.read_bytes()))
        return
    content = path.read_bytes()
    if how < 3:
        path.write_bytes(damaged_bytes(rng, content))
        return
    saved = message_class("SavedModel").FromString(content)
    if how == 3:
        path.unlink()
        text = damaged_text(rng, text_format.MessageToString(saved))
        (model / "saved_model.pbtxt").write_text(text)
        return
    damage_meta(rng, rng.choice(saved.meta_graphs))
    path.write_bytes(saved.SerializeToString())


def _load(hf: Any, model: Path) -> None:
    with hf.Session() as session:
        meta = hf.saved_model.loader.load(session, ["serve"], str(model))
        for signature in meta.signature_def.values():
            for info in signature.outputs.values():
                hf.saved_model.utils.get_tensor_from_tensor_info(info)


FORMATS = {"saved-model": prepare_saved_model}
