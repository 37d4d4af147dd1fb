/** What the page knows of metrics beyond the catalogue: titles, subjects, the bounds of a scale. */

import type { Metric } from "./api/types";

export interface Subject {
  readonly title: string;
  readonly metrics: readonly string[];
}

/** The order in which charts stand; a metric that is named nowhere goes by its name. */
// prettier-ignore
const SUBJECTS: readonly Subject[] = [
  {
    title: "Load",
    metrics: [
      "gpu_util", "engine_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active",
      "memory_util", "fp64_active", "fp32_active", "fp16_active", "encoder_util", "decoder_util",
    ],
  },
  {
    title: "Power and heat",
    metrics: [
      "power", "power_instant", "gpu_temperature", "memory_temperature", "energy", "fan_speed",
      "power_limit", "gpu_temperature_margin",
    ],
  },
  { title: "Memory", metrics: ["memory_used", "memory_free", "memory_used_ratio"] },
  { title: "Clocks", metrics: ["sm_clock", "memory_clock", "clock_event_reasons", "video_clock"] },
  { title: "Links", metrics: ["pcie_tx", "pcie_rx", "nvlink_tx", "nvlink_rx", "pcie_replays"] },
  {
    title: "Health",
    metrics: [
      "xid", "ecc_uncorrectable", "ecc_correctable", "row_remap_failure", "row_remap_pending",
      "remapped_rows_uncorrectable", "remapped_rows_correctable",
    ],
  },
  { title: "Other", metrics: [] },
];

const SUBJECT_BY_NAME: readonly (readonly [RegExp, string])[] = [
  [/_active$|_util$/, "Load"],
  [/^(power|gpu_temp|memory_temp|slowdown_temp|shutdown_temp|energy)/, "Power and heat"],
  [/^(memory_(total|reserved)|bar1)/, "Memory"],
  [/clock|^slowed_|^event_/, "Clocks"],
  [/^(pcie|nvlink|c2c|p2p|fabric)/, "Links"],
  [/^(ecc|retired|remap|row_remap|xid|health|sram|memory_unrepairable)/, "Health"],
];

export function subjectOf(metric: string): string {
  const listed = SUBJECTS.find((subject) => subject.metrics.includes(metric));
  return listed?.title ?? SUBJECT_BY_NAME.find(([test]) => test.test(metric))?.[1] ?? "Other";
}

/** Metrics by subject, in the order of the page; subjects that nothing belongs to are left out. */
export function bySubject(metrics: readonly string[]): Subject[] {
  return SUBJECTS.map(({ title, metrics: order }) => ({
    title,
    metrics: metrics.filter((name) => subjectOf(name) === title).sort(inOrder(order)),
  })).filter((subject) => subject.metrics.length > 0);
}

function inOrder(order: readonly string[]): (one: string, other: string) => number {
  const place = (name: string) => (order.indexOf(name) + order.length + 1) % (order.length + 1);
  return (one, other) => place(one) - place(other) || (one < other ? -1 : 1);
}

const TITLES: Readonly<Record<string, string>> = {
  gpu_util: "GPU utilisation",
  memory_util: "Memory copy utilisation",
  engine_active: "Engine active",
  power: "Power",
  xid: "Last XID",
  clock_event_reasons: "Clock event reasons",
};

// prettier-ignore
const WORDS: Readonly<Record<string, string>> = {
  gpu: "GPU", sm: "SM", dram: "DRAM", ecc: "ECC", pcie: "PCIe", nvlink: "NVLink", xid: "XID",
  fp16: "FP16", fp32: "FP32", fp64: "FP64", bar1: "BAR1", mig: "MIG", tx: "sent", rx: "received",
  util: "utilisation", cpu: "CPU", sram: "SRAM", l1: "L1", l2: "L2", crc: "CRC", c2c: "C2C",
};

export function titleOf(metric: string): string {
  const known = TITLES[metric];
  if (known) return known;
  const words = metric
    .split("_")
    .map((word) => WORDS[word] ?? word)
    .join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Where a scale of this unit begins and ends when that does not depend on the data. */
export function boundsOf(unit: string): readonly [number, number | null] {
  if (unit === "ratio") return [0, 1];
  if (unit === "C") return [20, 95];
  return [0, null];
}

/** The metrics to pick from: those that have been collected, in the page's order. */
export function collected(metrics: readonly Metric[]): Metric[] {
  const byName = new Map(metrics.filter((m) => m.collected).map((m) => [m.name, m]));
  const ordered = bySubject([...byName.keys()]).flatMap((subject) => subject.metrics);
  return ordered.flatMap((name) => byName.get(name) ?? []);
}

/** Health metrics whose absence is worth telling: nothing seen is not the same as nothing wrong. */
// prettier-ignore
export const WORTH_COLLECTING: readonly string[] = [
  "sm_active", "tensor_active", "dram_active", "ecc_uncorrectable", "row_remap_failure",
  "clock_event_reasons", "xid", "pcie_replays",
];

const CLOCK_REASONS: readonly (readonly [number, string])[] = [
  [0x1, "idle"],
  [0x2, "application clocks"],
  [0x4, "power cap"],
  [0x8, "hardware slowdown"],
  [0x10, "sync boost"],
  [0x20, "software thermal"],
  [0x40, "hardware thermal"],
  [0x80, "power brake"],
  [0x100, "display clocks"],
];

/** The bits of `clock_event_reasons` in words. */
export function clockReasons(bits: number): string {
  const said = CLOCK_REASONS.filter(([bit]) => (bits & bit) !== 0).map(([, word]) => word);
  return said.length > 0 ? said.join(", ") : "none";
}
