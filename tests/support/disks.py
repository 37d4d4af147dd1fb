"""Small file systems of a test's own: to fill up, to promise more than they have, to cut off power.

They need root; without it a test that asks for one is skipped (under CI=true it fails).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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


class Disk:
    """A disk that can be cut off from power, under one broker; `where` is its file system now."""

    def __init__(self, directory: Path, size: int) -> None:
        self._directory, self._number = directory, 0
        directory.mkdir(parents=True, exist_ok=True)
        self._mount = ExitStack()
        make_image(self._image, size)
        self.where = self._plug_in()

    @property
    def _image(self) -> Path:
        return self._directory / f"disk-{self._number}.img"

    def _plug_in(self) -> Path:
        where = self._directory / f"disk-{self._number}"
        return self._mount.enter_context(mounted(where, "-o", "loop", str(self._image)))

    def cut_power(self) -> None:
        """Set aside what the disk holds at this moment; whoever writes to it should stand still."""
        now = self._image
        self._number += 1
        copy_image(now, self._image)

    def plug_in_again(self) -> Path:
        """Go on from what it held when the power was cut; nobody may use it any more."""
        self.unplug()
        (self._directory / f"disk-{self._number - 1}.img").unlink()
        self.where = self._plug_in()
        return self.where

    def unplug(self) -> None:
        """Give it back; safe to call twice."""
        self._mount.close()


def reserve_all(disk: Path) -> Path:
    """Leave no room, without writing a byte: others may need the real disk below."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        end = 0
        for size in (16 << 20, 1 << 20, 4096):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), end, size)
                    end += size
    return filler


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
