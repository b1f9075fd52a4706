"""A small certificate authority: certificates that name brokers and users of one overlay.

Only here the package `cryptography` is used, and only to make certificates and to look at them;
connections are Python's own TLS. Keys are elliptic (P-256): a handshake costs a fraction of what
it does with RSA, on both sides.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pubweave.model.messages.session import Role
from pubweave.model.records.access import Certified
from pubweave.runtime.net.tls import TlsError

CLOCK_SLACK = datetime.timedelta(minutes=5)
"""Machines whose clocks are behind take a fresh certificate all the same."""
COMMON_NAME_MAX = 64


@dataclass(frozen=True)
class CertificatePair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class CertificateFacts:
    """What `pubweave security check` wants to know of a certificate."""

    owner: Certified | None
    expires_at: datetime.datetime
    is_authority: bool


class Authority:
    """Certifies brokers and users."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, days: int, now: datetime.datetime, name: str = "pubweave") -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(f"{name} authority")
        builder = (
            _begun(subject, subject, key.public_key(), days, now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(is_authority=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: Path, key: Path) -> Authority:
        """TlsError if the files are none of an authority."""
        try:
            loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
            made = x509.load_pem_x509_certificate(certificate.read_bytes())
        except OSError as error:
            raise TlsError(f"{error.filename}: {error.strerror or error}") from error
        except (ValueError, TypeError) as error:
            raise TlsError(f"{certificate} and {key}: no certificate and key: {error}") from error
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise TlsError(f"{key}: no elliptic key, as 'pubweave security init' makes them")
        return cls(made, loaded)

    @property
    def pair(self) -> CertificatePair:
        return _pair(self._certificate, self._key)

    def certify(self, owner: Certified, days: int, now: datetime.datetime) -> CertificatePair:
        """A fresh key and a certificate that names its owner. A user's can only dial."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if owner.role is Role.BROKER:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        subject = _name(owner.name)
        issuer = self._certificate.subject
        own = self._key.public_key()
        builder = (
            _begun(subject, issuer, key.public_key(), days, now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(owner.uri)]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )
        return _pair(builder.sign(self._key, hashes.SHA256()), key)

    def revoke(self, serials: Iterable[int], days: int, now: datetime.datetime) -> bytes:
        """A list of revoked certificates, as PEM, that holds for so many days."""
        begins_at = now - CLOCK_SLACK
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(begins_at)
            .next_update(now + datetime.timedelta(days=days))
        )
        for serial in sorted(serials):
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(entry.revocation_date(begins_at).build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def revoked_serials(path: Path) -> frozenset[int]:
    """The numbers of the certificates on a list; TlsError if it is none."""
    return frozenset(entry.serial_number for entry in _read_list(path))


def serial_of_file(path: Path) -> int:
    """The number of the certificate in a file; TlsError if there is none."""
    return _read_certificate(path).serial_number


def _read_list(path: Path) -> x509.CertificateRevocationList:
    try:
        return x509.load_pem_x509_crl(path.read_bytes())
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise TlsError(f"{path}: no list of revoked certificates: {error}") from error


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise TlsError(f"{path}: no certificate: {error}") from error


def facts_of(path: Path) -> CertificateFacts:
    """What a certificate file says; TlsError if it is none."""
    certificate = _read_certificate(path)
    owner = None
    is_authority = False
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            uris = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
            owner = next((found for uri in uris if (found := Certified.parse(uri))), None)
        elif isinstance(extension.value, x509.BasicConstraints):
            is_authority = extension.value.ca
    return CertificateFacts(owner, certificate.not_valid_after_utc, is_authority)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:COMMON_NAME_MAX])])


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> CertificatePair:
    return CertificatePair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
