/** The keyboard shortcuts, in a dialog. */

import { useEffect, useRef } from "preact/hooks";
import { helpShown, SHORTCUTS } from "../state/keys";

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = helpShown.value;
  useEffect(() => {
    if (shown) dialog.current?.showModal();
    else dialog.current?.close();
  }, [shown]);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      onClose={() => (helpShown.value = false)}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="help-body">
        <h2 id="help-title">Keyboard</h2>
        <dl>
          {SHORTCUTS.map(({ key, does }) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
        <p class="muted">Drag over a chart to zoom in, double-click to zoom out.</p>
        <button type="button" class="button" onClick={() => (helpShown.value = false)}>
          Close
        </button>
      </div>
    </dialog>
  );
}
