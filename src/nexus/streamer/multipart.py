"""The files of a multipart/form-data body, written to a directory as the bytes come."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from nexus.observe.http import BadRequest

_FILES_MAX: Final = 16
_NAME_MAX: Final = 200


class MultipartFiles:
    """Feed it a body; `names` has each file's path on disk and the name that the client gave."""

    def __init__(self, content_type: str, directory: Path) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise BadRequest(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "send the file as multipart/form-data: curl -F file=@readings.csv URL",
            )
        self.names: dict[Path, str] = {}
        self._directory = directory
        self._file: BinaryIO | None = None
        self._header = self._value = b""
        self._headers: dict[bytes, bytes] = {}
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self.close,
                "on_end": self._end,
            },
        )

    def write(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"malformed multipart body: {error}") from None

    def finish(self) -> None:
        """The body is over: it must have been whole and held a file."""
        self.close()
        if not self._ended:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "the multipart body ends too early")
        if not self.names:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "no part of the body is a file")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _part_begin(self) -> None:
        self._headers = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header = self._value = b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"filename")
        if name is None:
            return  # a plain field: nothing here has any
        if len(self.names) >= _FILES_MAX:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"at most {_FILES_MAX} files at once")
        # The client's name is only ever shown, never a path of ours.
        path = self._directory / f"{len(self.names)}.csv"
        self.names[path] = _shown(name)
        self._file = path.open("wb")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])

    def _end(self) -> None:
        self._ended = True


def _shown(name: bytes) -> str:
    text = name.decode("utf-8", "replace")[:_NAME_MAX]
    return "".join(c if c.isprintable() else "?" for c in text) or "upload"
