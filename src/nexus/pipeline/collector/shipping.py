"""Nexus as one zip, for workers of a cluster on which it is not installed.

The libraries it stands on (pyarrow, confluent-kafka, deltalake) must be in the workers' own
interpreter, or in an environment that is sent along by `spark.archives`.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import nexus

# One time for every file, so that the same sources make the same zip.
_WHEN = (2020, 1, 1, 0, 0, 0)


def ship(folder: Path) -> Path:
    """Write `nexus.zip` into a folder, with every module of the package."""
    package = Path(nexus.__file__).parent
    target = folder.absolute() / "nexus.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for module in sorted(package.rglob("*.py")):
            name = str(module.relative_to(package.parent))
            archive.writestr(ZipInfo(name, _WHEN), module.read_bytes(), ZIP_DEFLATED)
    return target
