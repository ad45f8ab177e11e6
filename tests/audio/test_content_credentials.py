"""C2PA manifests, where the package for them is installed."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ChatTTS.audio import Mark, find_mark, read, save
from ChatTTS.audio.content_credentials import (
    SIGNED_FORMATS,
    Credentials,
    check_signed_format,
    find_manifest,
    has_reader,
    sign,
)
from ChatTTS.config.mark import SOFTWARE
from ChatTTS.errors import AudioError, ConfigError
from ChatTTS.longform.sound_file import SoundFile, WorkInfo

from ..support import certificates

TONE = (0.3 * np.sin(np.arange(4800) / 20)).astype(np.float32)
NEEDS_C2PA = pytest.mark.skipif(not has_reader(), reason="c2pa-python is not installed")


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return Credentials(*certificates.write_certificate(tmp_path))


def spoken(path: Path) -> Path:
    if path.suffix in (".m4a", ".m4b"):
        pytest.importorskip("av")
        with SoundFile(path, WorkInfo("A title"), Mark(date(2026, 3, 1))) as file:
            file.write(TONE)
        return path
    return save(path, TONE)


@NEEDS_C2PA
@pytest.mark.parametrize("format", SIGNED_FORMATS)
def test_a_signed_file(tmp_path: Path, credentials: Credentials, format: str) -> None:
    path = spoken(tmp_path / f"a.{format}")
    before = read(path)[0] if "m4" not in format else None
    sign(path, credentials, Mark(date(2026, 3, 1)))
    mark = find_mark(path)
    assert mark.is_synthetic
    manifest = find_manifest(path, mark.format)
    assert manifest is not None
    assert (manifest.is_intact, manifest.is_synthetic, manifest.faults) == (True, True, ())
    assert manifest.signer == "Test signer, Test"
    assert manifest.software == SOFTWARE
    assert before is None or np.array_equal(read(path)[0], before)


@NEEDS_C2PA
@pytest.mark.parametrize("kind", certificates.KINDS)
def test_keys_of_other_kinds(tmp_path: Path, kind: str) -> None:
    path = spoken(tmp_path / "a.wav")
    sign(path, Credentials(*certificates.write_certificate(tmp_path, kind)))
    manifest = find_manifest(path, "WAV")
    assert manifest is not None
    assert manifest.is_intact


@NEEDS_C2PA
def test_a_file_that_was_changed(tmp_path: Path, credentials: Credentials) -> None:
    path = spoken(tmp_path / "a.wav")
    sign(path, credentials)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    manifest = find_manifest(path, "WAV")
    assert manifest is not None
    assert not manifest.is_intact
    assert manifest.faults == ("assertion.dataHash.mismatch",)


@NEEDS_C2PA
def test_files_without_a_manifest(tmp_path: Path) -> None:
    assert find_manifest(spoken(tmp_path / "a.wav"), "WAV") is None
    assert find_manifest(spoken(tmp_path / "a.opus"), "Ogg") is None
    (tmp_path / "b.wav").write_bytes(b"RIFF\0\0\0\0WAVE" + b"\xff" * 50)
    broken = find_manifest(tmp_path / "b.wav", "WAV")
    assert broken is None or not broken.is_intact
    with pytest.raises(AudioError, match="cannot be read"):
        find_manifest(tmp_path / "no.wav", "WAV")


@NEEDS_C2PA
def test_a_certificate_that_c2pa_refuses(tmp_path: Path) -> None:
    path = spoken(tmp_path / "a.wav")
    before = path.read_bytes()
    expired = Credentials(*certificates.write_certificate(tmp_path, days=-1))
    with pytest.raises(ConfigError, match=r"cannot be signed with .*cert\.pem.*has not expired"):
        sign(path, expired)
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"a.wav", "cert.pem", "key.pem"}


@NEEDS_C2PA
def test_keys_that_cannot_be_used(tmp_path: Path, credentials: Credentials) -> None:
    certificate, key = credentials.certificate, credentials.key
    other = tmp_path / "other.pem"
    certificates.write_key(other, certificates.new_key())
    with pytest.raises(ConfigError, match="does not belong to the first certificate"):
        Credentials(certificate, other).check()
    certificates.write_key(other, certificates.new_key(), b"secret")
    with pytest.raises(ConfigError, match="has a passphrase: write it without one"):
        Credentials(certificate, other).check()
    other.write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="holds no private key in PEM"):
        Credentials(certificate, other).check()
    with pytest.raises(ConfigError, match="holds no certificate in PEM"):
        Credentials(key, key).check()
    with pytest.raises(ConfigError, match=r"the key .*no\.pem does not exist \(--c2pa-key\)"):
        Credentials(certificate, tmp_path / "no.pem").check()
    with pytest.raises(ConfigError, match="it is a folder"):
        Credentials(tmp_path, key).check()


def test_formats_that_hold_no_manifest() -> None:
    check_signed_format("a.M4B")
    with pytest.raises(AudioError, match=r"a\.opus cannot hold a C2PA manifest; use one of \.wav"):
        check_signed_format("a.opus")


def test_without_the_package(
    tmp_path: Path, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "c2pa", None)
    assert not has_reader()
    with pytest.raises(ConfigError, match=r"pip install 'chattts-velocity\[c2pa\]'"):
        credentials.check()
