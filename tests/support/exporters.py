"""Pages as dcgm-exporters of both generations serve them, and a real HTTP server to serve them."""

from __future__ import annotations

import select
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

UUIDS = [f"GPU-5fd4f087-86f3-7a43-b711-4771313afc5{n:x}" for n in range(16)]

# Name, type, help and value of GPU 0, before 4.9.
OLD_METRICS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", 1980),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", 41),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", 118.78),
    (
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        152_340_118_322,
    ),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", 97),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", 71_423),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", 0),
    ("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration (in us).", 1_000_000),
    (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "Ratio of time the graphics engine is active (in %).",
        0.98,
    ),
)
# The same of 4.9: base units.
NEW_METRICS = (
    ("DCGM_FI_DEV_SM_CLOCK_HERTZ", "gauge", "SM clock frequency (in Hz).", 1.98e9),
    ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", "gauge", "GPU temperature (in C).", 41),
    ("DCGM_FI_DEV_BOARD_POWER_WATTS", "gauge", "Power draw (in W).", 118.78),
    (
        "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
        "counter",
        "Total energy consumption since boot (in J).",
        152_340_118,
    ),
    ("DCGM_FI_DEV_GPU_UTIL_RATIO", "gauge", "GPU utilization (ratio 0.0-1.0).", 0.97),
    ("DCGM_FI_DEV_FB_USED_BYTES", "gauge", "Framebuffer memory used (in bytes).", 74_892_443_648),
    ("DCGM_FI_DEV_XID_ERROR", "gauge", "Value of the last XID error encountered.", 0),
    ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "gauge", "Ratio of time the engine is active.", 0.98),
)
GO_METRICS = (
    "# HELP go_goroutines Number of goroutines that currently exist.\n"
    "# TYPE go_goroutines gauge\n"
    "go_goroutines 17\n"
    'go_info{version="go1.22.4"} 1\n'
)


def old_page(host: str = "dgx-01", gpus: int = 2) -> str:
    """What dcgm-exporter 3 and 4 up to 4.8 serve."""
    return GO_METRICS + _page(
        OLD_METRICS,
        [
            f'gpu="{n}",UUID="{UUIDS[n]}",pci_bus_id="00000000:{n:02X}:00.0",device="nvidia{n}",'
            f'modelName="NVIDIA H100 80GB HBM3",Hostname="{host}",'
            f'DCGM_FI_DRIVER_VERSION="535.129.03",container="train",namespace="team-a",pod="llm-{n}"'
            for n in range(gpus)
        ],
    )


def new_page(host: str = "dgx-02", gpus: int = 2) -> str:
    """What dcgm-exporter 4.9 serves, with link metrics and their other labels."""
    links = "".join(
        f'DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL{{nvlink="{link}",gpu="0",gpu_uuid="{UUIDS[0]}",'
        f'device="nvidia0",model_name="NVIDIA H200",hostname="{host}"}} {link}\n'
        for link in range(2)
    )
    return _page(
        NEW_METRICS,
        [
            f'gpu="{n}",UUID="{UUIDS[n]}",pci_bus_id="00000000:{n:02X}:00.0",device="nvidia{n}",'
            f'modelName="NVIDIA H200",hostname="{host}",DCGM_FI_SYSTEM_DRIVER_VERSION="580.159.04"'
            for n in range(gpus)
        ],
    ) + (
        "# HELP DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL Data link CRC errors.\n"
        "# TYPE DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL counter\n" + links
    )


def _page(metrics: tuple[tuple[str, str, str, float], ...], labels: list[str]) -> str:
    return "".join(
        f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"
        + "".join(f"{name}{{{of}}} {value}\n" for of in labels)
        for name, kind, help_text, value in metrics
    )


Route = Callable[[BaseHTTPRequestHandler], None]


class Exporters:
    """A server whose paths are exporters; `asked` counts the scrapes of each."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.asked: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.released = threading.Event()  # what hangs waits for this
        self._now: Counter[str] = Counter()
        self._lock = threading.Lock()
        exporters = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with exporters._counted(self.path):
                    exporters.routes[self.path](self)

            def log_message(self, *args: object) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @contextmanager
    def running(self) -> Iterator[Exporters]:
        self._thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def serve(self, path: str, body: str | bytes, *, status: int = 200, **headers: str) -> str:
        """Answer with this page; the endpoint's address."""
        raw = body.encode() if isinstance(body, str) else body

        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name.replace("_", "-"), value)
            request.send_header("Content-Length", str(len(raw)))
            request.end_headers()
            try:
                request.wfile.write(raw)
            except OSError:
                request.close_connection = True

        return self.route(path, answer)

    def hang(self, path: str) -> str:
        """Never answer, until whoever asks gives up."""

        def wait(request: BaseHTTPRequestHandler) -> None:
            while not self.released.is_set():
                has_gone, _, _ = select.select([request.connection], [], [], 0.1)
                if has_gone:
                    break
            request.close_connection = True

        return self.route(path, wait)

    def route(self, path: str, answer: Route) -> str:
        self.routes[path] = answer
        return f"http://{self.address}{path}"

    @contextmanager
    def _counted(self, path: str) -> Iterator[None]:
        with self._lock:
            self.asked[path] += 1
            self._now[path] += 1
            self.most_at_once[path] = max(self.most_at_once[path], self._now[path])
        try:
            yield
        finally:
            with self._lock:
                self._now[path] -= 1
