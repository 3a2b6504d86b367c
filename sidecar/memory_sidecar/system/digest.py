"""A digest, and a comparison that takes the same time whatever it finds; both without OpenSSL.

`hashlib` and `hmac` load OpenSSL, which is a tenth of a launch, a tenth of the memory, and a TLS library in a
process that must have none. CPython has its own code for both below them; another Python gets the documented names.
"""

from ..hints import TYPE_CHECKING

if TYPE_CHECKING:
    import hashlib

try:
    from _operator import _compare_digest as compare_digest
except ImportError:
    from hmac import compare_digest  # type: ignore[no-redef]

__all__ = ["blake2b", "compare_digest", "digest"]


def blake2b(data: bytes, *, digest_size: int) -> "hashlib.blake2b":
    """As that of `hashlib`. Loaded by the first use: most launches need none."""
    try:
        from _blake2 import blake2b as made
    except ImportError:
        from hashlib import blake2b as made
    return made(data, digest_size=digest_size)


def digest(data: bytes) -> str:
    """128 bits that tell `data` from all else, as 32 hexadecimal digits."""
    return blake2b(data, digest_size=16).hexdigest()
