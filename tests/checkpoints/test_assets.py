"""The search for a checkpoint, the checks of its hashes, and the clearing of caches."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from ChatTTS.checkpoints import assets, hashes
from ChatTTS.checkpoints.assets import AssetFolder, is_cached, locate
from ChatTTS.checkpoints.caches import CacheEntry, cache_entries, clear_cache
from ChatTTS.checkpoints.hashes import check_hashes, verify
from ChatTTS.config import published_facts
from ChatTTS.errors import AssetError, ConfigError
from ChatTTS.utils.folders import cache_folder

from ..support.asset_tools import Hub
from ..support.places import DATA

MODEL_A = DATA / "model-a"
PUBLISHED = tuple(published_facts()["sha256"])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """An empty hub that cannot be reached."""
    cache = tmp_path_factory.mktemp("hub") / "cache"
    return Hub().instead_of_the_real_one(monkeypatch, cache)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return cache_folder()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of a whole checkpoint."""
    return Path(shutil.copytree(MODEL_A, tmp_path / "model"))


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Pretend that the files of a checkpoint are the published ones."""

    def make(path: Path) -> None:
        published = {
            name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in PUBLISHED
        }
        for module in (assets, hashes):
            monkeypatch.setattr(module, "published_facts", lambda: {"sha256": published})

    return make


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


class TestLocate:
    def test_custom_holds_the_folder(self, hub: Hub) -> None:
        folder = locate("custom", custom_path=MODEL_A)
        assert (folder.origin, folder.path) == ("custom", MODEL_A)
        files = [folder.config, folder.gpt, folder.gpt_config, folder.embed, folder.decoder]
        files += [folder.dvae, folder.vocos, folder.tokenizer / "tokenizer.json"]
        assert all(file.is_file() for file in files)
        assert len(set(files)) == len(files)
        assert folder.homophones == MODEL_A / "asset" / "homophones_map.json"
        assert hub.asked == []

    def test_custom_is_the_folder_under_any_name(self, tmp_path: Path) -> None:
        voice = tmp_path / "my voice"
        shutil.copytree(MODEL_A / "asset", voice)
        folder = locate("custom", custom_path=str(voice))
        assert folder.gpt == voice / "gpt" / "model.safetensors"
        assert folder.gpt.is_file()

    def test_a_path_may_be_relative_or_begin_at_home(
        self, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(model.parent))
        monkeypatch.setenv("USERPROFILE", str(model.parent))
        assert locate("custom", custom_path="~/model").path == model
        monkeypatch.chdir(model.parent)
        found = locate("custom", custom_path="model")
        monkeypatch.chdir(MODEL_A)
        assert found.gpt.is_file(), "a later change of folder must not move the checkpoint"

    def test_local_takes_the_current_folder(
        self, hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hub.cached = hub.online = MODEL_A
        monkeypatch.chdir(model)
        folder = locate()
        assert (folder.origin, folder.path.resolve()) == ("local", model.resolve())

    def test_local_takes_the_path_that_is_named(
        self, hub: Hub, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(MODEL_A)
        folder = locate("local", custom_path=model)
        assert (folder.origin, folder.path) == ("local", model)
        hub.cached = MODEL_A
        with pytest.raises(AssetError, match="the cable is out"):
            locate("local", custom_path=tmp_path / "elsewhere")

    @pytest.mark.parametrize("source", ["local", "huggingface"])
    def test_then_the_cache_then_the_hub(
        self, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        hub.cached = hub.online = MODEL_A
        assert locate(source) == AssetFolder(MODEL_A, "huggingface")
        assert hub.asked == []
        hub.cached = None
        assert locate(source) == AssetFolder(MODEL_A, "huggingface")
        assert hub.asked == ["download"]

    def test_huggingface_does_not_take_the_current_folder(
        self, hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hub.cached = MODEL_A
        monkeypatch.chdir(model)
        assert locate("huggingface").path == MODEL_A

    def test_a_cache_that_holds_a_part_is_completed(
        self, hub: Hub, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (model / "asset" / "DVAE.safetensors").unlink()
        monkeypatch.chdir(tmp_path)
        hub.cached, hub.online = model, MODEL_A
        assert not is_cached()
        assert locate().path == MODEL_A
        assert hub.asked == ["download"]

    @pytest.mark.parametrize("source", ["local", "huggingface"])
    def test_force_passes_over_what_is_there(
        self, hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch, source: str
    ) -> None:
        monkeypatch.chdir(model)
        hub.cached = hub.online = MODEL_A
        assert locate(source, force_redownload=True).path == MODEL_A
        assert hub.asked == ["forced download"]

    def test_without_files_and_hub_it_fails_with_remedies(
        self, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # In particular, it does not fall back to the bundled voice.
        monkeypatch.chdir(tmp_path)
        with pytest.raises(AssetError) as caught:
            locate()
        for said in ("the cable is out", "HF_ENDPOINT", "chattts download", "custom_path"):
            assert said in str(caught.value)
        assert "source='bundled'" in str(caught.value)

    def test_a_folder_of_that_name_may_be_about_something_else(
        self, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "asset").mkdir()
        (tmp_path / "asset" / "logo.png").touch()
        monkeypatch.chdir(tmp_path)
        hub.cached = MODEL_A
        assert locate().path == MODEL_A

    def test_files_of_another_project_in_the_current_folder_are_not_taken(
        self, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(MODEL_A / "asset" / "gpt", tmp_path / "gpt")
        monkeypatch.chdir(tmp_path)
        hub.cached = MODEL_A
        assert locate().path == MODEL_A

    @pytest.mark.parametrize("source", ["local", "custom"])
    def test_all_missing_files_are_named_at_once(
        self, hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch, source: str
    ) -> None:
        gone = [
            "asset/Embed.safetensors",
            "asset/gpt/config.json",
            "asset/tokenizer/tokenizer.json",
        ]
        for name in gone:
            (model / name).unlink()
        hub.cached = hub.online = MODEL_A
        monkeypatch.chdir(model)
        with pytest.raises(AssetError) as caught:
            locate(source, custom_path=model if source == "custom" else None)
        assert all(name in str(caught.value) for name in gone)
        assert "Vocos" not in str(caught.value)

    def test_what_a_checkpoint_may_lack(self, model: Path) -> None:
        for name in ("config.json", "tokenizer/tokenizer_config.json"):
            (model / "asset" / name).unlink()
        (model / "asset" / "tokenizer" / "special_tokens_map.json").unlink()
        assert locate("custom", custom_path=model).missing() == []

    def test_bundled(self, hub: Hub) -> None:
        folder = locate("bundled")
        assert folder.origin == "bundled"
        assert folder.gpt.is_file()
        assert folder.config.is_file()

    def test_wrong_arguments(self) -> None:
        with pytest.raises(ConfigError, match="local, custom, huggingface, bundled"):
            locate("../../etc")
        with pytest.raises(ConfigError, match="custom_path"):
            locate("custom")
        with pytest.raises(AssetError, match="there is no folder"):
            locate("custom", custom_path=MODEL_A / "expected.json")


class TestHashes:
    def test_published_files_load_in_silence(
        self,
        own_cache: Path,
        publish: Callable[[Path], None],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        publish(MODEL_A)
        check_hashes(AssetFolder(MODEL_A, "huggingface"))
        check_hashes(AssetFolder(MODEL_A, "local"))
        assert warnings(caplog) == []
        assert verify(AssetFolder(MODEL_A, "local")).ok

    def test_a_changed_file_from_the_hub_is_an_error(
        self, own_cache: Path, model: Path, publish: Callable[[Path], None]
    ) -> None:
        publish(model)
        names = ("asset/gpt/model.safetensors", "asset/tokenizer/tokenizer.json")
        patched: Any = assets  # patched by the fixture with the values of this model
        expected = {name: patched.published_facts()["sha256"][name] for name in names}
        for name in names:
            with (model / name).open("ab") as file:
                file.write(b"\0")
        with pytest.raises(AssetError) as caught:
            check_hashes(AssetFolder(model, "huggingface"))
        message = str(caught.value)
        for name in names:
            found = hashlib.sha256((model / name).read_bytes()).hexdigest()
            assert f"{name} should have sha256 {expected[name]} but has {found}" in message
        assert "Vocos" not in message
        assert "chattts download --force" in message

    @pytest.mark.parametrize("origin", ["local", "custom"])
    def test_a_custom_checkpoint_is_one_warning(
        self, own_cache: Path, caplog: pytest.LogCaptureFixture, origin: Any
    ) -> None:
        check_hashes(AssetFolder(MODEL_A, origin))
        (message,) = warnings(caplog)
        assert "not the published checkpoint" in message
        assert str(MODEL_A) in message

    def test_the_bundled_voice_has_no_published_hashes(
        self, own_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bundled = locate("bundled")
        found = verify(bundled)
        assert {file.status for file in found.files} == {"unknown"}
        assert found.ok
        monkeypatch.setattr(hashes, "sha256", lambda *_: pytest.fail("hashed for nothing"))
        check_hashes(bundled)

    def test_verify_says_it_file_by_file(
        self, own_cache: Path, model: Path, publish: Callable[[Path], None]
    ) -> None:
        publish(model)
        (model / "asset" / "Vocos.safetensors").unlink()
        (model / "asset" / "DVAE.safetensors").write_bytes(b"other")
        found = verify(AssetFolder(model, "local"))
        status = {file.name: file.status for file in found.files}
        assert status == {
            **dict.fromkeys(PUBLISHED, "ok"),
            "asset/Vocos.safetensors": "missing",
            "asset/DVAE.safetensors": "different",
            "asset/config.json": "unknown",
        }
        assert not found.ok
        (dvae,) = [file for file in found.files if file.name == "asset/DVAE.safetensors"]
        assert dvae.found == hashlib.sha256(b"other").hexdigest()

    def test_small_files_leave_no_trace(self, own_cache: Path) -> None:
        check_hashes(AssetFolder(MODEL_A, "custom"))
        verify(AssetFolder(MODEL_A, "custom"))
        assert not own_cache.exists()


class TestRememberedHashes:
    @pytest.fixture(autouse=True)
    def _remember_all(
        self,
        own_cache: Path,
        model: Path,
        publish: Callable[[Path], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(hashes, "_REMEMBERED_FROM", 0)
        publish(model)

    def forge(self, path: Path) -> None:
        """Change a file without a change of its size and time."""
        stat = path.stat()
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def test_a_file_is_not_hashed_twice(self, model: Path) -> None:
        folder = AssetFolder(model, "huggingface")
        check_hashes(folder)
        self.forge(folder.gpt)
        check_hashes(folder)  # trusts the remembered hash and reads no file

    def test_verify_hashes_always_and_corrects_the_memory(self, model: Path) -> None:
        folder = AssetFolder(model, "huggingface")
        check_hashes(folder)
        self.forge(folder.gpt)
        assert not verify(folder).ok
        with pytest.raises(AssetError, match=r"gpt/model\.safetensors"):
            check_hashes(folder)

    def test_verify_may_trust_the_memory(self, model: Path) -> None:
        folder = AssetFolder(model, "huggingface")
        assert verify(folder, again=False).ok  # which hashes what is not remembered
        self.forge(folder.gpt)
        assert verify(folder, again=False).ok
        os.utime(folder.gpt)
        assert not verify(folder, again=False).ok

    def test_a_file_with_another_time_is_hashed_again(self, model: Path) -> None:
        folder = AssetFolder(model, "huggingface")
        check_hashes(folder)
        self.forge(folder.gpt)
        os.utime(folder.gpt)
        with pytest.raises(AssetError, match=r"gpt/model\.safetensors"):
            check_hashes(folder)

    @pytest.mark.parametrize(
        "content", [b"", b"[1]", b'{"a": 1}', b'{"a": [1]}', b"\xff\xfe", b"null"]
    )
    def test_a_damaged_memory_is_no_memory(
        self, model: Path, own_cache: Path, content: bytes
    ) -> None:
        (own_cache / "hashes").mkdir(parents=True)
        (own_cache / "hashes" / "sha256.json").write_bytes(content)
        folder = AssetFolder(model, "huggingface")
        check_hashes(folder)
        self.forge(folder.gpt)
        check_hashes(folder)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
    def test_a_memory_that_others_could_have_made_is_none(
        self, model: Path, own_cache: Path
    ) -> None:
        folder = AssetFolder(model, "huggingface")
        check_hashes(folder)
        self.forge(folder.gpt)
        check_hashes(folder)
        memory = own_cache / "hashes" / "sha256.json"
        memory.chmod(0o666)
        with pytest.raises(AssetError, match=r"gpt/model\.safetensors"):
            check_hashes(folder)
        memory.unlink()
        os.mkfifo(memory)
        with pytest.raises(AssetError, match=r"gpt/model\.safetensors"):
            check_hashes(folder)

    def test_a_cache_that_cannot_be_written_is_no_error(
        self, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        check_hashes(AssetFolder(model, "huggingface"))

    def test_files_that_are_gone_are_forgotten(self, model: Path, own_cache: Path) -> None:
        check_hashes(AssetFolder(model, "huggingface"))
        moved = model.rename(model.with_name("moved"))
        check_hashes(AssetFolder(moved, "huggingface"))
        text = (own_cache / "hashes" / "sha256.json").read_text(encoding="utf-8")
        assert "moved" in text
        assert str(model / "asset") not in text


class TestCache:
    @pytest.fixture(autouse=True)
    def _hub_cache(self, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").write_bytes(b"12345")
        return outside

    @pytest.fixture
    def filled(self, tmp_path: Path, own_cache: Path, outside: Path) -> dict[str, CacheEntry]:
        """Both caches with files; one link of the hub's cache leads outside."""
        ours = tmp_path / "hub" / "models--2Noise--ChatTTS"
        for path in (ours / "blobs", ours / "snapshots", own_cache):
            path.mkdir(parents=True)
        (ours / "blobs" / "abc").write_bytes(bytes(1000))
        (ours / "snapshots" / "model").symlink_to(Path("..", "blobs", "abc"))
        (ours / "snapshots" / "astray").symlink_to(outside, target_is_directory=True)
        other = tmp_path / "hub" / "models--other--model"
        other.mkdir()
        (other / "weights").write_bytes(bytes(10))
        (own_cache / "sha256.json").write_bytes(bytes(20))
        return {entry.name: entry for entry in cache_entries()}

    def test_nothing_there(self, tmp_path: Path, own_cache: Path) -> None:
        hub = tmp_path / "hub" / "models--2Noise--ChatTTS"
        assert cache_entries() == [
            CacheEntry("huggingface", hub, 0),
            CacheEntry("own", own_cache, 0),
        ]
        assert clear_cache(["huggingface", "own"]) == []

    def test_sizes_do_not_follow_links(self, filled: dict[str, CacheEntry]) -> None:
        assert filled["huggingface"].bytes == 1000
        assert filled["own"].bytes == 20

    def test_clearing_takes_what_is_named_and_nothing_else(
        self, filled: dict[str, CacheEntry], tmp_path: Path, outside: Path
    ) -> None:
        assert clear_cache(["huggingface"]) == [filled["huggingface"]]
        assert not filled["huggingface"].path.exists()
        assert filled["own"].path.exists()
        assert (tmp_path / "hub" / "models--other--model" / "weights").exists()
        assert (outside / "precious").read_bytes() == b"12345"
        assert clear_cache({"own"}) == [filled["own"]]
        assert not filled["own"].path.exists()

    def test_an_unknown_name_deletes_nothing(self, filled: dict[str, CacheEntry]) -> None:
        with pytest.raises(ConfigError, match=r"'\.\.'.*huggingface, own"):
            clear_cache(["own", ".."])
        assert filled["own"].path.exists()

    def test_a_link_in_place_of_the_folder_is_refused(
        self, filled: dict[str, CacheEntry], outside: Path
    ) -> None:
        own = filled["own"].path
        shutil.rmtree(own)
        own.symlink_to(outside, target_is_directory=True)
        with pytest.raises(AssetError, match="cannot be deleted"):
            clear_cache(["own"])
        assert (outside / "precious").exists()

    @pytest.mark.parametrize(
        ("platform", "variables", "expected"),
        [
            ("linux", {}, ".cache/chattts-velocity"),
            ("linux", {"XDG_CACHE_HOME": "{home}/x"}, "x/chattts-velocity"),
            ("darwin", {}, "Library/Caches/chattts-velocity"),
            ("win32", {"LOCALAPPDATA": "{home}/L"}, "L/chattts-velocity"),
            ("win32", {}, "AppData/Local/chattts-velocity"),
        ],
    )
    def test_where_it_lies(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        platform: str,
        variables: dict[str, str],
        expected: str,
    ) -> None:
        for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(home=tmp_path))
        assert cache_folder() == tmp_path / expected
