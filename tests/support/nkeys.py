"""Keys and JWTs as a NATS operator makes them: an operator, accounts, users and their credentials files."""

import base64
import binascii
import hashlib
import json
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["KeyPair", "credentials", "encode_jwt", "operator_config"]

_KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
_SEED = 18 << 3


class KeyPair:
    """An nkey: `kind` is operator, account or user."""

    def __init__(self, kind: str) -> None:
        self._key = Ed25519PrivateKey.generate()
        prefix = _KINDS[kind]
        self.public = _text(bytes([prefix]) + self._key.public_key().public_bytes_raw())
        self.seed = _text(bytes([_SEED | prefix >> 5, (prefix & 31) << 3]) + self._key.private_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def _text(raw: bytes) -> str:
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).decode().rstrip("=")


def _url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def encode_jwt(issuer: KeyPair, subject: str, kind: str, nats: dict[str, Any], *, expires: float | None = None) -> str:
    claims: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public,
        "name": kind,
        "sub": subject,
        "nats": {"type": kind, "version": 2, **nats},
    }
    if expires is not None:
        claims["exp"] = int(time.time() + expires)
    digest = hashlib.new("sha512_256", json.dumps(claims).encode()).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    head = _url(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    body = f"{head}.{_url(json.dumps(claims).encode())}"
    return f"{body}.{_url(issuer.sign(body.encode()))}"


def operator_config(operator: KeyPair, account: KeyPair, system: KeyPair) -> str:
    """The server's configuration in operator mode, with one account that has JetStream."""
    unlimited = "subs data payload imports exports conn leaf mem_storage disk_storage"
    limits: dict[str, Any] = dict.fromkeys(unlimited.split(), -1)
    limits |= {"streams": -1, "consumer": -1, "wildcards": True}
    accounts = {
        account.public: encode_jwt(operator, account.public, "account", {"limits": limits}),
        system.public: encode_jwt(operator, system.public, "account", {}),
    }
    preload = "\n".join(f"{key}: {jwt}" for key, jwt in accounts.items())
    token = encode_jwt(operator, operator.public, "operator", {"system_account": system.public})
    resolver = f"resolver: MEMORY\nresolver_preload: {{\n{preload}\n}}\n"
    return f"operator: {token}\nsystem_account: {system.public}\n{resolver}"


def credentials(jwt: str, user: KeyPair) -> str:
    """A credentials file, as `nsc` and the `nats` command write it."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "NKEY Seed printed below can be used to sign and prove identity.\n"
        "NKEYs are sensitive and should be treated as secrets.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n\n"
        "*************************************************************\n"
    )
