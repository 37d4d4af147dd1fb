"""What `nexus up` stands on: its lock, its ports, its logs, and the memory that it counts."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nexus.up.errors import AlreadyUp, PortTaken, UpError
from nexus.up.lock import UpLock, holder_of
from nexus.up.logfile import LogFile
from nexus.up.memory import pss_bytes, tree_of
from nexus.up.ports import Address, claimed, holder_of_port, is_free
from support.ports import free_port

# The lock


def test_a_second_one_on_the_same_directory_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    first, second = UpLock(tmp_path / "data"), UpLock(tmp_path / "data")
    first.take()
    with pytest.raises(AlreadyUp, match=rf"process {os.getpid()}\).*--data-dir"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_the_holder_says_where_its_parts_are(tmp_path: Path) -> None:
    lock = UpLock(tmp_path)
    assert holder_of(tmp_path) is None
    lock.take()
    lock.tell({"gateway": "http://127.0.0.1:8080"})
    assert holder_of(tmp_path) == {"process": os.getpid(), "gateway": "http://127.0.0.1:8080"}
    lock.release()
    lock.release()
    assert holder_of(tmp_path) is None


def test_a_lock_file_that_a_dead_one_left_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "up.lock").write_text('{"process": 1')
    assert holder_of(tmp_path) is None
    lock = UpLock(tmp_path)
    lock.take()
    lock.release()


# Ports


def test_a_taken_port_is_named_with_its_flag_and_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTaken) as refused:
            claimed([Address("the dashboard", "127.0.0.1", port, "--port")])
        said = str(refused.value)
        assert f"port {port}, for the dashboard, is taken by process {os.getpid()} (" in said
        assert said.endswith("choose another with --port")
        assert not is_free("127.0.0.1", port)
        assert holder_of_port(port).startswith(f"process {os.getpid()} (")
    assert is_free("127.0.0.1", port)
    assert holder_of_port(port) == ""


def test_ports_that_the_system_chooses_are_all_different() -> None:
    wanted = [Address(str(n), "127.0.0.1", 0, "--x") for n in range(20)]
    ports = [address.port for address in claimed(wanted)]
    assert 0 not in ports
    assert len(set(ports)) == 20


def test_two_parts_on_one_port_are_told_apart_before_the_system_refuses() -> None:
    port = free_port()
    broker = Address("the broker", "127.0.0.1", port, "--broker-port")
    dashboard = Address("the dashboard", "127.0.0.1", port, "--port")
    with pytest.raises(UpError, match=rf"port {port} .*--broker-port.* and to .*--port"):
        claimed([broker, dashboard])


def test_a_host_that_is_not_ours_is_one_clear_error() -> None:
    with pytest.raises(PortTaken, match=r"cannot listen on 192.0.2.1:80: .*--port"):
        claimed([Address("the dashboard", "192.0.2.1", 80, "--port")])


@pytest.mark.parametrize(
    ("host", "reachable"),
    [("0.0.0.0", "127.0.0.1:1"), ("::", "[::1]:1"), ("10.0.0.1", "10.0.0.1:1")],
)
def test_what_listens_everywhere_is_asked_here(host: str, reachable: str) -> None:
    assert Address("x", host, 1, "--x").reachable == reachable


# Logs


def test_a_log_and_its_predecessor_are_all_that_is_kept(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs" / "part.log", 1000)
    for number in range(100):
        log.write(f"line {number:03d} {'x' * 91}\n".encode())
    log.close()
    files = sorted(path.name for path in log.path.parent.iterdir())
    assert files == ["part.log", "part.log.1"]
    assert sum(path.stat().st_size for path in log.path.parent.iterdir()) <= 2000
    assert log.path.read_text().splitlines()[-1].startswith("line 099")


def test_a_log_goes_on_where_the_last_run_ended(tmp_path: Path) -> None:
    for word in ("one", "two"):
        log = LogFile(tmp_path / "part.log", 1000)
        log.begin(word)
        log.close()
    assert log.path.read_text() == "one\ntwo\n"


def test_a_log_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = LogFile(tmp_path / "file" / "part.log", 1000)
    log.write(b"nexus: no room\n")
    assert log.last_words() == "no room"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"", ""),
        (b"Traceback\n  File x\nValueError: odd\n\n", "ValueError: odd"),
        (b"nexus: port 1 is taken\nlater\n", "port 1 is taken"),
        (b'{"level": "info", "message": "stopping"}\n', "stopping"),
        (b"half a li", ""),
        (b"a \x1b[31mred\n", "a  [31mred"),
    ],
)
def test_the_last_words_are_one_line_that_says_why(
    tmp_path: Path, written: bytes, words: str
) -> None:
    log = LogFile(tmp_path / "part.log", 10_000)
    log.write(b"nexus: of the start before\n")
    log.begin("started")
    log.write(written)
    log.close()
    assert log.last_words() == words


# Memory


def test_memory_is_that_of_a_process_and_all_its_descendants() -> None:
    assert os.getpid() in tree_of(os.getppid())
    assert 1 << 20 < pss_bytes(os.getpid()) <= pss_bytes(os.getppid())


def test_a_process_that_is_gone_has_none() -> None:
    assert pss_bytes(2**22 + 1) == 0
