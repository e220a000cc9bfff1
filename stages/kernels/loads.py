"""What numba has no words for: eight bytes of a buffer as one number, there and back, its lowest bit, and asking for a
cache line in advance."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_functions: Any = cgutils
_BYTES: Final = ir.IntType(8).as_pointer()


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def _load64(typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _place(context, builder, signature.args[0], *values)
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), code


def _store64(typing: Any, data: Any, at: Any, word: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _place(context, builder, signature.args[0], values[0], values[1])
        builder.store(values[2], builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), code


def _prefetch(typing: Any, data: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.bitcast(_place(context, builder, signature.args[0], *values), _BYTES)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, number, number, number])
        function = _functions.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, number(0), number(3), number(1)])  # to read, keep in all caches, data
        return context.get_dummy_value()

    return types.void(data, types.int64), code


def _lowest_bit(typing: Any, word: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.IntType(1)(1))

    return types.int64(types.uint64), code


#: load64(data, at): data[at:at + 8] of a uint8 array as uint64, the first byte lowest. The caller sees to it that they are there.
load64: Any = intrinsic(_load64)
#: store64(data, at, word): write a uint64 to data[at:at + 8] of a uint8 array, which has to have that much.
store64: Any = intrinsic(_store64)
#: prefetch(data, at): let data[at] be on its way into the caches. Nothing is read, so `at` may be anywhere.
prefetch: Any = intrinsic(_prefetch)
#: lowest_bit(word): the number of the lowest bit set in a uint64 that is not 0, int64.
lowest_bit: Any = intrinsic(_lowest_bit)
