"""How kernels are compiled: one place for numba's options.

`_nrt=False` takes reference counting out. Kernels here own nothing and allocate nothing (they are handed every array they
write to), and the counting that numba adds around each call is atomic: with it, decoding UTF-8 through a helper ran at
55 MB/s, without it at 1,400 MB/s (numba 0.68, one core). A kernel that does try to allocate does not compile.
No `fastmath`: results must not depend on the CPU model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "cache": True, "_nrt": False, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile at the first call with given types; kept on disk; runs without the GIL; must not allocate."""
    compiled: F = njit(**_OPTIONS)(function)
    return compiled


def inlined(function: F) -> F:
    """As `kernel`, for the few lines that an inner loop calls once per character."""
    compiled: F = njit(**_OPTIONS, forceinline=True)(function)
    return compiled
