/** Sums over GPUs, each (uuid, mig) once. */

import { keyOf } from "../api/gpu";
import { GPU_STATES, type Gpu, type GpuState } from "../api/types";
import { isFresh, type Sample } from "./latest";

export interface Totals {
  readonly gpus: number;
  readonly hosts: number;
  readonly states: Readonly<Record<GpuState, number>>;
  /** Sum of what is drawn now; GPUs that say nothing add nothing. */
  readonly watts: number;
  readonly measured: number;
}

export function totalsOf(
  gpus: readonly Gpu[],
  power: ReadonlyMap<string, Sample>,
  now: number,
): Totals {
  const states = Object.fromEntries(GPU_STATES.map((state) => [state, 0])) as Record<
    GpuState,
    number
  >;
  const hosts = new Set<string>();
  let [watts, measured] = [0, 0];
  for (const gpu of gpus) {
    states[gpu.state] += 1;
    hosts.add(`${gpu.cluster}\u0000${gpu.hostname}`);
    const sample = power.get(keyOf(gpu.uuid, gpu.mig));
    if (gpu.state === "unknown" || !isFresh(sample, now) || sample.value === null) continue;
    watts += sample.value;
    measured += 1;
  }
  return { gpus: gpus.length, hosts: hosts.size, states, watts, measured };
}

export function newestSeen(gpus: readonly Gpu[]): number | null {
  const times = gpus.map((gpu) => Date.parse(gpu.last_seen)).filter(Number.isFinite);
  return times.length > 0 ? times.reduce((one, other) => Math.max(one, other)) : null;
}
