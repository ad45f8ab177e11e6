"""Detect that the published distribution `ChatTTS` shares the environment.

Both distributions own the import name `ChatTTS`, and pip installs one over the other without a
warning. Then one folder holds files of both, and a folder of one hides a module of the other. So
this module imports nothing of the package, and runs before the rest of the package is imported.
"""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import Distribution, distributions
from pathlib import Path

PUBLISHED = "ChatTTS"
REMEDY = "pip uninstall -y ChatTTS chattts-velocity && pip install chattts-velocity"

_PACKAGE = Path(__file__).resolve().parent


def check_single_distribution(package: Path = _PACKAGE, path: list[str] | None = None) -> None:
    """Refuse a package folder that the published distribution `ChatTTS` also wrote into.

    Where the published package lies in another folder, no files are mixed. But `sys.path` decides
    which of the two a program imports, so that case is a warning.

    Args:
        package: the folder of the package that is being imported.
        path: folders to look for installed distributions in; `sys.path` by default.

    Raises:
        ImportError: both distributions are installed in `package`; the message has the remedy.
    """
    for published in distributions(name=PUBLISHED, path=sys.path if path is None else path):
        if _wrote_into(published, package):
            raise ImportError(
                f"{package} holds files of two distributions, chattts-velocity and "
                f"{PUBLISHED} {published.version}, which share the import name {PUBLISHED!r}. "
                f"Only one can be installed in an environment: {REMEDY}",
                name=PUBLISHED,
            )
        warnings.warn(
            f"{PUBLISHED} {published.version} is installed in {published.locate_file('')} as well; "
            f"this is chattts-velocity from {package}. Which of them `import {PUBLISHED}` gives "
            f"depends on sys.path; to keep this one: pip uninstall {PUBLISHED}",
            stacklevel=2,
        )


def _wrote_into(distribution: Distribution, package: Path) -> bool:
    """Return whether the distribution installed files in this package folder."""
    owned = Path(str(distribution.locate_file(PUBLISHED))).resolve()
    if owned != package.resolve():
        return False
    # An editable install lists no file of the package. Without a list, the name decides.
    files = distribution.files
    return files is None or any(file.parts[0] == PUBLISHED for file in files)
