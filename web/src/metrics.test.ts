import { expect, it } from "vitest";
import { bySubject, clockReasons, collected, subjectOf, titleOf } from "./metrics";

it("puts metrics under subjects in the page's order, and forgets none", () => {
  const names = ["never_heard_of", "xid", "power", "sm_active", "gpu_util", "ecc_correctable_l2"];
  const subjects = bySubject(names);
  expect(subjects.map((subject) => subject.title)).toEqual([
    "Load",
    "Power and heat",
    "Health",
    "Other",
  ]);
  expect(subjects[0]?.metrics).toEqual(["gpu_util", "sm_active"]);
  expect(subjects.flatMap((subject) => subject.metrics).sort()).toEqual([...names].sort());
});

it("finds a subject for names that it does not list", () => {
  expect(
    ["nvdec3_active", "slowed_by_heat", "nvlink_crc_errors", "power_limit_max"].map(subjectOf),
  ).toEqual(["Load", "Clocks", "Links", "Power and heat"]);
});

it("makes titles that people read", () => {
  expect(["gpu_util", "nvlink_tx", "ecc_uncorrectable", "fp16_active"].map(titleOf)).toEqual([
    "GPU utilisation",
    "NVLink sent",
    "ECC uncorrectable",
    "FP16 active",
  ]);
});

it("offers only what is collected", () => {
  const metric = { unit: "W", kind: "gauge", description: "" } as const;
  const listed = [
    { ...metric, name: "power", collected: true },
    { ...metric, name: "xid", collected: false },
  ];
  expect(collected(listed).map((each) => each.name)).toEqual(["power"]);
});

it("reads the bits of clock event reasons", () => {
  expect([0, 4, 0x48].map(clockReasons)).toEqual([
    "none",
    "power cap",
    "hardware slowdown, hardware thermal",
  ]);
});
