"""Memory is bounded by the size of a block, whatever the file's size and whatever is in it."""

import gzip
import subprocess
import sys
from pathlib import Path

from support.csv_text import LONG_HEADER, long_row

READ = """
import asyncio, re, sys
from pathlib import Path
from nexus.streamer.sources.csv_source import CsvSource

async def rows(path):
    return sum([block.table.num_rows async for block in CsvSource(path).blocks({})])

for path in sys.argv[1:]:
    print(asyncio.run(rows(path)))
# Not ru_maxrss: that one remembers the test process from which this one was forked.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def test_large_files_and_a_line_without_end_fit_in_300_mb(tmp_path: Path) -> None:
    rows = "".join(long_row(n, metric=f"METRIC_{n % 10}") for n in range(30_000))
    chunk = rows.encode()
    large, bomb = tmp_path / "large.csv", tmp_path / "bomb.csv.gz"
    with large.open("wb") as file:
        file.write(LONG_HEADER.encode())
        for _ in range(10):
            file.write(chunk)
    with gzip.open(bomb, "wb", compresslevel=1) as packed:
        packed.write((LONG_HEADER + long_row(1)).encode())
        for _ in range(12):
            packed.write(b"x" * (8 << 20))
        packed.write(b"\n" + long_row(2).encode())
    command = [sys.executable, "-c", READ, str(large), str(bomb)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    first, second, peak_kib = map(int, done.stdout.split())
    assert (first, second) == (300_000, 2)
    assert peak_kib < 300 * 1024
