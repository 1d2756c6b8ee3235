/** A table of any length: virtual rows, a head that stays, keys, and rows that lead somewhere. */

import { Component, type ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Answer, Column } from "../api/types";
import { anything, measured, Name, printable } from "../base/text";
import { inWords, shownAs, type Shown } from "./cells";
import type { Rows } from "./rows";

const ROW = 32;
const HEAD = 36;
const OVERSCAN = 8;

/** Browsers stop at about 17 million px; a longer table is scrolled in proportion. */
const TALLEST = 12e6;

interface Props {
  readonly rows: Rows;
  readonly label: string;
  /** Names of the columns that are shown, in order; empty for all. */
  readonly columns: readonly string[];
  readonly sort: string;
  readonly setSort?: ((sort: string) => void) | undefined;
  /** Where a row leads; null where it leads nowhere. */
  readonly open?: ((row: readonly unknown[], head: Answer) => (() => void) | null) | undefined;
  readonly tallest?: number;
  readonly empty: ComponentChildren;
}

export function Grid({ rows, label, columns, sort, setSort, open, tallest = 560, empty }: Props) {
  const { head } = rows;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [active, setActive] = useState(-1);
  const [width, setWidth] = useState(0);
  const shown = useMemo(() => (head ? chosen(head, columns) : []), [head, columns.join()]);
  const places = useMemo(() => shown.map((each) => head?.columns.indexOf(each.column) ?? -1), [shown]);
  const latest = useRef<Latest>({ follow: () => null, choose: () => undefined });
  latest.current = { follow: (cells) => (head && open ? open(cells, head) : null), choose: setActive };
  const widths = useMemo(() => (head ? widthsOf(shown, head) : []), [shown]);
  const total = head?.total ?? 0;
  const full = total * ROW;
  const tall = Math.min(full, TALLEST);
  const view = Math.min(full, tallest);
  const inProportion = full > tall;
  const place = inProportion ? (top / (tall - view)) * (total - view / ROW) : top / ROW; // The first row in view, a fraction.
  const first = Math.max(0, Math.floor(place) - OVERSCAN);
  const last = Math.min(total - 1, Math.ceil(place + view / ROW) + OVERSCAN);
  const start = top - (place - first) * ROW; // Where the first drawn row stands: its own place, unless scrolled in proportion.

  useEffect(() => {
    const timer = setTimeout(() => total && rows.want(first, last), 30);
    return () => clearTimeout(timer);
  }, [first, last, total, rows]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, [head !== undefined]);
  useEffect(() => {
    setActive(-1);
    if (box.current) box.current.scrollTop = 0;
  }, [sort, total]);

  if (!head) return null;
  if (!total) return <div class="grid-empty">{empty}</div>;

  const reveal = (row: number) => {
    const element = box.current;
    if (!element) return;
    const rowsInView = view / ROW;
    const to = row < place ? row : row + 1 > place + rowsInView ? row + 1 - rowsInView : place;
    element.scrollTop = inProportion ? (to / (total - rowsInView)) * (tall - view) : to * ROW;
  };
  const move = (to: number) => {
    const row = Math.max(0, Math.min(total - 1, to));
    setActive(row);
    reveal(row);
  };
  const screen = Math.max(1, Math.floor(view / ROW) - 1);
  const steps: Record<string, number> = {
    ArrowDown: active + 1,
    ArrowUp: active - 1,
    PageDown: active + screen,
    PageUp: active - screen,
    Home: 0,
    End: total - 1,
  };
  const press = (event: KeyboardEvent) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = steps[event.key];
    const row = active >= 0 ? rows.at(active) : undefined;
    if (to !== undefined) move(to);
    else if (event.key === "Enter" && row) open?.(row, head)?.();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const wide = widths.reduce((sum, each) => sum + each.least, 0);
  const template = widths
    .map((each) => (each.grows ? `minmax(${each.least}px, ${each.grows}fr)` : `${each.least}px`))
    .join(" ");
  const style = { "--columns": template, minWidth: `${wide}px` };
  const drawn = Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);

  return (
    <div
      ref={box}
      class={`grid${wide > width && width ? " scrolls" : ""}`}
      role="grid"
      aria-label={label}
      aria-rowcount={total + 1}
      aria-colcount={shown.length}
      aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined}
      aria-busy={rows.loading}
      tabIndex={0}
      style={{ maxHeight: `${tallest + HEAD}px` }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={press}
      onFocus={(event) =>
        event.target === box.current &&
        event.currentTarget.matches(":focus-visible") &&
        active < 0 &&
        setActive(Math.ceil(place))
      }
    >
      <div class="grid-head" role="rowgroup" style={style}>
        <div class="grid-row" role="row" aria-rowindex={1}>
          {shown.map((each) => (
            <Head key={each.column.name} shown={each} sort={sort} {...(setSort && { setSort })} />
          ))}
        </div>
      </div>
      <div class="grid-body" role="rowgroup" style={{ ...style, height: `${tall}px` }}>
        {drawn.map((row, at) => (
          <Row
            key={row}
            row={row}
            id={`${id}-${row}`}
            cells={rows.at(row)}
            shown={shown}
            places={places}
            top={start + at * ROW}
            active={row === active}
            latest={latest}
          />
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  readonly row: number;
  readonly id: string;
  readonly cells: readonly unknown[] | undefined;
  readonly shown: readonly Shown[];
  readonly places: readonly number[];
  readonly top: number;
  readonly active: boolean;
  readonly latest: { readonly current: Latest };
}

interface Latest {
  readonly follow: (cells: readonly unknown[]) => (() => void) | null;
  readonly choose: (row: number) => void;
}

/** A row is drawn again only if something in it is another: scrolling draws the new ones. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps) {
    const { props } = this;
    return (
      next.cells !== props.cells || next.top !== props.top || next.active !== props.active || next.shown !== props.shown
    );
  }

  override render({ row, id, cells, shown, places, top, active, latest }: RowProps) {
    const leads = cells !== undefined && latest.current.follow(cells) !== null;
    const click = () => {
      if (getSelection()?.toString()) return; // Text is being marked, to be copied.
      latest.current.choose(row);
      if (cells) latest.current.follow(cells)?.();
    };
    return (
      <div
        id={id}
        role="row"
        aria-rowindex={row + 2}
        aria-selected={active}
        class={`grid-row${active ? " active" : ""}${leads ? " leads" : ""}`}
        style={{ top: `${top}px` }}
        onClick={click}
      >
        {shown.map((each, at) => (
          <Cell key={each.column.name} shown={each} value={cells?.[places[at] as number]} there={cells !== undefined} />
        ))}
      </div>
    );
  }
}

function Head({
  shown: { column, unit, number },
  sort,
  setSort,
}: {
  shown: Shown;
  sort: string;
  setSort?: (sort: string) => void;
}) {
  const down = sort === `-${column.name}`;
  const up = sort === column.name;
  const next = number
    ? down
      ? column.name
      : up
        ? ""
        : `-${column.name}`
    : up
      ? `-${column.name}`
      : down
        ? ""
        : column.name;
  const words = (
    <>
      <span class="head-name">{inWords(printable(column.name))}</span>
      {unit && <span class="head-unit">({unit})</span>}
      {(up || down) && <span class="head-sort">{down ? "↓" : "↑"}</span>}
    </>
  );
  return (
    <div
      class={`grid-cell head${number ? " number" : ""}`}
      role="columnheader"
      aria-sort={down ? "descending" : up ? "ascending" : "none"}
    >
      {setSort ? (
        <button onClick={() => setSort(next)} data-tip={tipOf(column)}>
          {words}
        </button>
      ) : (
        <span class="head-words" data-tip={tipOf(column)}>
          {words}
        </span>
      )}
    </div>
  );
}

const tipOf = (column: Column): string =>
  printable(column.doc ? `${column.name}\n${column.doc}` : column.name).replaceAll("\\n", "\n");

function Cell({ shown, value, there }: { shown: Shown; value: unknown; there: boolean }) {
  if (!there) return <div class={`grid-cell${shown.number ? " number" : ""} coming`} role="gridcell" />;
  const text = shown.text(value);
  return (
    <div class={`grid-cell${shown.number ? " number" : ""}`} role="gridcell">
      {shown.number ? text : <Name text={text} tip={anything(value)} />}
    </div>
  );
}

function chosen(head: Answer, columns: readonly string[]): Shown[] {
  const found = columns
    .map((name) => head.columns.find((column) => column.name === name))
    .filter((column): column is Column => !!column);
  return (found.length ? found : head.columns).map((column) => shownAs(column, head.scales[column.name], head.short));
}

/** The columns to begin with: those that say something, where all rows are here to be asked. */
export function telling(head: Answer): string[] {
  const whole = head.rows.length === head.total && head.total > 0;
  const empty = (place: number) => whole && head.rows.every((row) => row[place] === null);
  const found = head.columns.filter((column, place) => !empty(place) && !(head.ranks === 1 && column.name === "rank"));
  return found.map((column) => column.name);
}

interface Wide {
  readonly least: number;
  readonly grows: number;
}

const PAD = 20;
const WIDEST = 440;

/** From the rows of the first window: numbers take what they need, names share what is left. */
function widthsOf(shown: readonly Shown[], head: Answer): Wide[] {
  return shown.map(({ column, number, unit, text }) => {
    const place = head.columns.indexOf(column);
    const needed = head.rows
      .slice(0, 100)
      .reduce((most, row) => Math.max(most, measured(text(row[place]).slice(0, 120))), 0);
    const own = measured(`${inWords(column.name)}  (${unit})`, 12, 500) + 16;
    if (number) return { least: Math.ceil(Math.max(needed + 4, own, 48) + PAD), grows: 0 };
    const least = Math.max(own, Math.min(needed + 8, innerWidth > 860 ? 320 : 180)) + PAD;
    return { least: Math.ceil(least), grows: needed > 180 ? Math.min(needed, WIDEST) : needed > 60 ? 40 : 1 };
  });
}
