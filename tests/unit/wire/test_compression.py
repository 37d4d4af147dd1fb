"""The codecs: round trips, other people's framing, bombs and rubbish."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable

import aiokafka.codec
import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.wire.compression import Codec, DecompressionBomb, compress, decompress
from nexus.wire.errors import CorruptMessage, ErrorCode

MIB = 1 << 20
PACKING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
every_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
packing_codec = pytest.mark.parametrize("codec", PACKING, ids=lambda codec: codec.name)

THEIR_DECODERS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.GZIP: aiokafka.codec.gzip_decode,
    Codec.SNAPPY: aiokafka.codec.snappy_decode,
    Codec.LZ4: aiokafka.codec.lz4_decode,
    Codec.ZSTD: aiokafka.codec.zstd_decode,
}
THEIR_ENCODERS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.GZIP: aiokafka.codec.gzip_encode,
    Codec.SNAPPY: aiokafka.codec.snappy_encode,
    Codec.LZ4: aiokafka.codec.lz4_encode,
    Codec.ZSTD: aiokafka.codec.zstd_encode,
}

contents = st.one_of(
    st.binary(max_size=2000),
    st.builds(lambda part, times: part * times, st.binary(max_size=50), st.integers(0, 4000)),
)


@given(st.sampled_from(list(Codec)), contents)
def test_what_is_compressed_comes_out_the_same(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@given(st.sampled_from(PACKING), contents)
def test_aiokafka_reads_ours_and_we_read_aiokafkas(codec: Codec, data: bytes) -> None:
    assert THEIR_DECODERS[codec](compress(codec, data)) == data
    assert decompress(codec, THEIR_ENCODERS[codec](data), len(data)) == data


@every_codec
def test_large_and_incompressible_data_survives(codec: Codec) -> None:
    data = os.urandom(3 * MIB // 2)
    assert decompress(codec, compress(codec, data), len(data)) == data


@every_codec
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, bytes(100_000))
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(DecompressionBomb) as raised:
        decompress(codec, packed, 99_999)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_our_lz4_blocks_are_independent_as_java_demands() -> None:
    frame = compress(Codec.LZ4, bytes(200_000))
    independent = 0x20
    assert frame[4] & independent


def test_lz4_frames_with_sizes_checksums_and_linked_blocks_are_read() -> None:
    data = os.urandom(1000) * 300
    linked = bytes(cramjam.lz4.compress(data))
    assert decompress(Codec.LZ4, linked, len(data)) == data
    assert decompress(Codec.LZ4, linked + linked, 2 * len(data)) == data * 2


def test_zstd_streams_that_do_not_say_their_size_are_read() -> None:
    data = os.urandom(1000) * 500
    compressor = cramjam.zstd.Compressor(3)
    compressor.compress(data)
    streamed = bytes(compressor.finish())
    assert decompress(Codec.ZSTD, streamed, len(data)) == data
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decompress(Codec.ZSTD, skippable + streamed, len(data)) == data


@pytest.mark.parametrize("block_bytes", [1, 100, 32 * 1024])
def test_snappy_in_xerial_blocks_is_read(block_bytes: int) -> None:
    data = os.urandom(50) * 40
    framed = aiokafka.codec.snappy_encode(data, xerial_blocksize=block_bytes)
    assert framed.startswith(b"\x82SNAPPY\x00")
    assert decompress(Codec.SNAPPY, framed, len(data)) == data
    with pytest.raises(DecompressionBomb):
        decompress(Codec.SNAPPY, framed, len(data) - 1)


@pytest.mark.parametrize(
    "blocks",
    [
        b"\x00",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x09\x05\x10hello",
        b"\xff\xff\xff\xff\x05\x10hello",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x02\xff\xff",
    ],
)
def test_broken_xerial_blocks_are_corrupt(blocks: bytes) -> None:
    header = b"\x82SNAPPY\x00" + bytes(3) + b"\x01" + bytes(3) + b"\x01"
    with pytest.raises(CorruptMessage):
        decompress(Codec.SNAPPY, header + blocks, MIB)
    with pytest.raises(CorruptMessage):
        decompress(Codec.SNAPPY, header[:12], MIB)


def test_snappy_that_lies_about_its_length_takes_no_memory() -> None:
    with pytest.raises(CorruptMessage, match="lies"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x07abc", 1 << 40)


def test_gzip_that_lies_about_its_length_is_corrupt() -> None:
    packed = bytearray(gzip.compress(b"x" * 1000))
    for claim in (0, 999, 1001, 2**32 - 1):
        packed[-4:] = claim.to_bytes(4, "little")
        with pytest.raises(CorruptMessage):
            decompress(Codec.GZIP, packed, 1 << 40)


def test_data_behind_a_gzip_member_is_corrupt() -> None:
    member = gzip.compress(b"x" * 1000)
    with pytest.raises(CorruptMessage):
        decompress(Codec.GZIP, member + member, MIB)
    with pytest.raises(CorruptMessage):
        decompress(Codec.GZIP, member + b"rubbish, more than a trailer", MIB)


@packing_codec
def test_data_that_is_cut_anywhere_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, bytes(range(256)) * 4)
    for size in range(len(packed)):
        with pytest.raises(CorruptMessage):
            decompress(codec, packed[:size], MIB)


@given(st.sampled_from(PACKING), st.binary(max_size=300))
def test_rubbish_gives_only_typed_errors(codec: Codec, data: bytes) -> None:
    _unpack_or_refuse(codec, data)
    magic = {Codec.LZ4: b"\x04\x22\x4d\x18", Codec.ZSTD: b"\x28\xb5\x2f\xfd"}
    _unpack_or_refuse(codec, magic.get(codec, b"") + data)


@given(st.sampled_from(PACKING), contents, st.data())
def test_flipped_bytes_give_only_typed_errors(
    codec: Codec, content: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, content))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    _unpack_or_refuse(codec, bytes(packed))


def _unpack_or_refuse(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CorruptMessage, DecompressionBomb):
        assert len(decompress(codec, data, MIB)) <= MIB


# Bombs: what each makes of memory is measured in a process of its own. ------------------------

BOMB_BYTES = 128 * MIB
LIMIT = 8 * MIB


def gzip_bomb() -> bytes:
    packer = zlib.compressobj(wbits=31)
    chunks = [packer.compress(bytes(MIB)) for _ in range(BOMB_BYTES // MIB)]
    return b"".join([*chunks, packer.flush()])


def snappy_bomb() -> bytes:
    return bytes(cramjam.snappy.compress_raw(bytes(BOMB_BYTES)))


def lz4_bomb() -> bytes:
    return bytes(cramjam.lz4.compress(bytes(BOMB_BYTES)))


def zstd_bomb(window_code: int = 0x38) -> bytes:
    """A frame without a size, whose blocks each repeat a byte 128 Ki times."""
    block = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([window_code])
    return frame + block * (BOMB_BYTES >> 17) + last


MEASURE = """
import json, re, sys
from pathlib import Path
from nexus.wire.compression import Codec, decompress
from nexus.wire.errors import ProtocolError

def peak():
    # Not ru_maxrss: that one remembers the test process from which this one was forked.
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

codec, limit = Codec(int(sys.argv[1])), int(sys.argv[2])
data = sys.stdin.buffer.read()
before = peak()
try:
    outcome = str(len(decompress(codec, data, limit)))
except ProtocolError as error:
    outcome = type(error).__name__
after = peak()
print(json.dumps([outcome, (after - before) * 1024]))
"""


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        (Codec.GZIP, gzip_bomb),
        (Codec.SNAPPY, snappy_bomb),
        (Codec.LZ4, lz4_bomb),
        (Codec.ZSTD, zstd_bomb),
        (Codec.ZSTD, lambda: zstd_bomb(window_code=0x88)),
    ],
    ids=["gzip", "snappy", "lz4", "zstd", "zstd-with-a-huge-window"],
)
def test_a_bomb_takes_no_more_memory_than_its_limit(
    codec: Codec, bomb: Callable[[], bytes]
) -> None:
    command = [sys.executable, "-c", MEASURE, str(codec.value), str(LIMIT)]
    run = subprocess.run(command, input=bomb(), capture_output=True, check=True)
    outcome, taken = json.loads(run.stdout)
    assert outcome == "DecompressionBomb"
    # Beside the output, a decoder has tables, and a window that never outgrows the output.
    assert taken < 2 * LIMIT + 4 * MIB
