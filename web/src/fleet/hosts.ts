/** The fleet host by host. */

import { compare, keyOf } from "../api/gpu";
import type { Gpu } from "../api/types";
import type { Sample } from "./latest";
import { newestSeen, totalsOf, type Totals } from "./totals";

export interface HostRow {
  readonly cluster: string;
  readonly host: string;
  readonly models: readonly string[];
  readonly totals: Totals;
  /** Mean of the GPUs that say how busy they are; null if none does. */
  readonly busy: number | null;
  readonly lastSeen: number | null;
}

export function hostRows(
  gpus: readonly Gpu[],
  power: ReadonlyMap<string, Sample>,
  now: number,
): HostRow[] {
  const hosts = new Map<string, Gpu[]>();
  for (const gpu of gpus) {
    const key = keyOf(gpu.cluster, gpu.hostname);
    const own = hosts.get(key);
    if (own) own.push(gpu);
    else hosts.set(key, [gpu]);
  }
  return [...hosts.values()].map((own) => rowOf(own, power, now)).sort(byPlace);
}

function rowOf(gpus: readonly Gpu[], power: ReadonlyMap<string, Sample>, now: number): HostRow {
  const first = gpus[0] as Gpu;
  const busy = gpus.flatMap((gpu) => (gpu.state === "unknown" ? [] : (gpu.busy ?? [])));
  return {
    cluster: first.cluster,
    host: first.hostname,
    models: [...new Set(gpus.map((gpu) => gpu.model).filter(Boolean))],
    totals: totalsOf(gpus, power, now),
    busy: busy.length > 0 ? busy.reduce((one, other) => one + other, 0) / busy.length : null,
    lastSeen: newestSeen(gpus),
  };
}

function byPlace(one: HostRow, other: HostRow): number {
  return compare(one.cluster, other.cluster) || compare(one.host, other.host);
}
