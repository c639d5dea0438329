"""Lists of dtypes, for tests of programs."""

from popxl import dtypes


def get_all_dtypes() -> list[dtypes.dtype]:
    """All dtypes but bool."""
    return [t for t in dtypes._BY_NUMBER.values() if t is not dtypes.bool]


def get_all_int_dtypes(include_signed: bool = True, include_unsigned: bool = True) -> list[dtypes.dtype]:
    """All integer dtypes, those with a sign, or those without."""
    return [t for t in dtypes._BY_NUMBER.values() if t.is_int and (include_signed if t.is_signed else include_unsigned)]
