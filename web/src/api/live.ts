/**
 * The live stream: rows as they arrive, and whether they do.
 *
 * The browser reconnects by itself and hands back its position; what it missed for longer than the
 * gateway keeps is a `gap`, after which the newest values must be asked for again. Where there is
 * no live stream at all (a gateway without a queue), `away` is said and tried again now and then.
 */

import { urlOf, type Query } from "./client";
import type { LiveRows } from "./types";

export type LiveState = "connecting" | "open" | "away";

export interface LiveHandlers {
  readonly rows: (rows: LiveRows) => void;
  readonly gap: () => void;
  readonly state: (state: LiveState) => void;
}

const RETRY_MS = 10_000;

/** Opens a stream; the function that it returns closes it for good. */
export function openLive(query: Query, handlers: LiveHandlers): () => void {
  let source: EventSource | null = null;
  let retry: ReturnType<typeof setTimeout> | undefined;

  const connect = (): void => {
    handlers.state("connecting");
    source = new EventSource(urlOf("/api/v1/live", query));
    source.onopen = () => handlers.state("open");
    source.onerror = () => failed();
    source.addEventListener("readings", (event) => handlers.rows(parseRows(event.data as string)));
    source.addEventListener("gap", () => handlers.gap());
    source.addEventListener("status", (event) => handlers.state(parseStatus(event.data as string)));
  };

  const failed = (): void => {
    const refused = source?.readyState === EventSource.CLOSED;
    handlers.state(refused ? "away" : "connecting");
    if (refused) retry = setTimeout(connect, RETRY_MS);
  };

  connect();
  return () => {
    clearTimeout(retry);
    source?.close();
  };
}

export function parseRows(text: string): LiveRows {
  const body = JSON.parse(text) as LiveRows | { readonly data: LiveRows };
  return "data" in body ? body.data : body;
}

function parseStatus(text: string): LiveState {
  return (JSON.parse(text) as { readonly queue: string }).queue === "ok" ? "open" : "away";
}
