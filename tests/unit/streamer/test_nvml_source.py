"""The source of local GPUs: its address, its pace, and what it does without a driver."""

from __future__ import annotations

import asyncio
import importlib.util

import pynvml
import pytest

from nexus.streamer.sources.nvml import NvmlPlan, NvmlSource, NvmlUrlError, open_nvml
from nexus.streamer.sources.nvml_driver import NvmlUnavailable
from nexus.streamer.sources.port import Block, Shard, SourceOptions
from support.fake_nvml import FakeGpu, FakeNvml, machine

OPTIONS = SourceOptions(interval_s=3.0)


def source_on(nv: FakeNvml, shard: Shard = Shard()) -> NvmlSource:  # noqa: B008
    return NvmlSource(NvmlPlan(0.01, "node-7", shard), nv=nv, reopen_s=0.01)


def has_driver() -> bool:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    pynvml.nvmlShutdown()
    return True


async def first(source: NvmlSource, count: int) -> list[Block]:
    blocks: list[Block] = []
    async with asyncio.timeout(10):
        async for block in source.blocks({}):
            blocks.append(block)
            if len(blocks) == count:
                await source.close()
    return blocks


def test_samples_come_until_it_is_closed_and_nvml_is_shut_down() -> None:
    nv = machine(FakeGpu("GPU-a"), FakeGpu("GPU-b"))
    blocks = asyncio.run(first(source_on(nv), 3))
    assert len(blocks) == 3
    assert {*blocks[0].table["uuid"].to_pylist()} == {"GPU-a", "GPU-b"}
    assert blocks[0].position is None


def test_shards_share_the_gpus_without_overlap() -> None:
    gpus = [FakeGpu(f"GPU-{n}") for n in range(8)]
    shares = [
        {
            *asyncio.run(first(source_on(machine(*gpus), Shard(i, 2)), 1))[0]
            .table["uuid"]
            .to_pylist()
        }
        for i in range(2)
    ]
    assert shares[0] | shares[1] == {gpu.uuid for gpu in gpus}
    assert not shares[0] & shares[1]


def test_a_driver_that_is_reloaded_is_waited_for() -> None:
    nv = machine(FakeGpu("GPU-a"))
    source = source_on(nv)

    async def story() -> int:
        count = 0
        async with asyncio.timeout(10):
            async for block in source.blocks({}):
                count += block.table.num_rows > 0
                if count == 1:
                    nv.gone = pynvml.NVML_ERROR_UNINITIALIZED
                    asyncio.get_running_loop().call_later(0.05, setattr, nv, "gone", None)
                elif count == 2:
                    await source.close()
        return count

    assert asyncio.run(story()) == 2


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_without_a_driver_it_is_one_clear_line() -> None:
    with pytest.raises(NvmlUnavailable, match=r"^no NVIDIA driver on this machine: [^\n]+$"):
        asyncio.run(first(open_nvml("nvml://", OPTIONS), 1))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "not loaded"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "no permission"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "restart the machine"),
        (pynvml.NVML_ERROR_UNKNOWN, "does not answer"),
    ],
)
def test_a_driver_that_does_not_answer_says_why(code: int, words: str) -> None:
    nv = machine()
    nv.gone = code
    with pytest.raises(NvmlUnavailable, match=words):
        asyncio.run(first(source_on(nv), 1))


def test_the_address_may_set_interval_and_hostname() -> None:
    source = open_nvml("nvml://?interval=500ms&hostname=node-9", OPTIONS)
    assert source.describe() == "the GPUs of node-9 every 0.5 s"
    assert source.live


@pytest.mark.parametrize(
    "url", ["nvml://gpu0", "nvml://?interval=soon", "nvml://?interval=1ms", "nvml://?speed=2"]
)
def test_an_address_that_makes_no_sense_is_one_clear_error(url: str) -> None:
    with pytest.raises(NvmlUrlError):
        open_nvml(url, OPTIONS)


def test_the_module_is_its_own_check() -> None:
    assert importlib.util.find_spec("nexus.streamer.sources.nvml_check") is not None
