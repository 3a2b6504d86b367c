"""How a client proves to the broker who it is: the client library's arguments for a context, signatures, and TLS.

Files are read anew at each use, so that rotated credentials are taken up. No secret gets into a text or an error.
"""

import base64
import binascii
import errno
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .context import MAX_FILE_BYTES, ContextError, NatsContext, read_file

if TYPE_CHECKING:
    import ssl

__all__ = ["jwt_of", "options_of"]

_SEED: Final = re.compile(rb"(?<![A-Z2-7])SU[A-Z2-7]{56}(?![A-Z2-7])")
_JWT: Final = re.compile(rb"-----BEGIN NATS USER JWT-----\s+(\S+)\s+-+END NATS USER JWT-+")


def options_of(context: NatsContext) -> dict[str, Any]:
    """The library's arguments for a context. Reads the files that it names.

    Raises:
        ContextError: a file cannot be read or does not hold what it should.
    """
    options: dict[str, Any] = {}
    if context.user:
        options |= {"user": context.user, "password": context.password}
    elif context.creds:
        options |= _signing(_Kept(context, "creds", context.creds), with_jwt=True)
    elif context.nkey:
        seed = _Kept(context, "nkey", context.nkey)
        options |= _signing(seed, with_jwt=False)
    elif context.user_jwt:
        options |= {
            "user_jwt_cb": lambda: bytearray(context.user_jwt.encode()),
            # Without a seed it is a bearer's token, and the broker asks for no signature.
            "signature_cb": _signer(context.user_seed.encode) if context.user_seed else lambda _: b"",
        }
    if context.token:
        options["token"] = context.token
    if context.inbox_prefix:
        options["inbox_prefix"] = context.inbox_prefix
    if context.tls_first:
        options["tls_handshake_first"] = True
    if context.ca or context.cert:
        options["tls"] = _tls(context)
    return options


def jwt_of(context: NatsContext) -> str:
    """The user JWT in the context's credentials file; "" if it has none.

    Raises:
        OSError: the file cannot be read.
    """
    found = _JWT.search(read_file(context.creds)) if context.creds else None
    return found[1].decode("ascii", "replace") if found else ""


class _Kept:
    """The content of a file, read anew on each use so that rotated credentials are taken up; what was read before
    serves when it cannot be read any more."""

    def __init__(self, context: NatsContext, field: str, path: str) -> None:
        self._path = path
        try:
            self._content = read_file(path)
        except OSError as error:
            raise ContextError(
                f'the {field} file of the NATS context "{context.name}" cannot be read: {error.strerror}',
                "check its path and permissions",
            ) from error
        self.problem = f'the {field} file of the NATS context "{context.name}" holds no'

    def __call__(self) -> bytes:
        try:
            content = read_file(self._path)
        except OSError:
            return self._content
        try:
            _private_key(content)
        except ContextError:
            return self._content  # Caught while it is being replaced.
        self._content = content
        return content


def _signing(kept: _Kept, *, with_jwt: bool) -> dict[str, Any]:
    if _SEED.search(kept()) is None:
        raise ContextError(f"{kept.problem} nkey seed", "name the file that holds it")
    options: dict[str, Any] = {"signature_cb": _signer(kept)}
    if not with_jwt:
        options["nkey"] = _public_key(kept())
    else:
        if _JWT.search(kept()) is None:
            raise ContextError(f"{kept.problem} user JWT", "name a credentials file")

        def jwt() -> bytearray:
            found = _JWT.search(kept())
            return bytearray(found[1] if found else b"")

        options["user_jwt_cb"] = jwt
    return options


def _private_key(content: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise ContextError(
            "signing with an nkey needs the package cryptography",
            'install it with: pip install "memory-sidecar[jetstream]"',
        ) from error
    found = _SEED.search(content)
    if found is None:
        raise ContextError("an nkey seed is missing", "restore the file that holds it")
    # Two bytes of kind, the seed, two bytes of checksum.
    raw = base64.b32decode(found[0] + b"======")
    if binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise ContextError("an nkey seed is damaged (its checksum does not match)", "restore the file")
    return Ed25519PrivateKey.from_private_bytes(raw[2:34])


def _public_key(content: bytes) -> str:
    raw = bytes([20 << 3]) + _private_key(content).public_key().public_bytes_raw()
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).decode().rstrip("=")


def _signer(seed: Callable[[], bytes]) -> Callable[[str], bytes]:
    def sign(nonce: str) -> bytes:
        signature: bytes = _private_key(seed()).sign(nonce.encode())
        return base64.b64encode(signature)

    return sign


def _tls(context: NatsContext) -> "ssl.SSLContext":
    import ssl

    def encrypted() -> str:
        raise ContextError(f'the key of the NATS context "{context.name}" is encrypted', "name one that is not")

    field = ""
    try:
        for field in filter(lambda name: getattr(context, name), ("ca", "cert", "key")):
            if len(read_file(getattr(context, field))) == MAX_FILE_BYTES:  # OpenSSL would wait for a FIFO for ever
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        field = "ca"
        tls = ssl.create_default_context(cafile=context.ca or None)
        if context.cert:
            field = "cert or key"
            # Without a callback OpenSSL would ask the terminal for a password.
            tls.load_cert_chain(context.cert, context.key, password=encrypted)
    except (OSError, ssl.SSLError) as error:
        raise ContextError(
            f'the {field} file of the NATS context "{context.name}" cannot be used: '
            f"{error.strerror or 'it is not PEM'}",
            "check its path and content",
        ) from error
    return tls
