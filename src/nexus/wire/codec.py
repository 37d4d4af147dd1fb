"""Messages to bytes and back, for every version served.

The functions behind `decode` and `encode` are compiled when a class and version is first met.
Whatever bytes come in, only `MalformedMessage` comes out.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from nexus.wire.decoder import Decoder, compile_decoder
from nexus.wire.encoder import Encoder, Splits, compile_encoder
from nexus.wire.errors import MalformedMessage, UnsupportedVersion
from nexus.wire.fields import Payload, describe

__all__ = ["Payload", "Splits", "decode", "decode_prefix", "encode", "encode_into"]

M = TypeVar("M")

_decoders: dict[tuple[type, int], Decoder] = {}
_encoders: dict[tuple[type, int], Encoder] = {}


def decode(cls: type[M], view: memoryview, version: int, at: int = 0) -> M:
    """Decode the message that fills `view` from `at` on; records are slices of `view`."""
    message, stop = decode_prefix(cls, view, version, at)
    if stop != len(view):
        left = len(view) - stop
        raise MalformedMessage(f"{cls.__name__} version {version}: {left} bytes are left over")
    return message


def decode_prefix(cls: type[M], view: memoryview, version: int, at: int = 0) -> tuple[M, int]:
    """Decode a message, and return it with the position after it."""
    decoder = _decoders.get((cls, version)) or _add_decoder(cls, version)
    try:
        return decoder(view, at, len(view))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"{cls.__name__} version {version}: {error}") from error


def encode(message: object, version: int, splits: Splits | None = None) -> bytearray:
    """Encode a message; payloads are noted in `splits` with their position in the result."""
    out = bytearray()
    encode_into(out, message, version, splits)
    return out


def encode_into(out: bytearray, message: Any, version: int, splits: Splits | None = None) -> None:
    """Append an encoded message to `out`."""
    cls = type(message)
    encoder = _encoders.get((cls, version)) or _add_encoder(cls, version)
    encoder(message, out, splits)


def _add_decoder(cls: type, version: int) -> Decoder:
    _check_version(cls, version)
    decoder = _decoders[cls, version] = compile_decoder(cls, version)
    return decoder


def _add_encoder(cls: type, version: int) -> Encoder:
    _check_version(cls, version)
    encoder = _encoders[cls, version] = compile_encoder(cls, version)
    return encoder


def _check_version(cls: type, version: int) -> None:
    if version not in describe(cls).versions:
        raise UnsupportedVersion(f"{cls.__name__} has no version {version} here")
