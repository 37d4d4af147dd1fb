/** How a number of GPUs divides into states, as a bar. */

import { GPU_STATES } from "../api/types";
import type { Totals } from "../fleet/totals";

export function StateBar({ totals: { gpus, states } }: { totals: Totals }) {
  const present = GPU_STATES.filter((state) => states[state] > 0);
  const said = present.map((state) => `${states[state]} ${state}`).join(", ");
  return (
    <div class="state-bar" role="img" aria-label={said} title={said}>
      {present.map((state) => (
        <span
          key={state}
          class={`state-${state}`}
          style={{ width: `${(100 * states[state]) / Math.max(1, gpus)}%` }}
        />
      ))}
    </div>
  );
}
