/** What every view and every block is given. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Api } from "../api/client";
import type { Link } from "../api/blocks";
import type { RunInfo, ServerInfo } from "../api/answers";
import type { Change, Select, State } from "./url";

export interface ViewProps {
  readonly run: string;
  /** Of the files of the run: what is shown is asked for anew when it changes. */
  readonly version: string;
  readonly about: RunInfo;
  readonly select: Select;
  readonly params: Readonly<Record<string, string>>;
  readonly state: State;
  readonly api: Api;
  readonly server: ServerInfo;
  readonly dark: boolean;
  readonly go: (change: Change, options?: { replace?: boolean }) => void;
  readonly follow: (link: Partial<Link>) => void;
}

export const Context = createContext<ViewProps | null>(null);

/** Notes that the page says at its end: its tables need not repeat them. */
export const Said = createContext<readonly string[]>([]);

export function useProps(): ViewProps {
  const props = useContext(Context);
  if (!props) throw new Error("a block stands in a view");
  return props;
}
