"""Certificates for signing, made for a test; they are trusted by nothing."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KINDS = ("es256", "es384", "ed25519")


def new_key(kind: str = "es256") -> Any:
    """Return a new private key."""
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1() if kind == "es256" else ec.SECP384R1())


def write_certificate(folder: Path, kind: str = "es256", days: int = 30) -> tuple[Path, Path]:
    """Write ``cert.pem``, with the certificate that signed it, and ``key.pem``; return both paths.

    Args:
        days: until it expires; negative for one that has expired.
    """
    above, own = new_key(), new_key(kind)
    root = _certificate("Test root", above, "Test root", above, days=days, is_root=True)
    leaf = _certificate("Test signer", own, "Test root", above, days=days, is_root=False)
    pem = serialization.Encoding.PEM
    certificate, key = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(leaf.public_bytes(pem) + root.public_bytes(pem))
    write_key(key, own)
    return certificate, key


def write_key(path: Path, key: Any, passphrase: bytes | None = None) -> None:
    """Write a private key."""
    how: Any = serialization.NoEncryption()
    if passphrase is not None:
        how = serialization.BestAvailableEncryption(passphrase)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(pem, form, how))


def _certificate(
    name: str, key: Any, issuer: str, issuer_key: Any, *, days: int, is_root: bool
) -> x509.Certificate:
    now = datetime.now(timezone.utc)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    ) | {"encipher_only": False, "decipher_only": False}
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_root, None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_root, key_cert_sign=is_root, crl_sign=is_root, **usage
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(identifier, critical=False)
    )
    if not is_root:
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
        builder = builder.add_extension(purposes, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Test"),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )
