/** What the heat map shows of a GPU: how a sample or a state becomes a level, a text, a scale. */

import { keyOf } from "../api/gpu";
import { GPU_STATES, type Gpu } from "../api/types";
import { isFresh, type Sample } from "../fleet/latest";
import { boundsOf } from "../metrics";
import { compactValue } from "../units";
import { levelOf, niceCeiling, NO_DATA, type RampName } from "./colour";
import type { Cell, Layout } from "./layout";
import type { Looks } from "./painter";

/** The pick that shows what each GPU is doing instead of a metric. */
export const STATE_PICK = "state";

export interface Scale {
  readonly low: number;
  readonly high: number;
}

export function rampOf(unit: string): RampName {
  return unit === "C" || unit === "W" ? "heat" : "load";
}

export function scaleOf(unit: string, samples: Iterable<Sample>): Scale {
  const [low, high] = boundsOf(unit);
  if (high !== null) return { low, high };
  let most = 0;
  for (const sample of samples) if (sample.value !== null) most = Math.max(most, sample.value);
  return { low, high: niceCeiling(most) };
}

export function levelOfState(gpu: Gpu): number {
  return gpu.state === "unknown" ? NO_DATA : GPU_STATES.indexOf(gpu.state);
}

/** The level of a value that is not too old; `now` is null where values do not age. */
export function levelOfSample(
  sample: Sample | undefined,
  scale: Scale,
  now: number | null,
): number {
  if (!sample || (now !== null && !isFresh(sample, now))) return NO_DATA;
  return levelOf(sample.value, scale.low, scale.high);
}

/** An instance's own sample, or the one of the GPU that it was cut from. */
export function sampleOf(gpu: Gpu, samples: ReadonlyMap<string, Sample>): Sample | undefined {
  return samples.get(keyOf(gpu.uuid, gpu.mig)) ?? samples.get(gpu.uuid);
}

export function looksOfState({ cells }: Layout): Looks {
  const gpuAt = (index: number): Gpu => (cells[index] as Cell).gpu;
  return { level: (index) => levelOfState(gpuAt(index)), text: (index) => gpuAt(index).state };
}

/** How cells look that show a metric; `clock` is null where samples do not age. */
export function looksOfMetric(
  { cells }: Layout,
  unit: string,
  samples: ReadonlyMap<string, Sample>,
  scale: Scale,
  clock: (() => number) | null,
): Looks {
  const sampleAt = (index: number) => sampleOf((cells[index] as Cell).gpu, samples);
  const level = (index: number) => levelOfSample(sampleAt(index), scale, clock?.() ?? null);
  const text = (index: number): string => {
    const value = sampleAt(index)?.value ?? null;
    return value === null || level(index) === NO_DATA ? "" : compactValue(value, unit);
  };
  return { level, text };
}
