/**
 * Loading what a component shows: the newest answer, the error if asking failed, never both lost.
 *
 * A new `key` asks again and keeps the old answer on screen until the new one is there; a new
 * `scope` is another subject, whose old answer would be a lie. Asking again on a beat stops while
 * the page is paused or hidden.
 */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { paused, seen } from "./clock";

export interface Resource<T> {
  readonly data: T | null;
  readonly error: ApiError | null;
  readonly reload: () => void;
}

export interface Asking<T> {
  readonly scope?: string;
  readonly key: string;
  readonly load: (signal: AbortSignal) => Promise<T>;
  /** Milliseconds between questions, or 0 for once. */
  readonly every: number;
}

interface Loaded<T> {
  readonly scope: string;
  readonly data: T | null;
  readonly error: ApiError | null;
}

const RETRY_MS = 5_000;
const BEAT_MS = 1_000;

export function useResource<T>({ scope = "", key, load, every }: Asking<T>): Resource<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({ scope, data: null, error: null });
  const [asked, setAsked] = useState(0);
  const newest = useRef({ load, every });
  newest.current = { load, every };

  useEffect(() => {
    const aborter = new AbortController();
    let ended: number | null = null;
    let failed = false;

    const ask = async (): Promise<void> => {
      ended = null;
      const found = await outcome(newest.current.load(aborter.signal));
      if (aborter.signal.aborted) return;
      setLoaded((before) => merge(before, found, scope));
      failed = found.error?.passing ?? false;
      ended = Date.now();
    };
    const askWhenDue = (): void => {
      const wait = failed ? RETRY_MS : newest.current.every || Infinity;
      if (ended !== null && !paused.value && seen.value && Date.now() - ended >= wait) void ask();
    };

    void ask();
    const timer = setInterval(askWhenDue, BEAT_MS);
    return () => {
      clearInterval(timer);
      aborter.abort();
    };
  }, [scope, key, asked]);

  const { data, error } = loaded.scope === scope ? loaded : { data: null, error: null };
  return { data, error, reload: () => setAsked((count) => count + 1) };
}

interface Outcome<T> {
  readonly data: T | null;
  readonly error: ApiError | null;
}

async function outcome<T>(answer: Promise<T>): Promise<Outcome<T>> {
  try {
    return { data: await answer, error: null };
  } catch (error) {
    const known = error instanceof ApiError ? error : new ApiError(-1, String(error));
    return { data: null, error: known };
  }
}

/** What failed to come again leaves what came before in place, beside the error. */
function merge<T>(before: Loaded<T>, found: Outcome<T>, scope: string): Loaded<T> {
  const kept = before.scope === scope ? before.data : null;
  return { scope, data: found.data ?? kept, error: found.error };
}
