"""Data sets of the rows of a data base, and of groups that a reducer makes elements of."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hpcflow as hf

experimental = hf.data.experimental


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


@pytest.fixture
def path(tmp_path):
    name = str(tmp_path / "rows.sqlite")
    with sqlite3.connect(name) as connection:
        connection.execute("CREATE TABLE rows (number INTEGER, text TEXT, real REAL)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?)",
                               [(1, "x\0y", 1.5), (300, None, None)])
    connection.close()
    return name


def elements(dataset):
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    with hf.Session() as session:
        session.run(iterator.initializer)
        found = []
        while True:
            try:
                found.append(session.run(following))
            except hf.errors.OutOfRangeError:
                return found


def test_rows_have_the_types_that_are_asked_for(path):
    types = (hf.uint8, hf.string, hf.float64, hf.string, hf.bool)
    rows = experimental.SqlDataset("sqlite", path, "SELECT number, text, real, number, real "
                                                   "FROM rows ORDER BY number", types)
    assert rows.output_types == types
    assert elements(rows.repeat(2)) == 2 * [(1, b"x\0y", 1.5, b"1", True),
                                            (44, b"", 0.0, b"300", False)]


def test_rows_of_one_column_that_several_threads_read(path):
    rows = experimental.SqlDataset("sqlite", path, "SELECT number FROM rows", hf.int32)
    following = rows.make_one_shot_iterator().get_next()
    with hf.Session() as session, ThreadPoolExecutor(1) as other:
        assert session.run(following) == 1
        assert other.submit(session.run, following).result() == 300
        with pytest.raises(hf.errors.OutOfRangeError):
            session.run(following)


@pytest.mark.parametrize(("driver", "query", "error", "message"), [
    ("sqlite", "SELECT absent FROM rows", hf.errors.UnknownError, "no such column: absent"),
    ("sqlite", "SELECT number, real FROM rows", hf.errors.InvalidArgumentError,
     r"number of columns in query \(2\)"),
    ("mysql", "SELECT number FROM rows", hf.errors.InvalidArgumentError, "mysql, is not supported"),
])
def test_what_is_wrong_is_raised_by_the_step(path, driver, query, error, message):
    with pytest.raises(error, match=message):
        elements(experimental.SqlDataset(driver, path, query, (hf.int32,)))


def test_a_data_base_that_is_not_there():
    with pytest.raises(hf.errors.InvalidArgumentError, match="no data base"):
        elements(experimental.SqlDataset("sqlite", "/absent/file", "SELECT 1", (hf.int32,)))


def test_types_are_checked_at_once(path):
    with pytest.raises(TypeError, match="output_types must be among"):
        experimental.SqlDataset("sqlite", path, "SELECT real FROM rows", (hf.float32,))


def test_a_reducer_makes_one_element_of_each_group():
    mean = experimental.Reducer(
        lambda key: (np.int64(0), 0.0), lambda state, x: (state[0] + 1, state[1] + hf.to_float(x)),
        lambda count, total: total / hf.to_float(count))
    numbers = hf.data.Dataset.range(10)
    assert elements(numbers.apply(experimental.group_by_reducer(lambda x: x % 3, mean))) == [
        4.5, 4.0, 5.0]
    words = experimental.Reducer(lambda key: "", lambda state, x: state + hf.as_string(x),
                                 lambda state: state)
    assert elements(numbers.apply(experimental.group_by_reducer(lambda x: -x % 2, words))) == [
        b"02468", b"13579"]
    with pytest.raises(TypeError, match="must match the initial"):
        numbers.apply(experimental.group_by_reducer(lambda x: x, experimental.Reducer(
            lambda key: 0, lambda state, x: 0.5, lambda state: state)))


def test_the_end_of_a_data_set_is_an_optional_without_value():
    iterator = hf.data.Dataset.range(1).make_one_shot_iterator()
    following = experimental.get_next_as_optional(iterator)
    has_value, value = following.has_value(), following.get_value()
    with hf.Session() as session:
        assert session.run([has_value, value]) == [True, 0]
        assert not session.run(has_value)
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(value)
    nothing = experimental.Optional.none_from_structure(following.value_structure)
    with hf.Session() as session:
        assert not session.run(nothing.has_value())


def test_elements_are_taken_apart():
    batches = hf.data.Dataset.from_tensors({"a": np.arange(3), "b": np.eye(3)})
    assert [(e["a"], e["b"].tolist()) for e in elements(batches.unbatch())] == [
        (n, row.tolist()) for n, row in enumerate(np.eye(3))]
