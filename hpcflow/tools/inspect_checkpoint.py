"""Print the variables of a checkpoint: ``python -m hpcflow.tools.inspect_checkpoint``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hpcflow.train.checkpoint_reader import NewCheckpointReader


def print_tensors_in_checkpoint_file(file_name: str, tensor_name: str | None, all_tensors: bool,
                                     all_tensor_names: bool = False) -> None:
    """Print what is in a checkpoint.

    Args:
        file_name: the checkpoint, a path as ``Saver.save`` returns it.
        tensor_name: print this variable's name and value; where it is empty or None, one line per
            variable with name, type and shape.
        all_tensors: print the name and value of every variable instead.
        all_tensor_names: print the name of every variable instead.

    Raises ``NotFoundError`` where there is no such checkpoint or variable, ``DataLossError`` for
    damaged files.
    """
    reader = NewCheckpointReader(file_name)
    if all_tensors or all_tensor_names:
        for name in sorted(reader.get_variable_to_shape_map()):
            print("tensor_name: ", name)
            if all_tensors:
                print(reader.get_tensor(name))
    elif tensor_name:
        value = reader.get_tensor(tensor_name)
        print("tensor_name: ", tensor_name)
        print(value)
    else:
        print(reader.debug_string().decode())


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m hpcflow.tools.inspect_checkpoint",
                                     description=__doc__)
    parser.add_argument("--file_name", required=True, help="the checkpoint")
    parser.add_argument("--tensor_name", default="", help="a variable whose value to print")
    parser.add_argument("--all_tensors", action="store_true", help="print all values")
    parser.add_argument("--all_tensor_names", action="store_true", help="print all names")
    arguments = parser.parse_args(argv)
    print_tensors_in_checkpoint_file(arguments.file_name, arguments.tensor_name,
                                     arguments.all_tensors, arguments.all_tensor_names)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
