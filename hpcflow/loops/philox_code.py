"""Machine code of blocks of random words, by LLVM alone: see `loops.PhiloxBlocks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops.address_loops import AddressLoop, written
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import Array, Code, Integer

if TYPE_CHECKING:
    from llvmlite.ir import Module, Value

_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_STEPS = 0x9E3779B9, 0xBB67AE85


def code_of(name: str) -> Code:
    """The code of the loop; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(_Blocks(module)))


class _Blocks(AddressLoop):
    """It takes the addresses of the places and the words, how many blocks there are, the key, and
    the lower and the upper half of the counter."""

    def __init__(self, module: Module) -> None:
        super().__init__(module, [Array("uint64", 1, False), Array("uint32", 2, True),
                                  *[Integer("int64")] * 3], 6)

    def arguments(self, values: Sequence) -> list:
        """See `AddressLoop`."""
        (places, (count,)), (words, _), *numbers = values
        return [places, words, count, *numbers]

    def write(self) -> None:
        """Write the loop: words are numbers of 64 bits of which the upper half is zero, so that a
        product is one instruction of the vector units."""
        builder, word = self.builder, self.word
        places, words, count, key, low, high = self.function.args
        small = self.ir.IntType(32)
        with self.steps(word(0), count, 1) as i:
            place = builder.load(self.place(places, builder.mul(i, word(8)), word))
            at = builder.add(low, place)
            carry = builder.zext(builder.icmp_unsigned("<", at, place), word)
            up = builder.add(high, carry)
            block = self._rounds([*self._halves(at), *self._halves(up)], self._halves(key))
            start = builder.add(words, builder.mul(i, word(16)))
            for k, value in enumerate(block):
                builder.store(builder.trunc(value, small),
                              self.place(start, word(4 * k), small), align=4)
        builder.ret_void()

    def _halves(self, value: Value) -> list:
        builder = self.builder
        return [builder.and_(value, self.word(0xFFFFFFFF)), builder.lshr(value, self.word(32))]

    def _rounds(self, block: list, key: list) -> list:
        builder, mask = self.builder, self.word(0xFFFFFFFF)
        for _ in range(_ROUNDS):
            products = [builder.mul(block[2 * k], self.word(m))
                        for k, m in enumerate(_MULTIPLIERS)]
            (low, high), (left, right) = map(self._halves, products)
            block = [self._xor(right, block[1], key[0]), left,
                     self._xor(high, block[3], key[1]), low]
            key = [builder.and_(builder.add(k, self.word(step)), mask)
                   for k, step in zip(key, _STEPS, strict=True)]
        return block

    def _xor(self, *values: Any) -> Any:
        return self.builder.xor(self.builder.xor(values[0], values[1]), values[2])
