"""Element types: `popxl.float32` and its like, and what they are in NumPy, torch, Python and PopART.

Torch is not imported here: its types are looked up once something else has imported it.
"""

import builtins
import sys
from typing import Any, Optional

import numpy as np

np_dtype_float8_143 = np.dtype([("float8_143", "u1")])
np_dtype_float8_152 = np.dtype([("float8_152", "u1")])


class dtype:
    """An element type. There is one object of each type; they are compared by identity.

    Example:
        >>> popxl.dtype.as_dtype(np.float16)
        popxl.dtypes.float16
    """

    __slots__ = ("_name", "_number", "_is_complex", "_is_int", "_is_floating_point", "_is_signed", "_np", "_pt_name")

    _name: str
    _number: builtins.int  # of popart.DataType
    _is_complex: builtins.bool
    _is_int: builtins.bool
    _is_floating_point: builtins.bool
    _is_signed: builtins.bool
    _np: Any
    _pt_name: Optional[str]

    def __init__(self) -> None:
        raise TypeError("popxl.dtype cannot be made: use popxl.float32 and its like, or popxl.dtype.as_dtype.")

    @property
    def name(self) -> str:
        """Name: `"float32"`."""
        return self._name

    @property
    def is_complex(self) -> builtins.bool:
        """Whether it has an imaginary part."""
        return self._is_complex

    @property
    def is_int(self) -> builtins.bool:
        """Whether it holds whole numbers; False for `bool`."""
        return self._is_int

    @property
    def is_floating_point(self) -> builtins.bool:
        """Whether it holds real numbers."""
        return self._is_floating_point

    @property
    def is_signed(self) -> builtins.bool:
        """Whether it holds negative numbers."""
        return self._is_signed

    @property
    def _pb_dtype(self) -> Any:
        import popart._internal.ir as core

        return getattr(core.DataType, _PB_NAMES[self._number])

    @classmethod
    def from_name(cls, name: str) -> "dtype":
        """The type of that name. Raises ValueError when there is none."""
        found = _STR_TO_POPXL.get(name)
        if found is None:
            raise ValueError(f"There is no popxl.dtype {name!r}; there are {', '.join(sorted(_STR_TO_POPXL))}.")
        return found

    @classmethod
    def as_dtype(cls, type_like: Any) -> "dtype":
        """The type that `type_like` stands for: a popxl, NumPy or torch type, a name, `bool` or `float`, a PopART
        type, or anything that has a dtype.

        Raises:
            ValueError: there is none.
        """
        if isinstance(type_like, dtype):
            return type_like
        if isinstance(type_like, str) and type_like in _STR_TO_POPXL:
            return _STR_TO_POPXL[type_like]
        try:
            for table in (_PY_TO_POPXL, _NP_TO_POPXL, _pt_to_popxl()):
                if type_like in table:
                    return table[type_like]
            if type(type_like).__name__ == "DataType":  # of popart: looked up only where it can be one
                found = _pb_to_popxl().get(type_like)
                if found is not None:
                    return found
        except TypeError:  # not hashable
            pass
        try:
            as_np = _NP_TO_POPXL.get(np.dtype(type_like)) if type_like is not None else None
            if as_np is not None:
                return as_np
        except (TypeError, ValueError):
            pass
        own = getattr(type_like, "dtype", None)
        if own is not None and own is not type_like:
            return cls.as_dtype(own)
        raise ValueError(f"There is no popxl.dtype for {type_like!r} of type {type(type_like).__name__}.")

    def as_numpy(self) -> Any:
        """The NumPy type: a `np.dtype`. Raises TypeError when there is none."""
        if self._np is None:
            raise TypeError(f"{self!r} has no counterpart in NumPy.")
        return self._np

    def as_torch(self) -> Any:
        """The torch type.

        Raises:
            ModuleNotFoundError: torch is not installed.
            TypeError: torch has no counterpart.
        """
        import torch

        if self._pt_name is None:
            raise TypeError(f"{self!r} has no counterpart in torch.")
        return getattr(torch, self._pt_name)

    def __repr__(self) -> str:
        return f"popxl.dtypes.{self._name}"

    def __reduce__(self) -> Any:
        return (dtype.from_name, (self._name,))


_STR_TO_POPXL: dict[str, dtype] = {}
_NP_TO_POPXL: dict[Any, dtype] = {}
_BY_NUMBER: dict[int, dtype] = {}
_PB_NAMES = [
    "UINT8",
    "INT8",
    "UINT16",
    "INT16",
    "INT32",
    "INT64",
    "UINT32",
    "UINT64",
    "BOOL",
    "FLOAT",
    "FLOAT16",
    "BFLOAT16",
    "FLOAT8_143",
    "FLOAT8_152",
    "DOUBLE",
    "COMPLEX64",
    "COMPLEX128",
    "STRING",
    "UNDEFINED",
]  # popart.DataType in its order


def _make(name: str, pb_name: str, kind: str, np_type: Any, pt_name: Optional[str]) -> dtype:
    """`kind`: b(ool), i(nteger), u(nsigned), f(loat), c(omplex)."""
    self = object.__new__(dtype)
    self._name, self._number = name, _PB_NAMES.index(pb_name)
    self._is_int, self._is_signed = kind in "iu", kind in "ifc"
    self._is_floating_point, self._is_complex = kind == "f", kind == "c"
    self._np, self._pt_name = np.dtype(np_type), pt_name
    _STR_TO_POPXL[name] = _NP_TO_POPXL[self._np] = _BY_NUMBER[self._number] = self
    return self


bool = _make("bool", "BOOL", "b", np.bool_, "bool")
int8 = _make("int8", "INT8", "i", np.int8, "int8")
int16 = _make("int16", "INT16", "i", np.int16, "int16")
int32 = _make("int32", "INT32", "i", np.int32, "int32")
int64 = _make("int64", "INT64", "i", np.int64, "int64")
uint8 = _make("uint8", "UINT8", "u", np.uint8, "uint8")
uint16 = _make("uint16", "UINT16", "u", np.uint16, None)
uint32 = _make("uint32", "UINT32", "u", np.uint32, None)
uint64 = _make("uint64", "UINT64", "u", np.uint64, None)
float8_143 = _make("float8_143", "FLOAT8_143", "f", np_dtype_float8_143, None)
float8_152 = _make("float8_152", "FLOAT8_152", "f", np_dtype_float8_152, None)
float16 = half = _make("float16", "FLOAT16", "f", np.float16, "float16")
float32 = float = _make("float32", "FLOAT", "f", np.float32, "float32")
float64 = double = _make("float64", "DOUBLE", "f", np.float64, "float64")
complex64 = _make("complex64", "COMPLEX64", "c", np.complex64, "complex64")
complex128 = _make("complex128", "COMPLEX128", "c", np.complex128, "complex128")

_PY_TO_POPXL: dict[Any, dtype] = {builtins.bool: bool, builtins.float: float32}
_PB_TO_POPXL: dict[Any, dtype]
_PT_TO_POPXL: dict[Any, dtype]
_FLOAT8 = (float8_143, float8_152)


def _pt_to_popxl() -> dict[Any, dtype]:
    """Types of torch; empty as long as nothing has imported it."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "float32"):
        return {}
    global _pt_table
    if not _pt_table:
        _pt_table = {getattr(torch, t._pt_name): t for t in _BY_NUMBER.values() if t._pt_name is not None}
    return _pt_table


_pt_table: dict[Any, dtype] = {}


def _pb_to_popxl() -> dict[Any, dtype]:
    """By member of popart.DataType."""
    return {t._pb_dtype: t for t in _BY_NUMBER.values()}


def __getattr__(name: str) -> Any:
    if name == "_PB_TO_POPXL":
        globals()[name] = table = _pb_to_popxl()
        return table
    if name == "_PT_TO_POPXL":
        try:  # whoever asks for the table wants torch
            import torch  # noqa: F401
        except ModuleNotFoundError:
            return {}
        globals()[name] = table = _pt_to_popxl()
        return table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
