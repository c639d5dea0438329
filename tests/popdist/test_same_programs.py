"""Instances compare their programs before the first exchange."""

import threading

import pytest

from popdist._impl import same_programs


def compared(*texts):
    """What each of as many instances finds."""
    meeting = threading.Barrier(len(texts))
    parts, found = [b""] * len(texts), [None] * len(texts)

    def instance(index):
        def gather(mine):
            parts[index] = mine
            meeting.wait(60)
            all_parts = list(parts)
            meeting.wait(60)
            assert len({len(part) for part in all_parts}) == 1
            return all_parts

        found[index] = same_programs.first_difference(texts[index], gather)

    threads = [threading.Thread(target=instance, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_equal_programs_differ_in_nothing():
    assert compared("a\nb", "a\nb", "a\nb") == [None] * 3


@pytest.mark.parametrize(
    "texts, said",
    [
        (("a\nb\nc", "a\nx\nc"), ["0 and 1 differ, first in line 2 of 3 and 3", "instance 0: b", "instance 1: x"]),
        (("a\nb", "a\nb\nc"), ["0 and 1 differ, first in line 3 of 2 and 3", "instance 0: (its end)", "instance 1: c"]),
        (("a", "a", "b"), ["0 and 2 differ, first in line 1 of 1 and 1", "instance 0: a", "instance 2: b"]),
        (("", "é"), ["first in line 1 of 0 and 1", "instance 1: é"]),
    ],
)
def test_all_instances_name_the_first_difference(texts, said):
    found = compared(*texts)
    assert len(set(found)) == 1 and all(part in found[0] for part in said)
