"""The user's line behind a call into popxl."""

import os
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CONTEXTLIB = os.sep + "contextlib.py"
_inside: dict[str, bool] = {}  # by file name


def _is_inside(file: str) -> bool:
    inside = _inside.get(file)
    if inside is None:
        inside = _inside[file] = file.startswith(_PACKAGE) or file.endswith(_CONTEXTLIB)
    return inside


def user_location(skip: int = 0) -> tuple[str, int]:
    """File and line of the innermost frame outside of popxl, or `skip` frames further up; ("", 0) without one."""
    frame = sys._getframe(1)
    inside = _inside
    while True:
        file = frame.f_code.co_filename
        known = inside.get(file)
        if not (_is_inside(file) if known is None else known):
            break
        above = frame.f_back
        if above is None:
            return "", 0
        frame = above
    for _ in range(skip):
        above = frame.f_back
        if above is None:
            break
        frame = above
    return frame.f_code.co_filename, frame.f_lineno
