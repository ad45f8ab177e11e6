"""MkDocs hook: give the site the tree of the repository, so that links work in both.

The documents link to pictures, results, examples and each other by relative paths, as code hosts
resolve them. MkDocs reads the files of one folder only. This hook replaces that folder by the files
that ``extra.tree`` in ``mkdocs.yml`` names, under their paths in the repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# In docs/reference/command.md; a code host shows nothing there.
_HELP = re.compile(r"^<!-- help: chattts(?P<arguments>[a-z -]*) -->$", re.MULTILINE)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the files of the repository instead of those of ``docs_dir``."""
    root = _root(config)
    kept = [file for file in files if file.src_dir != config.docs_dir]  # of the theme and plugins
    paths = {
        path.relative_to(root).as_posix(): path
        for pattern in config.extra["tree"]
        for path in root.glob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }
    tree = []
    for name, path in sorted(paths.items()):
        file = File.generated(config, name, abs_src_path=str(path))
        file.edit_uri = name
        tree.append(file)
    return Files(kept + tree)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the output of ``--help`` where a page asks for it."""

    def shown(match: re.Match[str]) -> str:
        command = f"chattts{match['arguments'].rstrip()}"
        text = _help(match["arguments"].split(), _root(config))
        return f'```text title="{command} --help"\n{text}```'

    return _HELP.sub(shown, markdown)


def _help(arguments: list[str], root: Path) -> str:
    # The commands need nothing but the standard library until one of them runs.
    done = subprocess.run(
        [sys.executable, "-m", "ChatTTS", *arguments, "--help"],
        cwd=root,
        env=os.environ | {"COLUMNS": "88", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise PluginError(f"chattts {' '.join(arguments)} --help failed: {done.stderr.strip()}")
    return done.stdout
