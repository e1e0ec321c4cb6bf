"""What 1.x programs use around the graph: flags, files, records, logging."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hpcflow as hf


def test_flags_and_app(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("""
import hpcflow as hf
hf.flags.DEFINE_string("name", "nobody", "a name")
hf.flags.DEFINE_integer(name="count", default=3, help="a count")
hf.flags.DEFINE_boolean("loud", True, "a switch")
FLAGS = hf.flags.FLAGS

def main(argv):
    print(FLAGS.name, FLAGS.count, FLAGS.loud, argv[1:])

if __name__ == "__main__":
    hf.app.run()
""")

    def run(*arguments):
        return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True,
                              check=True).stdout.strip()

    assert run() == "nobody 3 True []"
    assert run("--name=x", "--count", "5", "--noloud", "rest") == "x 5 False ['rest']"
    assert run("--loud=false") == "nobody 3 False []"


def test_lists_and_repeated_flags(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("""
import hpcflow as hf
flags = hf.app.flags
flags.DEFINE_list("layers", "10,20", "sizes")
flags.DEFINE_list("names", None, "names")
flags.DEFINE_spaceseplist("words", ["a"], "words")
flags.DEFINE_multi_integer("gpu", [0, 1], "devices")
flags.DEFINE_multi_enum("mode", "train", ["train", "eval"], "modes")
flags.DEFINE_string("path", None, "a file")
flags.DEFINE_string("url", None, "an address")
flags.register_validator("gpu", lambda found: all(g < 8 for g in found), "too many")
flags.mark_flags_as_mutual_exclusive(["path", "url"])
FLAGS = flags.FLAGS


def main(argv):
    print(FLAGS.layers, FLAGS.names, FLAGS.words, FLAGS.gpu, FLAGS.mode)
    print(FLAGS["gpu"].value, FLAGS["gpu"].default, "gpu" in FLAGS, len(FLAGS))
    print(FLAGS.flag_values_dict() == FLAGS.__flags, sorted(FLAGS)[:2])


hf.app.run(main)
""")

    def run(*arguments):
        return subprocess.run([sys.executable, str(script), *arguments], capture_output=True,
                              text=True)

    assert run().stdout.splitlines() == [
        "['10', '20'] None ['a'] [0, 1] ['train']", "[0, 1] [0, 1] True 7",
        "True ['gpu', 'layers']"]
    done = run("--layers=1, 2,3", "--names=", "--words=b c", "--gpu=3", "--gpu", "4",
               "--mode=eval")
    assert done.stdout.splitlines()[:2] == ["['1', '2', '3'] [] ['b', 'c'] [3, 4] ['eval']",
                                            "[3, 4] [0, 1] True 7"]
    assert "--gpu=[9]: too many" in run("--gpu=9").stderr
    assert "At most one of (path, url)" in run("--path=a", "--url=b").stderr
    with pytest.raises(AttributeError, match="absent"):
        hf.flags.register_validator("absent", bool)


def test_required_flags(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("""
import hpcflow as hf
hf.flags.DEFINE_string("data", None, "a folder")
hf.flags.DEFINE_integer("steps", None, "how many")
hf.flags.DEFINE_integer("size", 4, "how large", lower_bound=1)
hf.flags.mark_flag_as_required("data")
hf.app.flags.mark_flags_as_required(["steps", "size"])
FLAGS = hf.flags.FLAGS
hf.app.run(lambda argv: print(FLAGS.data, FLAGS.steps, FLAGS.size))
""")

    def run(*arguments):
        return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)

    assert run("--data=d", "--steps=0").stdout.strip() == "d 0 4"
    missing = run("--data=d")
    assert missing.returncode != 0 and not missing.stdout
    assert "Flag --steps must have a value other than None" in missing.stderr
    small = run("--data=d", "--steps=0", "--size=0")
    assert small.returncode != 0 and "--size=0: must be between 1 and inf" in small.stderr
    with pytest.raises(AttributeError, match="'absent'"):
        hf.flags.mark_flag_as_required("absent")


def test_files(tmp_path):
    directory = str(tmp_path / "a" / "b")
    hf.gfile.MakeDirs(directory)
    hf.gfile.MkDir(directory)  # is there already, which is not an error
    path = f"{directory}/f.txt"
    with hf.gfile.GFile(path, "w") as f:
        f.write("one\ntwo\n")
    assert hf.gfile.Exists(path) and hf.gfile.IsDirectory(directory)
    assert list(hf.gfile.Open(path)) == ["one\n", "two\n"]
    assert hf.gfile.GFile(path).size() == 8 == hf.gfile.Stat(path).length
    hf.gfile.Copy(path, path + "2")
    with pytest.raises(hf.errors.AlreadyExistsError):
        hf.gfile.Rename(path, path + "2")
    assert hf.gfile.ListDirectory(directory) == ["f.txt", "f.txt2"]
    hf.gfile.Remove(path)
    with pytest.raises(hf.errors.NotFoundError):
        hf.gfile.FastGFile(path, "rb").read()
    hf.gfile.DeleteRecursively(str(tmp_path / "a"))
    assert not hf.gfile.Exists(directory)


@pytest.mark.parametrize("kind", ["NONE", "ZLIB", "GZIP"])
def test_records(tmp_path, kind):
    path = str(tmp_path / "r")
    options = hf.python_io.TFRecordOptions(getattr(hf.python_io.TFRecordCompressionType, kind))
    items = [b"", b"abc", b"\x00" * 5000]
    with hf.python_io.TFRecordWriter(path, options) as writer:
        for item in items:
            writer.write(item)
    assert list(hf.python_io.tf_record_iterator(path, options)) == items
    data = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(data[:-3])
    with pytest.raises(hf.errors.DataLossError):
        list(hf.python_io.tf_record_iterator(path, options))
    with pytest.raises(hf.errors.NotFoundError):
        list(hf.python_io.tf_record_iterator(path + "x"))


@pytest.mark.parametrize("kind", ["", "ZLIB", "GZIP"])
def test_records_that_were_flushed_can_be_read(tmp_path, kind):
    path = str(tmp_path / "r")
    writer = hf.python_io.TFRecordWriter(path, kind)
    for item in (b"one", b"two"):
        writer.write(item)
        writer.flush()
    assert list(hf.python_io.tf_record_iterator(path, kind)) == [b"one", b"two"]
    writer.close()
    for use in (writer.flush, lambda: writer.write(b"")):
        with pytest.raises(hf.errors.FailedPreconditionError):
            use()


def test_options_of_compression(tmp_path):
    sizes = []
    for level in (0, 9):
        options = hf.python_io.TFRecordOptions("ZLIB", compression_level=level)
        path = tmp_path / str(level)
        with hf.python_io.TFRecordWriter(str(path), options) as writer:
            writer.write(bytes(1000))
        assert list(hf.python_io.tf_record_iterator(str(path), options)) == [bytes(1000)]
        sizes.append(path.stat().st_size)
    assert sizes[0] > 1000 > sizes[1]
    for wrong in ("BZ2", 5):
        with pytest.raises(ValueError, match="compression_type"):
            hf.python_io.TFRecordOptions(wrong)


def test_logging(capsys):
    hf.logging.set_verbosity(hf.logging.INFO)
    assert hf.logging.get_verbosity() == hf.logging.INFO
    hf.logging.info("seen %d", 1)
    hf.logging.debug("not seen")


def test_logging_counts_the_calls_of_a_line(monkeypatch):
    logged = []
    monkeypatch.setattr(hf.logging, "log", lambda level, msg, *args: logged.append(msg % args))
    for step in range(5):  # the message is another one each time, the line is the same
        hf.logging.log_every_n(hf.logging.INFO, f"every second: {step}", 2)
        hf.logging.log_first_n(hf.logging.INFO, f"first two: {step}", 2)
    hf.logging.log_first_n(hf.logging.INFO, "another line: %d", 1, 5)
    assert logged == ["every second: 0", "first two: 0", "first two: 1", "every second: 2",
                      "every second: 4", "another line: 5"]
