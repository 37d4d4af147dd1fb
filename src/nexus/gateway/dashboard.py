"""The dashboard's files, as `make web` built them into `static/` beside this module.

Only files that were found there are ever answered, so no address can lead elsewhere. Names under
`assets/` have a hash in them and may be kept for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastapi import Request, Response

from nexus.gateway.assets import Asset, asset
from nexus.web.problems import NotFound

FOLDER: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"
# What the page itself turns into a view.
CLIENT_ROUTES: Final = ("", "fleet", "pipeline", "host", "gpu")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
NOT_BUILT: Final = b"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Nexus</title></head>
<body>
<h1>Nexus</h1>
<p>The gateway works, but its dashboard is not built: <code>make web</code> builds it.</p>
<p>The API is described at <a href="/openapi.json">/openapi.json</a>.</p>
</body>
</html>
"""


class Dashboard:
    """The built files by address; looked for again while there are none."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._assets: Mapping[str, Asset] = {}

    def response(self, request: Request, path: str) -> Response:
        """The file that a path names, or the page for those that it turns into views itself."""
        if not self._assets:
            self._assets = _found(self._folder)
        found = self._assets.get(path)
        if found is None and path.partition("/")[0] in CLIENT_ROUTES:
            found = self._assets.get(INDEX) or _asset(INDEX, NOT_BUILT)
        if found is None:
            raise NotFound(f"there is nothing at /{path}")
        return found.response(request)


def _found(folder: Path) -> dict[str, Asset]:
    if not (folder / INDEX).is_file():
        return {}
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in _TYPES]
    names = [path.relative_to(folder).as_posix() for path in files]
    return {name: _asset(name, path.read_bytes()) for name, path in zip(names, files, strict=True)}


def _asset(name: str, content: bytes) -> Asset:
    kind = _TYPES[Path(name).suffix]
    return asset(content, kind, lasts=name.startswith("assets/"))
