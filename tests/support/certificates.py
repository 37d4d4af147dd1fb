"""Authorities and certificates for tests of TLS, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.needs import need_program

_NEW_KEY = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"


def make_authority(folder: Path, name: str = "ca") -> None:
    """`NAME.pem` and `NAME.key`."""
    _openssl(folder, f"{_NEW_KEY} -subj /CN={name} -keyout {name}.key -out {name}.pem")


def make_certificate(folder: Path, name: str, hosts: str, use: str = "serverAuth") -> None:
    """The same, signed by the authority `ca`; `hosts` are like DNS:localhost,IP:127.0.0.1."""
    files = f"-subj /CN={name} -keyout {name}.key -out {name}.pem"
    signed = "-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE"
    said = f"-addext subjectAltName={hosts} -addext extendedKeyUsage={use}"
    _openssl(folder, f"{_NEW_KEY} {files} {signed} {said}")


def _openssl(folder: Path, words: str) -> None:
    command = [need_program("openssl"), *words.split()]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
