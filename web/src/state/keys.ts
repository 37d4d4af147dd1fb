/** Keyboard shortcuts: one table that the page obeys and the help shows. */

import { signal } from "@preact/signals";
import { shift, zoomIn, zoomOut, DEFAULT_RANGE } from "../time/range";
import { followsNow, now, togglePause } from "./clock";
import { go, linkTo, setRange, view } from "./location";
import { FLEET, PIPELINE } from "./route";
import { toggleTheme } from "./theme";

export interface Shortcut {
  readonly key: string;
  readonly does: string;
  readonly run: () => void;
}

export const helpShown = signal(false);

export const SHORTCUTS: readonly Shortcut[] = [
  { key: "f", does: "Fleet", run: () => go(linkTo(FLEET)) },
  { key: "i", does: "Pipeline", run: () => go(linkTo(PIPELINE)) },
  { key: "p", does: "Pause or resume live updates", run: pauseOrFollow },
  { key: "[", does: "Earlier", run: () => setRange(shift(view.value.range, -1, now.value)) },
  { key: "]", does: "Later", run: () => setRange(shift(view.value.range, 1, now.value)) },
  { key: "+", does: "Zoom in", run: () => setRange(zoomIn(view.value.range)) },
  { key: "-", does: "Zoom out", run: () => setRange(zoomOut(view.value.range)) },
  { key: "n", does: "Back to now", run: () => setRange(DEFAULT_RANGE) },
  { key: "t", does: "Time range", run: () => press("time-picker") },
  { key: "m", does: "Metric of the heat map", run: () => focus("metric-picker") },
  { key: "h", does: "Heat map; arrows move, Enter opens", run: () => focus("heat-map") },
  { key: "d", does: "Dark or light", run: toggleTheme },
  { key: "?", does: "This help", run: () => (helpShown.value = !helpShown.value) },
];

/** In a fixed range there is nothing to pause; the same key goes back to what is live. */
export function pauseOrFollow(): void {
  if (followsNow.value) togglePause();
  else setRange(DEFAULT_RANGE);
}

export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const pressed = event.key === "=" ? "+" : event.key;
    const shortcut = SHORTCUTS.find((each) => each.key === pressed);
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run();
  });
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input, select, textarea, dialog") !== null;
}

function focus(id: string): void {
  document.getElementById(id)?.focus();
}

function press(id: string): void {
  document.getElementById(id)?.click();
}
