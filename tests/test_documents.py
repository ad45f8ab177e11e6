"""Check the links of the documents, the pages of the site, and the translations."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ChatTTS.params import LowLatency
from ChatTTS.serving.settings import Limits

from .support.places import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATTERNS = ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/*.md", "recipes/**/README.md")
DOCUMENTS = sorted({path for pattern in PATTERNS for path in ROOT.glob(pattern)})
TRANSLATED = [
    (ROOT / "README.md", ROOT / "README.zh-CN.md"),
    (ROOT / "docs" / "quick-start.md", ROOT / "docs" / "zh" / "quick-start.md"),
]

_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"\]\((?P<path>[^()\s#]*)(?:#(?P<anchor>[^()\s]+))?\)")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def prose(document: Path) -> str:
    """Return a document without its blocks of code."""
    return _FENCE.sub("", document.read_text(encoding="utf-8"))


def blocks(document: Path) -> list[str]:
    return _FENCE.findall(document.read_text(encoding="utf-8"))


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as code hosts and the site make them."""
    found: set[str] = set()
    for title in _HEADING.findall(prose(document)):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(next(s for s in numbered(slug) if s not in found))
    return found


def numbered(slug: str) -> Iterator[str]:
    """Yield the anchors of headings with one text; the first has no number."""
    yield slug
    count = 0
    while True:
        count += 1
        yield f"{slug}-{count}"


def lost_links(document: Path) -> list[str]:
    lost = []
    for match in _LINK.finditer(_CODE.sub("", prose(document))):
        path, anchor = unquote(match["path"]), match["anchor"]
        if path.startswith(("https:", "http:", "mailto:")):
            continue
        target = document.parent / path if path else document
        # A folder is a page on a code host, and none on the site.
        if not target.is_file() or (anchor and unquote(anchor) not in anchors(target)):
            lost.append(match[0])
    return lost


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_to_files_and_headings(document: Path) -> None:
    assert lost_links(document) == []


def test_lost_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A title\n\n```sh\n# no title\n```\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n\n## Twice\n\n## Twice\n\n[a](other.md) [b](other.md#a-title) [c](#here)"
        " [d](#twice-1) `[e](nowhere.md)` [f](https://example.org/x) [g](lost.md)"
        " [h](other.md#no-title) [i](#twice-2) ![j](lost.png) [k](.)\n",
        encoding="utf-8",
    )
    expected = ["](lost.md)", "](other.md#no-title)", "](#twice-2)", "](lost.png)", "](.)"]
    assert lost_links(page) == expected


# ---------------------------------------------------------------- tables of defaults

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "days": 86_400, "": 1}
_DEFAULT = re.compile(r"\| `(?P<name>\w+)` \| (?P<number>[\d.]+) ?(?P<unit>[KMG]iB|days|) \|")


@pytest.mark.parametrize(
    ("page", "settings", "least"),
    [("serving/limits", Limits(), 18), ("streaming", LowLatency(), 5)],
)
def test_tables_have_the_defaults_of_the_code(page: str, settings: Any, least: int) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    told = {
        row["name"]: float(row["number"]) * _UNITS[row["unit"]]
        for row in _DEFAULT.finditer(text)
        if hasattr(settings, row["name"])
    }
    assert len(told) >= least
    assert told == {name: getattr(settings, name) for name in told}


# ---------------------------------------------------------------- the site


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A YAML loader that ignores the Python tags of MkDocs."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def site() -> dict[str, Any]:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    assert isinstance(settings, dict)
    return settings


def pages(navigation: object) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    for entry in navigation.values() if isinstance(navigation, dict) else ():
        yield from pages(entry)
    for entry in navigation if isinstance(navigation, list) else ():
        yield from pages(entry)


def tree() -> set[str]:
    """Return the files of the site, as docs/site/tree.py selects them."""
    found = (path for pattern in site()["extra"]["tree"] for path in ROOT.glob(pattern))
    return {name(path) for path in found if path.is_file()}


def test_the_navigation_has_every_page_once() -> None:
    shown = list(pages(site()["nav"]))
    assert sorted(shown) == sorted(path for path in tree() if path.endswith(".md"))
    assert {name(document) for document in DOCUMENTS} <= set(shown)


def test_the_site_has_every_file_that_its_pages_link_to() -> None:
    files = tree()
    lost = []
    for page in pages(site()["nav"]):
        for match in _LINK.finditer(_CODE.sub("", prose(ROOT / page))):
            if match["path"] and not match["path"].startswith(("https:", "http:", "mailto:")):
                target = (ROOT / page).parent / unquote(match["path"])
                if target.resolve().relative_to(ROOT).as_posix() not in files:
                    lost.append(f"{page}: {match[0]}")
    assert lost == []


def test_the_reference_has_every_command() -> None:
    from ChatTTS.cli.commands import _parser

    def commands(parser: Any, words: tuple[str, ...]) -> Iterator[str]:
        yield " ".join(words)
        for action in parser._actions:
            if isinstance(action.choices, dict):
                for word, inner in action.choices.items():
                    yield from commands(inner, (*words, word))

    text = (ROOT / "docs" / "reference" / "command.md").read_text(encoding="utf-8")
    shown = re.findall(r"^<!-- help: (.*) -->$", text, re.MULTILINE)
    assert sorted(shown) == sorted(commands(_parser(), ("chattts",)))


def test_the_reference_names_what_is_there() -> None:
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for path in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert defined(path), f"{name(page)}: {path}"


def defined(path: str) -> bool:
    """Return whether a module of this name is there, or a module that defines the last part."""
    parts = path.split(".")
    if ROOT.joinpath(*parts).is_dir() or ROOT.joinpath(*parts).with_suffix(".py").is_file():
        return True
    module = ROOT.joinpath(*parts[:-1]).with_suffix(".py")
    pattern = rf"^(?:class|def|async def) {parts[-1]}\b"
    return module.is_file() and bool(
        re.search(pattern, module.read_text(encoding="utf-8"), re.MULTILINE)
    )


# ---------------------------------------------------------------- translations


@pytest.mark.parametrize(("original", "translation"), TRANSLATED, ids=name)
def test_a_translation_has_the_code_of_its_original(original: Path, translation: Path) -> None:
    assert blocks(translation) == blocks(original)
    assert len(blocks(original)) > 3


@pytest.mark.parametrize(("original", "translation"), TRANSLATED, ids=name)
def test_a_translation_has_the_sections_of_its_original(original: Path, translation: Path) -> None:
    def levels(document: Path) -> list[str]:
        return re.findall(r"^(#+) ", prose(document), re.MULTILINE)

    assert levels(translation) == levels(original)


def test_readmes_link_to_each_other() -> None:
    original, translation = TRANSLATED[0]
    assert "](README.zh-CN.md)" in original.read_text(encoding="utf-8").split("\n## ")[0]
    assert "](README.md)" in translation.read_text(encoding="utf-8").split("\n## ")[0]


# ---------------------------------------------------------------- tools of maintainers


def pins(python: str) -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in applying([line for line in lines if not line.startswith("#")], python)
    }


def applying(lines: list[str], python: str) -> Iterator[Requirement]:
    """Yield the requirements among ``lines`` that apply to a version of Python."""
    for line in lines:
        requirement = Requirement(line)
        environment = {"python_version": python, "sys_platform": "linux", "extra": ""}
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.14"])
def test_groups_are_pinned_within_their_ranges(python: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = pins(python)
    lines = [line for group in project["dependency-groups"].values() for line in group]
    for wanted in applying(lines, python):
        assert wanted.specifier.contains(known[canonicalize_name(wanted.name)]), wanted


def test_pre_commit_takes_the_pinned_versions() -> None:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    tools = [
        tool
        for repository in settings["repos"]
        for hook in repository["hooks"]
        for tool in hook.get("additional_dependencies", [])
    ]
    known = pins("3.11")
    assert tools
    for tool in tools:
        wanted = Requirement(tool)
        assert str(wanted.specifier) == f"=={known[canonicalize_name(wanted.name)]}", tool
