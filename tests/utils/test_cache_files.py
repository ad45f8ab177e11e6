"""Kept files: whole or absent, and never those of another user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ChatTTS.utils.cache_files import UNFINISHED, CacheFolder, UnsafeFileError, UnsafeFolderError

from ..support.file_tools import give_to_another_user

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheFolder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return CacheFolder("things")


def write(folder: CacheFolder, name: str, content: bytes = b"content", mode: int = 0o644) -> Path:
    with folder.writing(name, mode) as file:
        file.write(content)
    return folder.path / name


def read(folder: CacheFolder, name: str) -> bytes:
    with folder.reading(name) as file:
        return file.read()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_read(folder: CacheFolder) -> None:
    assert folder.names() == []
    assert not folder.path.exists()
    with pytest.raises(FileNotFoundError):
        read(folder, "a")
    write(folder, "b", b"1")
    write(folder, "a", b"2")
    write(folder, "b", b"3")
    assert (read(folder, "a"), read(folder, "b")) == (b"2", b"3")
    assert folder.names() == ["a", "b"]
    folder.remove("a")
    folder.remove("a")
    assert folder.names() == ["b"]


def test_an_error_leaves_what_was_there(folder: CacheFolder) -> None:
    write(folder, "a", b"before")

    def fail(error: type[BaseException]) -> None:
        with folder.writing("a") as file:
            file.write(b"half")
            file.flush()
            assert len(list(folder.path.iterdir())) == 2
            assert folder.names() == ["a"]
            raise error

    for error in (KeyboardInterrupt, OSError):
        with pytest.raises(error):
            fail(error)
    assert read(folder, "a") == b"before"
    assert len(list(folder.path.iterdir())) == 1


def test_the_file_reaches_the_disk_before_its_name(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def fsync(handle: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append(("folder" if is_folder else "file", folder.names()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(folder, "a")
    assert synced == [("file", []), ("folder", ["a"])]


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_no_umask_lets_others_write(folder: CacheFolder, umask: int) -> None:
    before = os.umask(umask)
    try:
        path, secret = write(folder, "a"), write(folder, "b", mode=0o600)
    finally:
        os.umask(before)
    assert mode(path) == 0o644 & ~umask
    assert mode(secret) == 0o600
    assert mode(folder.path) == mode(folder.path.parent) == 0o755 & ~umask


def test_folders_that_a_generous_umask_made_are_closed(folder: CacheFolder) -> None:
    folder.path.mkdir(parents=True)
    for path in (folder.path, folder.path.parent):
        path.chmod(0o777)
    assert read(folder, write(folder, "a").name) == b"content"
    assert mode(folder.path) == mode(folder.path.parent) == 0o755


@pytest.mark.parametrize("which", ["folder", "parent"])
def test_a_folder_of_another_user(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    write(folder, "a")
    place = folder.path if which == "folder" else folder.path.parent
    give_to_another_user(place, monkeypatch)
    for use in (folder.names, folder.make, lambda: read(folder, "a"), lambda: write(folder, "b")):
        with pytest.raises(UnsafeFolderError, match=r"belongs to another user.*XDG_CACHE_HOME"):
            use()
    assert [path.name for path in folder.path.iterdir()] == ["a"]


def test_a_folder_whose_mode_cannot_be_set(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some disks ignore modes, such as Windows disks: their files have no visible owner."""
    write(folder, "a")
    folder.path.chmod(0o777)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with pytest.raises(UnsafeFolderError, match=r"may be written by other users \(mode 0777\)"):
        read(folder, "a")


def test_a_folder_of_the_administrator(
    folder: CacheFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's image may bring the cache, while its user has an arbitrary number."""
    path = write(folder, "a")
    if path.stat().st_uid != 0:
        pytest.skip("only the administrator has such files")
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert read(folder, "a") == b"content"


def test_a_file_of_another_user(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder, "a")
    if os.geteuid() != 0:
        pytest.skip("only the administrator can give files away")
    give_to_another_user(path, monkeypatch)
    with pytest.raises(UnsafeFileError, match=r"a belongs to another user \(number 4242\)"):
        read(folder, "a")


@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_a_file_that_others_may_write(folder: CacheFolder, bits: int) -> None:
    path = write(folder, "a")
    path.chmod(0o644 | bits)
    with pytest.raises(UnsafeFileError, match="may be written by other users"):
        read(folder, "a")


def test_what_is_no_file(folder: CacheFolder) -> None:
    path = write(folder, "a")
    (folder.path / "link").symlink_to(path)
    os.mkfifo(folder.path / "pipe")
    (folder.path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(UnsafeFileError, match=f"{name} is (a link|no file)"):
            read(folder, name)


def test_a_folder_behind_a_link(folder: CacheFolder, tmp_path: Path) -> None:
    """Machines with small homes have such links to larger disks."""
    (tmp_path / "large").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "large")
    write(folder, "a")
    assert read(folder, "a") == b"content"


@pytest.mark.parametrize("which", ["folder", "parent"])
def test_a_link_of_another_user_to_a_folder_of_ours(
    folder: CacheFolder, tmp_path: Path, which: str
) -> None:
    """Who may write in the cache folder's parent could have files written, and modes changed."""
    if os.geteuid() != 0:
        pytest.skip("only the administrator can give links away")
    ours = tmp_path / "ours"
    (ours / "things").mkdir(parents=True)
    ours.chmod(0o775)
    target, link = {
        "parent": (ours, folder.path.parent),
        "folder": (ours / "things", folder.path),
    }[which]
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert read(folder, write(folder, "a").name) == b"content"  # our own link
    ours.chmod(0o775)
    os.chown(link, 4242, -1, follow_symlinks=False)
    for use in (folder.names, folder.make, lambda: read(folder, "a"), lambda: write(folder, "b")):
        with pytest.raises(UnsafeFolderError, match=r"is a link of another user \(number 4242\)"):
            use()
    assert mode(ours) == 0o775
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["a"]


def test_what_was_left_is_removed_once_it_is_old(folder: CacheFolder, tmp_path: Path) -> None:
    kept = write(folder, "a")
    outside = tmp_path / "outside"
    outside.write_text("stays")
    for name in ("old", "new"):
        (folder.path / f"{UNFINISHED}{name}").write_bytes(b"half")
        (folder.path / f"{UNFINISHED}{name}-folder" / "inner").mkdir(parents=True)
    (folder.path / f"{UNFINISHED}old-folder" / "link").symlink_to(outside)
    for path in [*folder.path.glob(f"{UNFINISHED}old*"), kept]:
        os.utime(path, (1, 1))
    folder.remove_unfinished()
    left = {path.name for path in folder.path.iterdir()}
    assert left == {"a", f"{UNFINISHED}new", f"{UNFINISHED}new-folder"}
    assert outside.exists()


def test_what_others_left_stays(folder: CacheFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary folders are shared."""
    folder.make()
    path = folder.path / f"{UNFINISHED}of-another"
    path.write_bytes(b"half")
    os.utime(path, (1, 1))
    give_to_another_user(path, monkeypatch)
    folder.remove_unfinished()
    assert path.exists()
