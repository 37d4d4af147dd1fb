"""From a process's cgroup to the pod that holds the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.streamer.sources.pods import RELIST_S, Holder, Owner, PodFinder, owner_in

UID = "3f1c2a9e-5b7d-4c1a-9e2f-0a1b2c3d4e5f"
SLICE = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID, NODE = "ab" * 32, "12" * 32


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/cri-containerd-{ID}.scope",
        f"0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{ID}.scope",
        f"0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{ID}.scope/container",
        f"0::/kubepods/besteffort/pod{UID}/{ID}",
        f"0::/../../kubepods-burstable-pod{SLICE}.slice/cri-containerd-{ID}.scope",
        f"11:memory:/kubepods/burstable/pod{UID}/{ID}\n10:cpu:/kubepods/burstable/pod{UID}/{ID}\n",
        f"5:cpuset:/kubepods.slice/kubepods-pod{SLICE}.slice/docker-{ID}.scope",
        f"4:pids:/system.slice/containerd.service/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{ID}",
        f"0::/docker/{NODE}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope",
    ],
)
def test_every_runtimes_path_names_the_pod_and_the_container(cgroup: str) -> None:
    assert owner_in(cgroup) == Owner(UID, ID)


def test_a_static_pods_uid_is_a_hash() -> None:
    assert owner_in(f"0::/kubepods/pod{STATIC}/{ID}") == Owner(STATIC, ID)


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/docker/{ID}",
        f"0::/system.slice/docker-{ID}.scope",
        f"0::/machine.slice/libpod-{ID}.scope",
    ],
)
def test_a_container_without_a_pod_is_known_by_its_id(cgroup: str) -> None:
    assert owner_in(cgroup) == Owner("", ID)


@pytest.mark.parametrize(
    "cgroup",
    ["", "0::/", "0::/user.slice/user-1000.slice/session-2.scope", "0::/podium/abc", "\x00"],
)
def test_a_process_outside_containers_is_nobodys(cgroup: str) -> None:
    assert owner_in(cgroup) is None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Host:
    """A /proc and a /var/log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.finder = PodFinder(root / "proc", root / "log", self.clock)

    def run(self, pid: int, cgroup: str) -> None:
        (self.root / "proc" / str(pid)).mkdir(parents=True)
        (self.root / "proc" / str(pid) / "cgroup").write_text(cgroup)

    def log(self, kind: str, name: str) -> None:
        (self.root / "log" / kind / name).mkdir(parents=True)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_names_come_from_the_kubelets_log_links(host: Host) -> None:
    host.run(7, f"0::/kubepods/pod{UID}/{ID}")
    host.log("containers", f"llm-0_team-a_train-{ID}.log")
    assert host.finder.holders([7]) == [Holder("team-a", "llm-0", "train", UID)]


def test_without_the_containers_link_the_pods_directory_tells(host: Host) -> None:
    host.run(7, f"0::/kubepods/pod{UID}/{ID}")
    host.log("pods", f"team-a_llm-0_{UID}")
    assert host.finder.holders([7]) == [Holder("team-a", "llm-0", ID[:12], UID)]


def test_without_names_the_uid_stands_for_the_pod(host: Host) -> None:
    host.run(7, f"0::/kubepods/pod{UID}/{ID}")
    assert host.finder.holders([7]) == [Holder("", UID, ID[:12], UID)]


def test_processes_of_one_container_are_one_holder_and_others_do_not_count(host: Host) -> None:
    host.run(7, f"0::/docker/{ID}")
    host.run(8, f"0::/docker/{ID}")
    host.run(9, "0::/user.slice")
    assert host.finder.holders([7, 8, 9, 404]) == [Holder("", "", ID[:12], "")]


def test_a_new_pod_is_found_but_the_logs_are_not_listed_at_every_sample(host: Host) -> None:
    host.run(7, f"0::/kubepods/pod{UID}/{ID}")
    assert host.finder.holders([7])[0].namespace == ""
    host.log("containers", f"llm-0_team-a_train-{ID}.log")
    assert host.finder.holders([7])[0].namespace == ""
    host.clock.now += RELIST_S
    assert host.finder.holders([7])[0].namespace == "team-a"
