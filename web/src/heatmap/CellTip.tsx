/** The cell under the pointer or the keyboard's cursor: its outline, and who it is. */

import { fullName } from "../api/gpu";
import type { Metric } from "../api/types";
import type { Latest } from "../fleet/latest";
import { titleOf } from "../metrics";
import { now } from "../state/clock";
import { age } from "../time/format";
import { formatValue } from "../units";
import { pixels } from "../components/pixels";
import type { Cell } from "./layout";
import { sampleOf } from "./picture";

interface CellTipProps {
  readonly cell: Cell;
  readonly metric: Metric | null;
  readonly samples: Latest;
  readonly board: number;
}

const TIP_WIDTH = 280;

export function CellTip({ cell, metric, samples, board }: CellTipProps) {
  const { gpu } = cell;
  const left = Math.max(0, Math.min(board - TIP_WIDTH, cell.x + cell.width / 2 - TIP_WIDTH / 2));
  const outline = pixels({ left: cell.x, top: cell.y, width: cell.width, height: cell.height });
  return (
    <>
      <div class="heat-cursor" style={outline} />
      <div
        class="tip heat-tip"
        role="tooltip"
        style={pixels({ left, top: cell.y + cell.height + 8 })}
      >
        <strong>{fullName(gpu)}</strong>
        <span class="tip-line muted">{gpu.model || "unknown model"}</span>
        {metric && <Value cell={cell} metric={metric} samples={samples} />}
        <span class="tip-line">
          <span class={`swatch state-${gpu.state}`} /> {gpu.state}
        </span>
        {gpu.pod && <span class="tip-line muted">{`${gpu.namespace} / ${gpu.pod}`}</span>}
      </div>
    </>
  );
}

function Value({ cell, metric, samples }: { cell: Cell; metric: Metric; samples: Latest }) {
  const sample = sampleOf(cell.gpu, samples.of(metric.name));
  return (
    <span class="tip-line">
      <span class="muted">{titleOf(metric.name)}</span>
      <b>{formatValue(sample?.value, metric.unit)}</b>
      {sample && <span class="muted">{age(now.value - sample.at)} ago</span>}
    </span>
  );
}
