"""Every relative link between the Markdown pages of the repository leads to a file, and its anchor to a heading."""

import os
import pathlib
import re
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = {"build", "dist", "node_modules"}  # and whatever begins with a dot


def pages(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        yield from (pathlib.Path(folder, name) for name in sorted(files) if name.endswith(".md"))


def prose(path):
    """The text of a page without code, in which brackets are no links."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


def anchors(path):
    """The anchors that GitHub gives to the headings of a page."""
    found = set()
    text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} +(.+?)[ #]*$", text, flags=re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        base = name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = 0
        while name in found:
            count += 1
            name = f"{base}-{count}"
        found.add(name)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def broken_links(root):
    broken = []
    for page in pages(root):
        text = prose(page)
        targets = re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", text) + re.findall(
            r"^\[[^]]+\]: +(\S+)", text, re.MULTILINE
        )
        for target in targets:
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue
            name, _, anchor = urllib.parse.unquote(target).partition("#")
            to = (page.parent / name).resolve() if name else page
            if not to.exists():
                broken.append(f"{page.relative_to(root)}: no file {name}")
            elif anchor and to.suffix == ".md" and anchor not in anchors(to):
                broken.append(f"{page.relative_to(root)}: no heading {name}#{anchor}")
    return broken


def test_relative_links_and_anchors_of_all_pages_resolve():
    assert len(list(pages(ROOT))) > 40
    assert broken_links(ROOT) == []


@pytest.mark.parametrize(
    "link, found",
    [
        ("[x](other.md)", None),
        ("[x](other.md#speed-f16-and-f32)", None),
        ("[x](other.md#twice-1)", None),
        ("[x](#own)", None),
        ("[x](https://example.org/none.md)", None),
        ("`[x](none.md)`\n\n```\n[y](none.md)\n```", None),
        ("[x](none.md)", "page.md: no file none.md"),
        ("[x]: none.md", "page.md: no file none.md"),
        ("[x](other.md#none)", "page.md: no heading other.md#none"),
        ("[x](other.md#in-code)", "page.md: no heading other.md#in-code"),
        ("[x](#none)", "page.md: no heading #none"),
    ],
)
def test_a_link_is_broken_when_its_file_or_heading_is_missing(tmp_path, link, found):
    (tmp_path / "page.md").write_text(f"# Own\n\n{link}\n")
    (tmp_path / "other.md").write_text("# Speed: `f16` and *f32*\n\n## Twice\n\n## Twice\n\n```\n# In code\n```\n")
    assert broken_links(tmp_path) == ([found] if found else [])
