/** A host's GPUs in rows: what each does now, with bars that the eye can compare. */

import { gpuName, keyOf } from "../api/gpu";
import type { Gpu } from "../api/types";
import type { Latest } from "../fleet/latest";
import { now } from "../state/clock";
import { linkTo } from "../state/location";
import { formatValue, NOT_COLLECTED } from "../units";
import { isFresh } from "../fleet/latest";

interface Column {
  readonly metric: string;
  readonly title: string;
  readonly unit: string;
  /** The value that fills the bar. */
  readonly full: number;
}

const COLUMNS: readonly Column[] = [
  { metric: "gpu_util", title: "Utilisation", unit: "ratio", full: 1 },
  { metric: "sm_active", title: "SM active", unit: "ratio", full: 1 },
  { metric: "memory_used", title: "Memory used", unit: "B", full: 80 * 2 ** 30 },
  { metric: "power", title: "Power", unit: "W", full: 700 },
  { metric: "gpu_temperature", title: "Temperature", unit: "C", full: 95 },
];

export function GpuTable({ gpus, samples }: { gpus: readonly Gpu[]; samples: Latest }) {
  void now.value; // drawn again each second, when the live values may have changed
  return (
    <div class="table-frame">
      <table class="gpu-table">
        <thead>
          <tr>
            <th scope="col">GPU</th>
            <th scope="col">State</th>
            {COLUMNS.map((column) => (
              <th scope="col" key={column.metric}>
                {column.title}
              </th>
            ))}
            <th scope="col">Pod</th>
          </tr>
        </thead>
        <tbody>
          {gpus.map((gpu) => (
            <Row key={keyOf(gpu.uuid, gpu.mig)} gpu={gpu} samples={samples} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ gpu, samples }: { gpu: Gpu; samples: Latest }) {
  const colour = /^\d+$/.test(gpu.gpu) ? Number(gpu.gpu) % 16 : 0;
  return (
    <tr>
      <th scope="row">
        <a href={linkTo({ page: "gpu", uuid: gpu.uuid })}>
          <span class={`line-mark series-${colour}`} /> {gpuName(gpu)}
        </a>
      </th>
      <td>
        <span class={`badge state-${gpu.state}`}>{gpu.state}</span>
      </td>
      {COLUMNS.map((column) => (
        <Bar key={column.metric} column={column} gpu={gpu} samples={samples} />
      ))}
      <td class="pod-name">{gpu.pod ? `${gpu.namespace} / ${gpu.pod}` : "–"}</td>
    </tr>
  );
}

function Bar({ column, gpu, samples }: { column: Column; gpu: Gpu; samples: Latest }) {
  const key = keyOf(gpu.uuid, gpu.mig);
  const sample = samples.of(column.metric).get(key);
  if (!isFresh(sample, now.value) || sample.value === null) {
    return <td class="muted">{sample && sample.value !== null ? "no data" : NOT_COLLECTED}</td>;
  }
  const free = column.metric === "memory_used" ? samples.of("memory_free").get(key)?.value : null;
  const limit = column.metric === "power" ? samples.of("power_limit").get(key)?.value : null;
  const full = limit ?? (free ? free + sample.value : column.full);
  const width = `${Math.min(100, (100 * sample.value) / full)}%`;
  return (
    <td class="bar-cell" data-metric={column.metric} data-value={sample.value}>
      <span class="bar">
        <span class="bar-fill" style={{ width }} />
      </span>
      <span class="number">{formatValue(sample.value, column.unit)}</span>
    </td>
  );
}
