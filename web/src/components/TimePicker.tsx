/** Chooses the time to look at: the last so long, or between two moments. */

import { useState } from "preact/hooks";
import { span } from "../state/clock";
import { setRange, view } from "../state/location";
import { describeRange, fromInput, toInput } from "../time/format";
import { between, PRESETS, shift, spellDuration, zoomOut } from "../time/range";
import { Menu } from "./Menu";

export function TimePicker() {
  const { range } = view.value;
  return (
    <div class="group">
      <button
        type="button"
        class="button icon"
        aria-label="Earlier"
        title="Earlier  ["
        onClick={() => setRange(shift(range, -1, span.value.end))}
      >
        ‹
      </button>
      <Menu id="time-picker" name="Time range" label={describeRange(range)} align="end">
        {(close) => (
          <div class="time-panel">
            <Presets close={close} />
            <Absolute close={close} />
          </div>
        )}
      </Menu>
      <button
        type="button"
        class="button icon"
        aria-label="Later"
        title="Later  ]"
        disabled={range.kind === "relative"}
        onClick={() => setRange(shift(range, 1, span.value.end))}
      >
        ›
      </button>
      <button
        type="button"
        class="button"
        aria-label="Zoom out"
        title="Zoom out  −"
        onClick={() => setRange(zoomOut(range))}
      >
        Zoom out
      </button>
    </div>
  );
}

function Presets({ close }: { close: () => void }) {
  const { range } = view.value;
  const choose = (ms: number): void => {
    setRange({ kind: "relative", ms });
    close();
  };
  return (
    <div class="presets" role="group" aria-label="Until now">
      {PRESETS.map((ms) => (
        <button
          key={ms}
          type="button"
          class="option"
          aria-pressed={range.kind === "relative" && range.ms === ms}
          onClick={() => choose(ms)}
        >
          Last {spellDuration(ms)}
        </button>
      ))}
    </div>
  );
}

function Absolute({ close }: { close: () => void }) {
  const [from, setFrom] = useState(() => toInput(span.value.start));
  const [to, setTo] = useState(() => toInput(span.value.end));
  const [start, end] = [fromInput(from), fromInput(to)];
  const problem =
    start === null || end === null
      ? "Both times are needed."
      : start >= end
        ? "The first time must be before the second."
        : "";
  const apply = (event: Event): void => {
    event.preventDefault();
    if (problem || start === null || end === null) return;
    setRange(between(start, end));
    close();
  };
  return (
    <form class="absolute" onSubmit={apply}>
      <label>
        From
        <input
          type="datetime-local"
          step="1"
          value={from}
          onInput={(e) => setFrom(e.currentTarget.value)}
        />
      </label>
      <label>
        To
        <input
          type="datetime-local"
          step="1"
          value={to}
          onInput={(e) => setTo(e.currentTarget.value)}
        />
      </label>
      <p class="field-note">{problem || `Times are in ${zone()}. Drag over a chart to zoom in.`}</p>
      <button type="submit" class="button primary" disabled={problem !== ""}>
        Show
      </button>
    </form>
  );
}

function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
}
