"""Profiles: what is counted, shown, printed; the counts are compared with the reference's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as hf

Builder = hf.profiler.ProfileOptionBuilder


@pytest.fixture
def step() -> Any:
    """The metadata of a traced training step."""
    hf.reset_default_graph()
    x = hf.placeholder(hf.float32, [8, 4], name="x")
    with hf.variable_scope("net"):
        y = hf.layers.dense(x, 3, hf.nn.relu, name="first")
        y = hf.layers.dense(y, 2, name="second")
    train = hf.train.GradientDescentOptimizer(0.1).minimize(hf.reduce_mean(y * y))
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(train, {x: np.ones((8, 4))}, hf.RunOptions(
            trace_level=hf.RunOptions.FULL_TRACE), metadata)
    return metadata


def _find(node: Any, name: str) -> Any:
    for child in node.children:
        found = child if child.name == name else _find(child, name)
        if found is not None:
            return found
    return None


def test_parameters_by_scope(step: Any, capsys: Any) -> None:
    root = hf.profiler.profile(options=Builder.trainable_variables_parameter())
    assert root.total_parameters == 23
    assert _find(root, "net/second").total_parameters == 8
    printed = capsys.readouterr().out
    assert "_TFProfRoot (--/23 params)" in printed
    assert "      net/first/kernel (4x3, 12/12 params)" in printed
    assert "MatMul" not in printed


def test_float_operations(step: Any, capsys: Any) -> None:
    root = hf.profiler.profile(hf.get_default_graph(), options=Builder.float_operation())
    assert _find(root, "net/first/MatMul").float_ops == 2 * 8 * 4 * 3
    assert root.total_float_ops > 2 * 8 * (4 * 3 + 3 * 2)
    assert "net/first/MatMul (192/192 flops)" in capsys.readouterr().out
    unknown = hf.matmul(hf.placeholder(hf.float32, [None, 3]), hf.ones([3, 2])).op.name
    assert _find(hf.profiler.profile(options=Builder.float_operation()), unknown) is None


def test_time_and_memory_by_type_and_line(step: Any, tmp_path: Path) -> None:
    options = Builder(Builder.time_and_memory(0, 0)).with_file_output(str(tmp_path / "out")).build()
    root = hf.profiler.profile(run_meta=step, cmd="op", options=options)
    assert root.total_exec_micros > 0 and root.total_requested_bytes > 0
    assert root.total_run_count > 0
    text = (tmp_path / "out").read_text()
    assert "node name | total execution time | requested bytes" in text and "us (" in text
    lines = hf.profiler.profile(cmd="code", options=Builder(Builder.float_operation())
                                .with_empty_output().build())
    assert any("test_profiler.py" in n.name for n in lines.children)


def test_filters(step: Any, capsys: Any) -> None:
    builder = Builder(Builder.trainable_variables_parameter()).with_empty_output()
    narrow = builder.with_node_names(start_name_regexes=["net/first"]).build()
    assert hf.profiler.profile(options=narrow).total_parameters == 15
    hidden = builder.with_node_names(start_name_regexes=[".*"], hide_name_regexes=[
        ".*/bias"]).build()
    assert hf.profiler.profile(options=hidden).total_parameters == 18
    trimmed = builder.with_node_names(hide_name_regexes=[], trim_name_regexes=[
        "net/second"]).build()
    assert hf.profiler.profile(options=trimmed).total_parameters == 15
    many = Builder(Builder.trainable_variables_parameter()).with_min_parameters(6).select(
        ["params"]).order_by("params").with_empty_output().build()
    names = [n.name for n in hf.profiler.profile(options=many).children]
    assert names == ["net/first/kernel", "net/second/kernel"]
    builder = Builder(Builder.trainable_variables_parameter()).with_max_depth(1)
    top = builder.account_displayed_op_only(False).with_empty_output().build()
    whole = hf.profiler.profile(options=top)
    assert whole.total_parameters == 23 and not whole.children
    assert not capsys.readouterr().out


def test_steps_and_advice(step: Any, capsys: Any) -> None:
    profiler = hf.profiler.Profiler(hf.get_default_graph())
    profiler.add_step(1, step)
    profiler.add_step(2, step)
    options = Builder(Builder.time_and_memory(0, 0)).with_empty_output()
    mean = profiler.profile_operations(options.build())
    one = profiler.profile_name_scope(options.with_step(2).build())
    assert mean.total_run_count == one.total_run_count > 0
    advice = hf.profiler.advise(run_meta=step)
    assert advice.checkers["ExpensiveOperationChecker"].reports[0].startswith("top 1 operation: ")
    assert "ExpensiveOperationChecker:" in capsys.readouterr().out


def test_what_is_refused(step: Any) -> None:
    with pytest.raises(ValueError, match="unknown profiler view"):
        hf.profiler.profile(cmd="tree")
    with pytest.raises(ValueError, match="needs the RunMetadata"):
        hf.profiler.advise()
    with pytest.raises(ValueError, match="must be stdout"):
        hf.profiler.profile(options={"output": "printer"})


def test_older_functions_take_their_options_as_dicts(step: Any, capsys: Any) -> None:
    analyzer = hf.contrib.tfprof.model_analyzer
    told = analyzer.print_model_analysis(
        hf.get_default_graph(), tfprof_options=analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS)
    same = hf.profiler.profile(options=Builder.trainable_variables_parameter())
    assert told.total_parameters == same.total_parameters > 0
    capsys.readouterr()
