"""How kernels are compiled: one place for numba's options.

`_nrt=False` takes reference counting out. Kernels here own nothing and allocate nothing (they are handed every array they
write to), and the counting that numba adds around each call is atomic: with it, decoding UTF-8 through a helper ran at
55 MB/s, without it at 1,400 MB/s (numba 0.68, one core). A kernel that does try to allocate does not compile.
No `fastmath`: results must not depend on the CPU model.

numba looks at a function's own file to see whether its compiled form on disk is stale, but that form holds the kernels of
other modules that it calls. After an edit of one of those, old machine code ran, and once jumped to address 0. So a kernel's
stamp covers the files of all kernel modules that its module imports, and of those that they import.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from numba import njit, types

_IMPORT: Final = re.compile(rb"^from stages\.kernels\.(\w+) import", re.MULTILINE)


@cache
def _source(module: str) -> bytes:
    return pkgutil.get_data("stages.kernels", f"{module}.py") or b""


@cache
def _stamp(module: str) -> str:
    """Digest of a kernel module, of the kernel modules that it imports, and of those that they import."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [m.decode() for m in _IMPORT.findall(_source(name))]
    return hashlib.sha256(b"\0".join(_source(name) for name in sorted(found))).hexdigest()


def _stamped(compiled: Any) -> Any:
    """Let the compiled form on disk count as stale when any module it may hold code of has changed; no forms by literals."""
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    module = str(compiled.py_func.__module__)
    if file is not None and module.startswith("stages.kernels."):
        file._source_stamp = _stamp(module.rpartition(".")[2])
    # A counter that starts at 0 is a literal on the first pass of type inference; each call with it was compiled once for the
    # literal and again for int64: 20 of the 80 s that all kernels took.
    unliteral: Any = types.unliteral
    template = compiled.get_call_template
    compiled.get_call_template = lambda args, kws: template(
        tuple(unliteral(a) for a in args), {k: unliteral(a) for k, a in kws.items()}
    )
    return compiled


F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F, **options: Any) -> F:
    make: Any = njit  # its annotations lag behind its options
    compiled: F = _stamped(
        make(nogil=True, cache=True, _nrt=False, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    )
    return compiled


def _for_kernels(function: F, **options: Any) -> F:
    """Compiled without the wrapper for Python; a call from Python is an error, not a jump to address 0."""
    compiled: Any = _compiled(function, no_cpython_wrapper=True, **options)

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError(f"{function.__name__} is for kernels to call; from Python, call its py_func")

    compiled._compile_for_args = refuse
    compiled.add_overload = lambda result: compiled.overloads.__setitem__(tuple(result.signature.args), result)
    made: F = compiled
    return made


def kernel(function: F) -> F:
    """Compile at the first call with given types; kept on disk; runs without the GIL; must not allocate."""
    return _compiled(function)


def inner(function: F) -> F:
    """As `kernel`, for what only kernels call. Without the wrapper for Python, which unpacks named tuples of arrays at length,
    it compiles in two thirds of the time."""
    return _for_kernels(function)


def inlined(function: F) -> F:
    """As `inner`, for the few lines that an inner loop calls once per character."""
    return _for_kernels(function, forceinline=True)
