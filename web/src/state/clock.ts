/** The page's time: it moves once a second, and stands still while paused or hidden. */

import { computed, signal } from "@preact/signals";
import { resolve, type Span } from "../time/range";
import { view } from "./location";

export const paused = signal(false);
/** Whether the page can be seen: a tab in the background asks for nothing. */
export const seen = signal(!document.hidden);
export const now = signal(Date.now());

/** The span of time that the charts show. */
export const span = computed<Span>(() => resolve(view.value.range, now.value));

/** Whether the charts end now, so that new readings belong into them. */
export const followsNow = computed(() => view.value.range.kind === "relative");

export function startClock(): void {
  const tick = (): void => {
    if (!paused.value && seen.value) now.value = Date.now();
  };
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", () => {
    seen.value = !document.hidden;
    tick();
  });
}

export function togglePause(): void {
  paused.value = !paused.value;
  if (!paused.value) now.value = Date.now();
}
