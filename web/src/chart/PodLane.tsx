/** Which pod held which GPU when, on the time axis of the charts below. */

import type { Span } from "../time/range";
import { hashOf, placeIn, type Hold } from "./lane";

export interface LaneRow {
  readonly key: string;
  readonly label: string;
}

interface PodLaneProps {
  readonly rows: readonly LaneRow[];
  readonly holds: readonly Hold[];
  readonly span: Span;
  readonly stepMs: number;
}

const COLOURS = 8;

export function PodLane({ rows, holds, span, stepMs }: PodLaneProps) {
  return (
    <div class="lanes" role="img" aria-label="Pods that held the GPUs over time">
      {rows.map((row) => (
        <div class="lane" key={row.key}>
          <span class="lane-label">{row.label}</span>
          <div class="lane-track">
            {holds
              .filter((hold) => hold.key === row.key)
              .map((hold) => (
                <HoldBar key={`${hold.pod} ${hold.start}`} {...{ hold, span, stepMs }} />
              ))}
          </div>
        </div>
      ))}
    </div>
  );
}

function HoldBar({ hold, span, stepMs }: { hold: Hold; span: Span; stepMs: number }) {
  const place = placeIn(span, hold, stepMs);
  if (!place) return null;
  const name = hold.namespace ? `${hold.namespace} / ${hold.pod}` : hold.pod;
  const style = { left: `${place.left}%`, width: `${place.width}%` };
  const colour = hashOf(name) % COLOURS;
  return (
    <span class={`hold series-${colour}`} style={style} title={name}>
      {name}
    </span>
  );
}
