/** The queue's partitions, what waits in each of them, and how fast messages come. */

import type { Queue } from "../api/types";

export interface Arrivals {
  readonly time: number;
  /** Messages that ever came. */
  readonly total: number;
}

export function arrivalsOf(queue: Queue): Arrivals {
  const topic = queue.topics.find((each) => each.topic === queue.topic);
  const ends = (topic?.partitions ?? []).map((partition) => partition.end ?? 0);
  const total = queue.published ?? ends.reduce((sum, end) => sum + end, 0);
  return { time: queue.time, total };
}

/** Messages a second between one look at the queue and the next. */
export function ratesOf(looks: readonly Arrivals[]): { time: number[]; value: number[] } {
  const pairs = looks.slice(1).map((look, at) => [looks[at] as Arrivals, look] as const);
  const moved = pairs.filter(([before, after]) => after.time > before.time);
  return {
    time: moved.map(([, after]) => after.time),
    value: moved.map(([before, after]) =>
      Math.max(0, (after.total - before.total) / ((after.time - before.time) / 1000)),
    ),
  };
}

export interface LagRow {
  readonly partition: number;
  readonly messages: number;
  readonly end: number | null;
  readonly lag: number | null;
}

/** The collector's own word on its lag, else what its group's commits say. */
export function lagRows(queue: Queue, said: Readonly<Record<string, number>>): LagRow[] {
  const topic = queue.topics.find((each) => each.topic === queue.topic);
  const committed = new Map(
    queue.groups
      .flatMap((group) => group.partitions)
      .filter((each) => each.topic === queue.topic)
      .map((each) => [each.partition, each.lag]),
  );
  return (topic?.partitions ?? []).map(({ partition, messages, end }) => ({
    partition,
    messages,
    end,
    lag: said[String(partition)] ?? committed.get(partition) ?? null,
  }));
}
