/** Which metric the heat map's colours show. */

import type { Metric } from "../api/types";
import { STATE_PICK } from "../heatmap/picture";
import { bySubject, collected, titleOf } from "../metrics";
import { changeView, view } from "../state/location";

export function MetricPicker({ catalogue }: { catalogue: readonly Metric[] }) {
  const picked = view.value.metric;
  const names = collected(catalogue).map((metric) => metric.name);
  const known = picked === STATE_PICK || names.includes(picked) ? names : [picked, ...names];
  return (
    <label class="picker">
      <span class="visually-hidden">Metric</span>
      <select
        id="metric-picker"
        value={picked}
        onChange={(event) => changeView({ metric: event.currentTarget.value })}
      >
        <option value={STATE_PICK}>State</option>
        {bySubject(known).map((subject) => (
          <optgroup key={subject.title} label={subject.title}>
            {subject.metrics.map((name) => (
              <option key={name} value={name}>
                {titleOf(name)}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}
