"""A simulated fleet's metrics hang together as real ones do."""

import itertools
from statistics import correlation, mean

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.metrics import QUANTITIES
from nexus.streamer.simulator.physics import Samples
from nexus.streamer.simulator.render import Renderer
from nexus.telemetry.catalogue import METRICS, SOURCE_NAMES, Kind, meaning_of
from support.simulated import TICKS, faults_of, made_fleet, made_readings, series

CALM = SimulatorConfig(hosts=6, gpus=8, seed=3, faults=())


def calm(ticks: int = 400) -> tuple[Simulation, Samples]:
    simulation = Simulation(CALM)
    return simulation, simulation.advance(ticks).samples


def where(samples: Samples, name: str, mask: pa.Array) -> list[int]:
    found: list[int] = samples.columns[name].filter(mask).to_pylist()
    return found


def one_gpu(samples: Samples, name: str, gpu: int) -> list[int]:
    values: list[int] = samples.columns[name].to_pylist()
    return values[gpu :: samples.grid.gpus]


def test_power_follows_load() -> None:
    simulation, samples = calm()
    for gpu in range(len(simulation.fleet.gpus)):
        load, power = one_gpu(samples, "sm", gpu), one_gpu(samples, "power", gpu)
        if max(load) - min(load) > 2_000:
            assert correlation(load, power) > 0.9


def test_power_stays_under_the_cap_and_over_idle() -> None:
    simulation, samples = calm()
    for gpu in simulation.fleet.gpus:
        power = one_gpu(samples, "power", gpu.index)
        model = gpu.host.model
        assert model.idle_w * 98 <= min(power) <= max(power) <= model.cap_w * 100


def test_temperature_follows_power_with_a_lag() -> None:
    simulation, samples = calm()
    lagging = 0
    for gpu in range(len(simulation.fleet.gpus)):
        power, temp = one_gpu(samples, "power", gpu), one_gpu(samples, "temp", gpu)
        if max(power) - min(power) < 15_000:
            continue
        together = correlation(power, temp)
        later = correlation(power[:-12], temp[12:])
        lagging += later > together
        assert all(abs(b - a) <= 3 for a, b in itertools.pairwise(temp))
    assert lagging >= 3


def test_memory_is_held_while_a_pod_is_idle() -> None:
    _, samples = calm()
    idle = pc.and_(samples.held, pc.invert(samples.active))
    settled = pc.and_(idle, pc.greater(samples.columns["used"], 10_000))
    assert len(where(samples, "used", settled)) > 1_000
    assert max(where(samples, "util", settled)) == 0
    free = pc.invert(samples.held)
    assert max(where(samples, "used", free)) < 500
    assert min(where(samples, "used", samples.active)) > 500


def test_used_and_free_memory_add_up() -> None:
    simulation, samples = calm(20)
    for gpu in simulation.fleet.gpus:
        model = gpu.host.model
        used, free = (one_gpu(samples, name, gpu.index) for name in ("used", "free"))
        sums = {a + b for a, b in zip(used, free, strict=True)}
        assert sums == {model.memory_mib - model.reserved_mib}


def test_shares_are_shares() -> None:
    _, samples = calm()
    for name, top in (("util", 100), ("copy", 100), ("engine", 10_000), ("tensor", 10_000)):
        assert pc.min(samples.columns[name]).as_py() >= 0
        assert pc.max(samples.columns[name]).as_py() <= top
    assert min(where(samples, "engine", samples.active)) >= 500
    assert max(where(samples, "engine", pc.invert(samples.active))) < 500


def test_clocks_drop_to_idle_on_free_gpus_and_a_little_at_the_power_cap() -> None:
    _, samples = calm()
    capped = pc.equal(samples.columns["reasons"], 4)
    training = pc.greater(samples.columns["engine"], 9_300)
    assert len(where(samples, "sm_clock", capped)) > 0.5 * pc.sum(training).as_py()
    assert set(where(samples, "sm_clock", pc.invert(samples.held))) <= {345, 210}
    assert min(where(samples, "sm_clock", capped)) > 900
    assert all(clock % 15 == 0 for clock in set(where(samples, "sm_clock", samples.held)))


def test_counters_never_fall_but_when_a_gpu_is_reset() -> None:
    counters = [
        meaning_of(quantity.old.name, quantity.old.unit).metric
        for quantity in QUANTITIES
        if quantity.counter
    ]
    assert all(METRICS[name].kind is Kind.COUNTER for name in counters)
    reset = {fault["uuid"] for fault in faults_of("reset")}
    fell = set()
    for gpu in made_fleet().simulation.fleet.gpus:
        for metric in counters:
            values = series(gpu.uuid, metric)
            if any(b < a - 1 for a, b in itertools.pairwise(values)):
                fell.add(gpu.uuid)
    assert fell == reset


def test_energy_is_the_sum_of_power() -> None:
    simulation, samples = calm(200)
    for gpu in range(len(simulation.fleet.gpus)):
        energy, power = one_gpu(samples, "energy", gpu), one_gpu(samples, "power", gpu)
        assert abs((energy[-1] - energy[0]) - sum(power[1:]) * 10) < 200 * 10


def test_a_pod_s_kinds_of_load_all_occur() -> None:
    kinds = {pod["load"] for gpu in made_fleet().truth["gpus"] for pod in gpu["pods"]}
    assert kinds == {"training", "inference", "bursty", "idle"}


def test_pods_start_and_end() -> None:
    document = made_fleet().truth
    pods = [pod for gpu in document["gpus"] for pod in gpu["pods"]]
    assert any(pod["start"] > document["start"] for pod in pods)
    assert any(pod["end"] < document["end"] for pod in pods)


def test_every_name_and_unit_is_in_the_catalogue() -> None:
    for quantity in QUANTITIES:
        for form in (quantity.old, quantity.new):
            assert form.name in SOURCE_NAMES
            assert not meaning_of(form.name, form.unit).problem
        old, new = (meaning_of(f.name, f.unit).metric for f in (quantity.old, quantity.new))
        assert old == new


def test_a_gpu_reports_twelve_to_twenty_metrics_a_tick() -> None:
    sizes = {len(cell) - 1 for cell in made_readings().values()}
    assert max(sizes) == 20
    assert min(sizes) >= 12


def test_a_throttled_gpu_is_hot_slow_and_says_why() -> None:
    [fault] = faults_of("throttle")
    uuid, end = fault["uuid"], fault["end"]
    flags = series(uuid, "clock_event_reasons", fault["start"], end)
    clocks = series(uuid, "sm_clock", fault["start"], end)
    slowed = [c for c, f in zip(clocks, flags, strict=True) if int(f) & 0x68]
    model = next(g.host.model for g in made_fleet().simulation.fleet.gpus if g.uuid == uuid)
    assert slowed
    assert max(slowed) < 0.75 * model.sm_clock_mhz * 1e6
    before = series(uuid, "gpu_temperature", "", fault["start"])
    during = series(uuid, "gpu_temperature", fault["start"], end)
    assert max(during) > mean(before) + 5


def test_a_straggler_is_slower_than_its_peers_without_a_reason_bit() -> None:
    [fault] = faults_of("straggler")
    start = fault["start"]
    pod_of = {
        gpu["uuid"]: pod["pod"]
        for gpu in made_fleet().truth["gpus"]
        for pod in gpu["pods"]
        if pod["start"] <= start < pod["end"]
    }
    mine = pod_of.pop(fault["uuid"])
    peers = [uuid for uuid, pod in pod_of.items() if pod == mine]
    assert peers
    window = (start, fault["end"])
    slow = mean(series(fault["uuid"], "sm_clock", *window))
    assert all(slow < 0.9 * mean(series(peer, "sm_clock", *window)) for peer in peers)
    flags = series(fault["uuid"], "clock_event_reasons", *window)
    assert not any(int(value) & 0xE8 for value in flags)


def test_a_host_s_rows_go_on_after_silence() -> None:
    [fault] = faults_of("silent")
    times = {
        time
        for (uuid, time) in made_readings()
        for gpu in made_fleet().truth["gpus"]
        if gpu["uuid"] == uuid and gpu["hostname"] == fault["hostname"]
    }
    assert not any(fault["start"] <= time < fault["end"] for time in times)
    assert len(times) < TICKS
    assert any(time >= fault["end"] for time in times)


def test_a_small_fleet_of_one_gpu_works_too() -> None:
    simulation = Simulation(SimulatorConfig(hosts=1, gpus=1, seed=5, fault_period_ms=60_000))
    table = Renderer(simulation).table(simulation.advance(120))
    assert 0 < table.num_rows <= 120 * len(QUANTITIES)
