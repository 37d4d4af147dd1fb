/** The fleet in six numbers; a state's number is also the filter for it. */

import { GPU_STATES, type GpuState } from "../api/types";
import type { Totals as Sums } from "../fleet/totals";
import { followsNow } from "../state/clock";
import { setFilter, view } from "../state/location";
import { formatCount, shortNumber } from "../units";
import { StateBar } from "./StateBar";

const TITLES: Readonly<Record<GpuState, readonly [string, string]>> = {
  active: ["Busy", "Computing: at least 5 % busy"],
  "idle-held": ["Idle, held", "Not computing, though a pod or memory holds them"],
  free: ["Free", "Not computing, and held by nobody"],
  unknown: ["Unknown", "No reading for two minutes; never counted as idle"],
};

export function Totals({ totals }: { totals: Sums }) {
  const { gpus, hosts, states, watts, measured } = totals;
  const partly =
    measured < gpus ? `from ${formatCount(measured)} of ${formatCount(gpus)} GPUs` : "";
  return (
    <section class="panel totals" aria-label="Totals">
      <div class="tiles">
        <div class="tile" data-total="gpus">
          <span class="tile-label">GPUs</span>
          <span class="tile-value">{formatCount(gpus)}</span>
          <span class="tile-note">
            {hosts === 1 ? "on 1 host" : `on ${formatCount(hosts)} hosts`}
            {!followsNow.value && ", as of now"}
          </span>
        </div>
        {GPU_STATES.map((state) => (
          <StateTile key={state} state={state} count={states[state]} of={gpus} />
        ))}
        <div class="tile" data-total="kw" title="Sum of what GPUs draw, each GPU once">
          <span class="tile-label">Power</span>
          <span class="tile-value">
            {shortNumber(Number((watts / 1000).toFixed(2)))}
            <small> kW</small>
          </span>
          <span class="tile-note">{partly}</span>
        </div>
      </div>
      <StateBar totals={totals} />
    </section>
  );
}

function StateTile({ state, count, of }: { state: GpuState; count: number; of: number }) {
  const [title, hint] = TITLES[state];
  const chosen = view.value.filters.state;
  const only = chosen.length === 1 && chosen[0] === state;
  return (
    <button
      type="button"
      class={`tile tile-state state-${state}`}
      data-total={state}
      title={hint}
      aria-pressed={only}
      onClick={() => setFilter("state", only ? [] : [state])}
    >
      <span class="tile-label">
        <span class={`swatch state-${state}`} /> {title}
      </span>
      <span class="tile-value">{formatCount(count)}</span>
      <span class="tile-note">{of > 0 ? `${Math.round((100 * count) / of)} %` : ""}</span>
    </button>
  );
}
