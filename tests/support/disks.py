"""Small file systems of a test's own: to fill up, to promise more than they have, to cut off power.

They need root; without it a test that asks for one is skipped (under CI=true it fails).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.needs import missing, need_program


@contextmanager
def mounted(where: Path, *options: str) -> Iterator[Path]:
    """`mount OPTIONS where`, until the block ends."""
    where.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *options, str(where)], capture_output=True, check=False)
    if done.returncode:
        missing(f"a file system cannot be mounted: {done.stderr.decode().strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


def make_image(image: Path, size: int, *options: str) -> None:
    """An ext4 file system in a sparse file."""
    program = need_program("mkfs.ext4")
    with image.open("wb") as file:
        file.truncate(size)
    subprocess.run([program, "-q", *options, str(image)], check=True)


def copy_image(image: Path, copy: Path) -> None:
    """What the disk holds at this moment: all that was synced, and little else."""
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)


def fill_up(disk: Path) -> Path:
    """Use every byte that is left; the file to remove again."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"\xff" * size):
                    pass
            except OSError:
                continue
    return filler
