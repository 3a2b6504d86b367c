"""A certificate authority for one test: a server's certificate for loopback, and clients'."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]


class Authority:
    """Writes `ca.pem`, and for each `issue(name)` the files `<name>.pem` and `<name>.key`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        certificate = self._sign(self._name, self._key.public_key(), authority=True)
        self.ca = directory / "ca.pem"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, password: bytes | None = None) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(name), key.public_key(), authority=False)
        cert, private = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        private.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return cert, private

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
