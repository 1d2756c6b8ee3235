/** The keys that can be pressed here. */

import { useEffect, useRef } from "preact/hooks";
import { useKeys } from "../base/keyboard";
import { listed } from "../base/scopes";

const SHOWN: Readonly<Record<string, string>> = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  Escape: "Esc",
  " ": "space",
};
const spelled = (key: string) => SHOWN[key] ?? key.replace("Shift+", "⇧ ");

export function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  useKeys({ Escape: close, "?": close }, "", "instrument");
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-label="Keys"
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <div>
        <h1>Keys</h1>
        {listed().map(({ title, keys }) => (
          <section key={title}>
            <h2>{title || "Here"}</h2>
            <dl>
              {keys.map(([key, does]) => (
                <div key={key}>
                  <dt>
                    <kbd>{spelled(key)}</kbd>
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <section>
          <h2>Tables</h2>
          <dl>
            <div>
              <dt>
                <kbd>↑</kbd> <kbd>↓</kbd>
              </dt>
              <dd>previous and next row</dd>
            </div>
            <div>
              <dt>
                <kbd>⇞</kbd> <kbd>⇟</kbd>
              </dt>
              <dd>a screen of rows</dd>
            </div>
            <div>
              <dt>
                <kbd>Enter</kbd>
              </dt>
              <dd>to where the row is</dd>
            </div>
          </dl>
        </section>
        <button class="button" onClick={close}>
          Close
        </button>
      </div>
    </dialog>
  );
}
