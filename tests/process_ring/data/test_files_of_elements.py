"""Files that data sets write, find and read; errors of single elements."""

import numpy as np
import pytest

import hpcflow as hf

Dataset, experimental = hf.data.Dataset, hf.data.experimental


def elements(dataset):
    """All elements."""
    following = dataset.make_one_shot_iterator().get_next()
    found = []
    with hf.Session() as session:
        while True:
            try:
                found.append(session.run(following))
            except hf.errors.OutOfRangeError:
                return found


def outcomes(dataset, count):
    """The next elements, or the class of the error in the place of one."""
    following = dataset.make_one_shot_iterator().get_next()
    found = []
    with hf.Session() as session:
        for _ in range(count):
            try:
                found.append(np.asarray(session.run(following)).tolist())
            except hf.errors.OpError as error:
                found.append(type(error))
    return found


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_elements_are_written_as_records(tmp_path, compression):
    path = str(tmp_path / "out")
    words = Dataset.from_tensor_slices([b"one", b"", b"three"])
    write = experimental.TFRecordWriter(path, compression).write(words)
    with hf.Session() as session:
        session.run(write)
    assert elements(hf.data.TFRecordDataset(path, compression)) == [b"one", b"", b"three"]
    missing = experimental.TFRecordWriter(str(tmp_path / "no" / "out")).write(words)
    with hf.Session() as session, pytest.raises(hf.errors.NotFoundError):
        session.run(missing)


@pytest.mark.parametrize("wrong", ["whoops", 10, [["a"], ["b"]]])
def test_records_are_strings(wrong):
    dataset = wrong if wrong == "whoops" else Dataset.from_tensors(wrong)
    with pytest.raises(TypeError, match="dataset"):
        experimental.TFRecordWriter("out").write(dataset)


def test_names_of_files(tmp_path):
    for name in ("b.py", "a.py", "c.txt"):
        (tmp_path / name).touch()
    found = elements(experimental.MatchingFilesDataset(str(tmp_path / "*.py")))
    assert found == [str(tmp_path / name).encode() for name in ("a.py", "b.py")]
    both = experimental.MatchingFilesDataset([str(tmp_path / "a*"), str(tmp_path / "c*")])
    assert len(elements(both)) == 2
    none = experimental.MatchingFilesDataset(str(tmp_path / "d*"))
    assert outcomes(none, 1) == [hf.errors.NotFoundError]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_rows_end_with_any_line_break(tmp_path, end):
    path = tmp_path / "table"
    path.write_bytes(end.join(['"a\n",b"x', '"\r""\r",c', '"",', "d,e", ""]).encode())
    rows = experimental.CsvDataset(str(path), [["NA"], ["NA"]])
    expected = [hf.errors.InvalidArgumentError, [b'\r"\r', b"c"], [b"NA", b"NA"], [b"d", b"e"]]
    assert outcomes(rows, 4) == expected


@pytest.mark.parametrize("text, columns, message", [
    ('1,2"3,4\n', 3, "Unquoted fields cannot have quotes inside"),
    ('a,"b\n', 2, "Reached end of file without closing quoted field in record"),
    ("\n1,2\n", 2, "Expect 2 fields but have 1 in record"),
    ("1,2,3\n", 2, "Expect 2 fields but have more in record"),
])
def test_errors_of_rows(tmp_path, text, columns, message):
    path = tmp_path / "table"
    path.write_bytes(text.encode())
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        elements(experimental.CsvDataset(str(path), [[""]] * columns))


def test_errors_of_tables(tmp_path):
    path = tmp_path / "table"
    path.touch()
    with pytest.raises(hf.errors.InvalidArgumentError, match="Can't read header of file"):
        elements(experimental.CsvDataset(str(path), [[0]], header=True))
    with pytest.raises(hf.errors.InvalidArgumentError, match="buffer_size should be positive"):
        elements(experimental.CsvDataset(str(path), [[0]], buffer_size=0))
    with pytest.raises(ValueError, match="at most rank 1 but is rank 2"):
        experimental.CsvDataset(str(path), [[[0]]])


@pytest.mark.parametrize("calls", [1, 4])
def test_an_error_takes_its_batch_with_it(calls):
    def failing(value):
        if value in (3, 4):
            raise StopIteration  # out of range, which does not end the data set
        return value

    dataset = Dataset.range(8).apply(experimental.map_and_batch(
        lambda x: hf.py_func(failing, [x], hf.int64), 3, num_parallel_calls=calls))
    assert outcomes(dataset, 4) == [[0, 1, 2], hf.errors.InvalidArgumentError, [6, 7],
                                    hf.errors.OutOfRangeError]


def test_whole_numbers_of_generators():
    def numbers():
        yield from (7, 255)

    small = elements(Dataset.from_generator(numbers, hf.uint8))
    assert [n.dtype for n in small] == [np.uint8] * 2 and small == [7, 255]
    with pytest.raises(hf.errors.InvalidArgumentError, match="expected type was uint8"):
        elements(Dataset.from_generator(lambda: iter([256]), hf.uint8))
