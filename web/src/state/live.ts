/** The live stream as components use it: open while they are shown and the page is not paused. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { urlOf, type Query } from "../api/client";
import { openLive, type LiveState } from "../api/live";
import type { LiveRows } from "../api/types";
import { paused, seen } from "./clock";

/** How the page's stream is doing, for the header; null where there is none. */
export const liveState = signal<LiveState | null>(null);

/** When the newest reading that the page knows of was taken. */
export const newestReading = signal<number | null>(null);

export interface LiveUse {
  readonly query: Query;
  readonly wanted: boolean;
  readonly rows: (rows: LiveRows) => void;
  /** Called when rows were missed, and the newest values must be asked for again. */
  readonly gap: () => void;
}

/** Whether rows come by themselves; a component that gets none must ask now and then. */
export function useLive({ query, wanted, rows, gap }: LiveUse): LiveState {
  const [state, setState] = useState<LiveState>("connecting");
  const newest = useRef({ rows, gap });
  newest.current = { rows, gap };
  const wait = paused.value || !seen.value || !wanted;
  const address = urlOf("", query);
  const before = useRef(false);

  useEffect(() => {
    if (wait) return;
    // What came since the last stream was closed has been missed.
    if (before.current) newest.current.gap();
    before.current = true;
    const close = openLive(query, {
      rows: (each) => newest.current.rows(each),
      gap: () => newest.current.gap(),
      state: (next) => {
        setState(next);
        liveState.value = next;
      },
    });
    return () => {
      close();
      liveState.value = null;
    };
  }, [address, wait]);
  return state;
}

export function sawReading(at: number): void {
  if (at > (newestReading.value ?? 0)) newestReading.value = at;
}

/** Tells the header of a time that a component was given. */
export function useNewest(at: number | null | undefined): void {
  useEffect(() => sawReading(at ?? 0), [at]);
}
