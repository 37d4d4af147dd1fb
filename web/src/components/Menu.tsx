/** A button that opens a panel under it; Escape, a click elsewhere or leaving it closes it. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

interface MenuProps {
  readonly id?: string;
  readonly label: ComponentChildren;
  readonly name: string;
  readonly active?: boolean;
  readonly align?: "start" | "end";
  readonly children: (close: () => void) => ComponentChildren;
}

export function Menu({ id, label, name, active = false, align = "start", children }: MenuProps) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };

  // Before the next key is handled: arrows pressed at once must already move within the panel.
  useLayoutEffect(() => {
    if (!open) return;
    root.current?.querySelector<HTMLElement>(".menu-panel input, .menu-panel button")?.focus();
    const outside = (event: Event): void => {
      if (event.target instanceof Node && !root.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
    };
  }, [open]);

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") move(root.current, 1);
    else if (event.key === "ArrowUp") move(root.current, -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div class="menu" ref={root} onKeyDown={(event) => open && onKeyDown(event)}>
      <button
        type="button"
        id={id}
        ref={button}
        class={active ? "button active" : "button"}
        aria-haspopup="dialog"
        aria-expanded={open}
        aria-label={name}
        onClick={() => setOpen(!open)}
      >
        {label}
        <span class="caret" aria-hidden="true" />
      </button>
      {open && (
        <div class={`menu-panel align-${align}`} role="dialog" aria-label={name}>
          {children(close)}
        </div>
      )}
    </div>
  );
}

function move(root: HTMLElement | null, by: 1 | -1): void {
  const items = [...(root?.querySelectorAll<HTMLElement>(".menu-panel :is(input, button)") ?? [])];
  const at = items.indexOf(document.activeElement as HTMLElement);
  items[(at + by + items.length) % items.length]?.focus();
}
