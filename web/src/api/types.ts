/** The gateway's answers, as docs/api.md describes them. */

export type GpuState = "active" | "idle-held" | "free" | "unknown";

export const GPU_STATES: readonly GpuState[] = ["active", "idle-held", "free", "unknown"];

export interface List<T> {
  readonly data: readonly T[];
  readonly count: number;
  readonly next_cursor: string | null;
}

export interface Gpu {
  readonly uuid: string;
  readonly gpu: string;
  readonly device: string;
  readonly model: string;
  readonly hostname: string;
  readonly cluster: string;
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly mig: string;
  readonly state: GpuState;
  readonly last_seen: string;
  readonly first_seen: string;
  readonly busy: number | null;
}

export interface Reading {
  readonly timestamp: string;
  readonly metric: string;
  readonly value: number | null;
  readonly unit: string;
  readonly uuid: string;
  readonly gpu: string;
  readonly hostname: string;
  readonly mig: string;
  readonly instance: string;
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

export interface GpuDetail extends Gpu {
  readonly labels: Readonly<Record<string, string>>;
  readonly latest: readonly Reading[];
}

export interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly kind: "gauge" | "counter";
  readonly description: string;
  readonly collected: boolean;
}

/** One series of a `layout=columns` answer; times are milliseconds since 1970. */
export interface ColumnSeries {
  readonly metric: string;
  readonly unit: string;
  readonly uuid: string;
  readonly gpu: string;
  readonly hostname: string;
  readonly mig: string;
  readonly instance: string;
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly time: readonly number[];
  readonly value: readonly (number | null)[];
  readonly min?: readonly (number | null)[] | null;
  readonly max?: readonly (number | null)[] | null;
}

export interface Columns {
  readonly resolution: string;
  readonly series: readonly ColumnSeries[];
  readonly truncated: boolean;
}

/** A group of GPUs over time: lines that the gateway put together. */
export interface GroupSeries {
  readonly hostname?: string;
  readonly namespace?: string;
  readonly metric: string;
  readonly unit: string;
  readonly time: readonly number[];
  /** The mean of the members, and their sum. */
  readonly value: readonly (number | null)[];
  readonly sum: readonly (number | null)[];
}

export interface GroupColumns {
  readonly resolution: string;
  readonly groups: readonly GroupSeries[];
  readonly truncated: boolean;
}

export interface LatestColumns {
  readonly data: {
    readonly uuid: readonly string[];
    readonly mig: readonly string[];
    readonly metric: readonly string[];
    readonly instance: readonly string[];
    readonly value: readonly (number | null)[];
    readonly timestamp: readonly number[];
  };
}

/** Rows of the live stream, column by column. */
export interface LiveRows {
  readonly timestamp: readonly number[];
  readonly metric: readonly string[];
  readonly value: readonly (number | null)[];
  readonly uuid: readonly string[];
  readonly gpu: readonly string[];
  readonly hostname: readonly string[];
  readonly mig: readonly string[];
  readonly instance: readonly string[];
  readonly namespace: readonly string[];
  readonly pod: readonly string[];
  readonly cluster: readonly string[];
}

export interface SummaryRow {
  readonly uuid?: string;
  readonly metric: string;
  readonly count: number;
  readonly mean: number | null;
}

export interface PipelineSample {
  readonly time: number;
  readonly readings_per_s: number | null;
  readonly lag: number | null;
  readonly batch_ms: number | null;
}

/** A collector that answers, and the first two fields of one that does not. */
export interface Collector {
  readonly reachable: boolean;
  readonly url: string;
  readonly detail?: string;
  readonly state?: string;
  readonly problem?: string;
  readonly readings_per_s?: number | null;
  readonly batch_ms?: number | null;
  readonly lag?: number | null;
  readonly lag_by_partition?: Readonly<Record<string, number>>;
  readonly seconds_since_commit?: number | null;
  readonly readings?: number;
  readonly quarantined?: number;
  readonly duplicates?: number;
  readonly late?: number;
  readonly batches?: number;
  readonly failures?: number;
}

export interface TableSize {
  readonly name: string;
  readonly version: number | null;
  readonly rows: number;
  readonly files: number;
  readonly bytes: number;
  readonly oldest: string | null;
  readonly newest: string | null;
  readonly last_commit: string | null;
}

export interface Pipeline {
  readonly collector: Collector;
  readonly tables: readonly TableSize[];
  readonly history: readonly PipelineSample[];
}

export interface QueuePartition {
  readonly partition: number;
  /** Offsets; a queue in etcd has none. */
  readonly start: number | null;
  readonly end: number | null;
  readonly messages: number;
}

export interface GroupPartition {
  readonly topic: string;
  readonly partition: number;
  readonly committed: number | null;
  readonly end: number | null;
  readonly lag: number | null;
}

export interface Queue {
  readonly reachable: boolean;
  readonly url: string;
  readonly topic: string;
  readonly time: number;
  readonly detail?: string;
  /** Messages that ever came, where partitions have no offsets to tell. */
  readonly published?: number;
  readonly topics: readonly {
    readonly topic: string;
    readonly internal: boolean;
    readonly messages: number;
    readonly partitions: readonly QueuePartition[];
  }[];
  readonly groups: readonly {
    readonly group: string;
    readonly state: string;
    readonly lag: number | null;
    readonly partitions: readonly GroupPartition[];
  }[];
}

export interface Refusal {
  readonly refused: string;
  readonly reason: string;
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly row: number;
  readonly source: string;
  readonly raw?: string | null;
  readonly raw_base64?: string | null;
}
