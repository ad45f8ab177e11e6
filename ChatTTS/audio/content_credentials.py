"""C2PA manifests: signed statements of how a sound file came to be, by the package c2pa-python."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.mark import SOURCE_TYPE, Mark, today
from ..errors import AudioError, ConfigError, printable
from ..utils.cache_files import atomic_write
from ..utils.untrusted import LONGEST_FILE, open_regular, read_bytes
from ..version import __version__
from .mark_detection import says_synthetic
from .samples import StrPath

_MEDIA_TYPES = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "m4b": "audio/mp4",
}
SIGNED_FORMATS = tuple(_MEDIA_TYPES)
"""The endings of files that a manifest can be in."""
_OF_FORMATS = {"WAV": "wav", "MP3": "mp3", "FLAC": "flac", "MP4": "m4a"}
_NAME = "chattts-velocity"
_MOST_PEM = 1 << 20
_CURVES = {"secp256r1": b"es256", "secp384r1": b"es384", "secp521r1": b"es512"}
_MISSING = "C2PA manifests need the package c2pa-python: pip install 'chattts-velocity[c2pa]'"
# A file of unknown origin must not make this machine fetch an address.
_OFFLINE = {"verify": {"remote_manifest_fetch": False, "ocsp_fetch": False}}
# Signing certificates are trusted by lists that each reader chooses, and here is none.
_UNTRUSTED = "signingCredential.untrusted"
_MOST_FAULTS = 10
_LONGEST = 300  # characters of what is told


@dataclass(frozen=True)
class Credentials:
    """The user's own certificate and key, with which manifests are signed.

    Attributes:
        certificate: a PEM file: the certificate, then those that signed it.
        key: a PEM file with its private key, without a passphrase.
    """

    certificate: Path
    key: Path

    def check(self) -> None:
        """Raise ConfigError if nothing can be signed with them; called before the work."""
        _c2pa()
        _signing_key(self)


@dataclass(frozen=True)
class Manifest:
    """The statements of the manifest of a file.

    Attributes:
        is_intact: whether the signature is valid and the file is as it was signed.
        is_synthetic: whether it says that the sound is synthetic.
        signer: the names in the certificate. Whether it deserves trust is not checked.
        software: by which the manifest was made.
        faults: C2PA's codes of what is wrong with it.
    """

    is_intact: bool
    is_synthetic: bool
    signer: str = ""
    software: str = ""
    faults: tuple[str, ...] = ()


def check_signed_format(path: StrPath) -> None:
    """Raise AudioError if a file of this name cannot hold a manifest; called before the work."""
    _media_type(Path(path))


def sign(path: StrPath, credentials: Credentials, mark: Mark | None = None) -> None:
    """Put a signed manifest into a sound file, which is replaced when it is complete.

    It says that the sound is synthetic, by which software it was made, and on which day. Two
    manifests are never equal, since each has a random number and most signatures have one.

    Args:
        path: a ``.wav``, ``.mp3``, ``.flac``, ``.m4a`` or ``.m4b`` file.
        credentials: sign it.
        mark: has the day; today's by default.

    Raises:
        AudioError: the file cannot hold a manifest, or not be read or written.
        ConfigError: the package is missing, or certificate and key cannot be used.
    """
    path = Path(os.path.realpath(path))
    media_type = _media_type(path)
    c2pa = _c2pa()
    algorithm, chain, key = _signing_key(credentials)
    try:
        with (
            c2pa.Signer.from_info(c2pa.C2paSignerInfo(algorithm, chain, key, None)) as signer,
            c2pa.Builder(json.dumps(_definition(mark))) as builder,
            open_regular(path, LONGEST_FILE) as source,
            atomic_write(path) as signed,
        ):
            builder.sign(signer, media_type, source, signed)
    except c2pa.C2paError as error:
        raise ConfigError(
            f"{path} cannot be signed with {credentials.certificate}: {_reason(error)}; C2PA "
            "needs a certificate for signing (extended key usage emailProtection or documents) "
            "that has not expired, and is not signed by itself"
        ) from error
    except OSError as error:
        raise AudioError(f"{path} cannot be signed: {error.strerror or error}") from error


def has_reader() -> bool:
    """Return whether manifests can be read here."""
    try:
        _c2pa()
    except ConfigError:
        return False
    return True


def find_manifest(path: StrPath, format: str | None) -> Manifest | None:
    """Return the manifest in a file of any origin; ``None`` if there is none.

    Nothing is fetched: a manifest that is kept elsewhere is not found.

    Args:
        path: the file.
        format: of the file, as :func:`.mark_detection.find_mark` tells it.

    Raises:
        AudioError: the file cannot be read.
        ConfigError: the package is missing.
    """
    c2pa = _c2pa()
    if format not in _OF_FORMATS:
        return None
    media_type = _MEDIA_TYPES[_OF_FORMATS[format]]
    try:
        with (
            open_regular(Path(path), LONGEST_FILE) as file,
            c2pa.Settings.from_json(json.dumps(_OFFLINE)) as settings,
            c2pa.Context(settings) as context,
        ):
            reader = c2pa.Reader.try_create(media_type, file, context=context)
            if reader is None:
                return None
            with reader:
                return _manifest(json.loads(reader.json()), reader.get_validation_state())
    except (c2pa.C2paError, ValueError) as error:
        return Manifest(is_intact=False, is_synthetic=False, faults=(_reason(error),))
    except OSError as error:
        raise AudioError(f"{path} cannot be read: {error.strerror or error}") from error


def _definition(mark: Mark | None) -> dict[str, Any]:
    """Return the manifest to sign."""
    software = {"name": _NAME, "version": __version__}
    day = today() if mark is None or mark.day is None else mark.day
    action = {
        "action": "c2pa.created",
        "when": f"{day.isoformat()}T00:00:00Z",
        "softwareAgent": software,
        "digitalSourceType": SOURCE_TYPE,
    }
    return {
        "claim_generator_info": [software],
        "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [action]}}],
    }


def _manifest(store: dict[str, Any], state: str | None) -> Manifest:
    """Return what the active manifest of a store says."""
    active = store["manifests"][store["active_manifest"]]
    signature = active.get("signature_info") or {}
    names = (signature.get("common_name"), signature.get("issuer"))
    makers = [each.get("name", "") for each in active.get("claim_generator_info") or ()]
    versions = [each.get("version", "") for each in active.get("claim_generator_info") or ()]
    faults = (each.get("code", "") for each in store.get("validation_status") or ())
    return Manifest(
        state in ("Valid", "Trusted"),
        _is_synthetic(active.get("assertions") or ()),
        _told(", ".join(name for name in names if name)),
        _told(" ".join([*makers[:1], *versions[:1]])),
        tuple(_told(code) for code in faults if code != _UNTRUSTED)[:_MOST_FAULTS],
    )


def _is_synthetic(assertions: Sequence[dict[str, Any]]) -> bool:
    actions = [
        action
        for each in assertions
        if each.get("label", "").startswith("c2pa.actions")
        for action in (each.get("data") or {}).get("actions") or ()
    ]
    return any(says_synthetic(str(action.get("digitalSourceType"))) for action in actions)


def _media_type(path: Path) -> str:
    ending = path.suffix.lower().removeprefix(".")
    if ending not in _MEDIA_TYPES:
        known = ", ".join(f".{name}" for name in SIGNED_FORMATS)
        raise AudioError(f"{path} cannot hold a C2PA manifest; use one of {known}")
    return _MEDIA_TYPES[ending]


def _signing_key(credentials: Credentials) -> tuple[bytes, bytes, bytes]:
    """Return C2PA's name of the algorithm, the certificates and the key, both in PEM.

    Raises:
        ConfigError: a file cannot be read or used, or they do not belong together.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    chain = _pem(credentials.certificate, "certificate", "--c2pa-cert")
    try:
        certificate = x509.load_pem_x509_certificates(chain)[0]
    except ValueError as error:
        raise ConfigError(
            f"{credentials.certificate} holds no certificate in PEM (it must begin with "
            "-----BEGIN CERTIFICATE-----)"
        ) from error
    given = _pem(credentials.key, "key", "--c2pa-key")
    try:
        key = serialization.load_pem_private_key(given, None)
    except TypeError as error:
        raise ConfigError(
            f"the key {credentials.key} has a passphrase: write it without one (openssl pkey -in "
            f"{credentials.key} -out key.pem)"
        ) from error
    except (ValueError, KeyError) as error:
        raise ConfigError(
            f"{credentials.key} holds no private key in PEM (it must begin with "
            "-----BEGIN PRIVATE KEY-----)"
        ) from error
    if key.public_key() != certificate.public_key():
        raise ConfigError(
            f"the key {credentials.key} does not belong to the first certificate of "
            f"{credentials.certificate}"
        )
    plain = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return _algorithm(key), chain, plain


def _algorithm(key: Any) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return b"ed25519"
    if isinstance(key, rsa.RSAPrivateKey):
        return b"ps256"
    raise ConfigError(
        f"C2PA does not sign with a key of this kind ({type(key).__name__}): use an elliptic curve "
        "(P-256, P-384, P-521), Ed25519 or RSA"
    )


def _pem(path: Path, what: str, option: str) -> bytes:
    try:
        return read_bytes(path, _MOST_PEM)
    except FileNotFoundError:
        raise ConfigError(f"the {what} {path} does not exist ({option})") from None
    except OSError as error:
        raise ConfigError(f"the {what} {path} cannot be read: {error.strerror or error}") from error


def _reason(error: Exception) -> str:
    return _told(" ".join(str(error).split()))


def _told(text: str) -> str:
    return printable(text[:_LONGEST])


def _c2pa() -> Any:
    try:
        import c2pa
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    return c2pa
