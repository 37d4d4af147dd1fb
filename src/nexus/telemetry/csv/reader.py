"""The rows of one text, a block at a time, with the exact place after each block.

Memory is bounded by the block's size, whatever the text's and whatever is in it.
"""

import time
from collections.abc import Callable
from typing import Final

from nexus.telemetry.csv.forms import Form
from nexus.telemetry.csv.head import Place
from nexus.telemetry.csv.rows import ROOM_BYTES, RowParser, Rows, Taken
from nexus.telemetry.csv.text import Bytes

LONG_BLOCK_BYTES: Final = 4 << 20
WIDE_BLOCK_BYTES: Final = 1 << 20  # its rows hold many readings each


class RowReader:
    """Reads a text whose rows begin at a place; its two halves may run side by side.

    `take` parses the next block while `rows` makes readings of the one before.
    """

    def __init__(
        self,
        text: Bytes,
        form: Form,
        place: Place,
        *,
        clock: Callable[[], float] = time.time,
        block_bytes: int | None = None,
    ) -> None:
        self.place = place  # of the next row after those that were made
        self._text = text
        self._parser = RowParser(form, clock)
        self._block_bytes = block_bytes or (WIDE_BLOCK_BYTES if form.wide else LONG_BLOCK_BYTES)
        self._pending = b""
        self._spare: list[bytearray] = []  # buffers to use again: as many as blocks under way
        self._exhausted = False

    @property
    def pending(self) -> int:
        """How many bytes were read and wait for the rest of their row."""
        return len(self._pending)

    def take(self, final: bool = True) -> Taken | None:
        """Read and parse the next block; None at the end.

        Without `final` the end is only where the text ends by now: a last line without its line
        end waits for the rest.
        """
        data = self._spare.pop() if self._spare else bytearray(self._block_bytes + ROOM_BYTES)
        held = len(self._pending)
        data[:held] = self._pending
        fresh = self._text.read_into(memoryview(data)[held : self._block_bytes])
        ended = held + fresh < self._block_bytes
        taken = None
        if fresh or (final and held):
            taken = self._parser.take(data, held + fresh, final=final and ended, full=not ended)
        self._pending = bytes(memoryview(data)[taken.size if taken else 0 : held + fresh])
        if taken is None:
            self._spare.append(data)
            return None if fresh or not ended else self._trouble()
        return taken

    def rows(self, taken: Taken) -> Rows:
        """The readings of what was taken, each block in its turn; the place moves on."""
        rows = self._parser.rows(taken, self.place.line)
        if taken.data:
            self._spare.append(taken.data)
        self.place = Place(self.place.offset + taken.size, self.place.line + rows.lines)
        return rows

    def _trouble(self) -> Taken | None:
        """What is wrong with the file itself, said once where its text ends."""
        if not self._text.trouble or self._exhausted:
            return None
        self._exhausted = True
        return Taken(bytearray(), 0, trouble=self._text.trouble)
