"""The daemon's two sockets without its client library: packets and frames of whoever does not behave."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from pathlib import Path

#: Of the data socket (daemon/src/server/data_socket.rs).
VERSION = 4
PACKET_BYTES_MAX = 64 << 10
#: The number of the collection that the probe makes before any other.
SHARED = 0
#: A client's share of a queue that is full is waited for no longer.
CONNECT_SECONDS = 0.5
#: HTTP/2 (RFC 9113): what a connection begins with, kinds of frames and their flags.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FRAME_BYTES_MAX = 16_384
HEAD_BYTES = 9
WINDOW_BYTES = 65_535
INITIAL_WINDOW_SIZE = 4


def varint(number: int) -> bytes:
    """As protobuf writes numbers."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def number(field: int, value: int) -> bytes:
    """A field that is a number."""
    return varint(field << 3) + varint(value)


def field(field_: int, value: bytes) -> bytes:
    """A field that is bytes, a text or a message."""
    return varint(field_ << 3 | 2) + varint(len(value)) + value


def hello(job: str, version: int = VERSION) -> bytes:
    """The first packet of a session."""
    return field(1, number(1, version) + field(2, job.encode()))


def map_blocks(segment: int, blocks: Iterable[int]) -> bytes:
    """Asks for the descriptors of blocks."""
    return field(2, number(1, segment) + field(2, b"".join(map(varint, blocks))))


def stage(bytes_: int) -> bytes:
    """Asks for memory to write to."""
    return field(3, number(1, bytes_))


def acquire(collection: int, fingerprints: Iterable[bytes], leases: int, lease_ms: int) -> bytes:
    """Asks for items, and for leases on those that are missing."""
    wanted = b"".join(field(3, field(1, each)) for each in fingerprints)
    limits = number(5, leases) + number(7, lease_ms) + number(8, 1 << 40)
    return field(10, number(2, collection) + wanted + limits)


def read_ahead(number_: int, pieces: int) -> bytes:
    """Declares what is read next, perhaps out of turn."""
    piece = field(1, number(1, 1) + number(2, 0) + number(3, 1 << 20))
    return field(6, field(1, piece * pieces) + number(3, number_) + number(5, number_))


def report(collection: int, hits: int) -> bytes:
    """Says that so much was read. It has no answer."""
    return field(7, number(1, collection) + number(2, hits))


def world(collection: int, digest: bytes) -> bytes:
    """Asks where a world stands."""
    return field(11, number(1, collection) + field(2, digest))


def commit(session: int, collection: int, fingerprint: bytes, token: int) -> bytes:
    """A `CommitRequest` of one element."""
    element = field(1, fingerprint) + number(2, token) + field(4, b"bytes") + number(6, 4096)
    return number(1, session) + number(2, collection) + field(3, element)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _header(name: bytes, text: bytes) -> bytes:
    # A literal that no table keeps (RFC 7541, 6.2.2).
    return b"\x00" + bytes([len(name)]) + name + bytes([len(text)]) + text


def call(stream: int, method: str) -> bytes:
    """The head of a gRPC call; its message follows in frames of data."""
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/prebake.v1." + method.encode(),
        b":authority": b"localhost",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }
    return frame(HEADERS, END_HEADERS, stream, b"".join(_header(*each) for each in headers.items()))


def message(stream: int, body: bytes) -> bytes:
    """The whole message of a call."""
    return frame(DATA, END_STREAM, stream, b"\x00" + struct.pack(">I", len(body)) + body)


def begin(window: int | None = None) -> bytes:
    """What a client says first; `window` is how many bytes of an answer it takes before it reads."""
    settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
    return PREFACE + frame(SETTINGS, 0, 0, settings)


def open_data(cache: Path) -> socket.socket:
    """A data connection that has said nothing."""
    return _open(socket.SOCK_SEQPACKET, cache / "data.sock")


def open_control(cache: Path) -> socket.socket:
    """A gRPC connection that has said nothing."""
    return _open(socket.SOCK_STREAM, cache / "prebake.sock")


def _open(kind: int, path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, kind)
    connection.settimeout(CONNECT_SECONDS)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    # From here on nobody here waits for anything.
    connection.setblocking(False)
    return connection
