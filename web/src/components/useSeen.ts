import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

/** Whether an element has come near the screen, so that what is far below costs nothing yet. */
export function useSeen<T extends Element>(): [RefObject<T | null>, boolean] {
  const element = useRef<T>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (!element.current || seen) return;
    const observer = new IntersectionObserver(
      (entries) => setSeen((before) => before || entries.some((entry) => entry.isIntersecting)),
      { rootMargin: "300px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [seen]);
  return [element, seen];
}

/** Whether an element is on the screen or close to it. */
export function useOnScreen(element: { readonly current: Element | null }): boolean {
  const [seen, setSeen] = useState(true);
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver(
      (entries) => setSeen(entries.at(-1)?.isIntersecting ?? true),
      { rootMargin: "100px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return seen;
}
