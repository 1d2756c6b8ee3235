/** A table of any length: virtual rows, a head that stays, keys, and rows that lead somewhere. */

import { Component, type ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Column, TableAnswer } from "../api/answers";
import { anything, apart, measured, Name, printable } from "../base/text";
import { inWords, shownAs, type Shown } from "./cells";
import { markdown } from "./markdown";
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
  readonly open?: ((row: readonly unknown[], head: TableAnswer) => (() => void) | null) | undefined;
  /** Where a row leads that leaves the view: a click only picks the row, and says so. */
  readonly elsewhere?: ((row: readonly unknown[], head: TableAnswer) => Elsewhere | null) | undefined;
  /** Columns that do not fit are left out, the last ones first; the names of those that are. */
  readonly leftOut?: ((names: readonly string[]) => void) | undefined;
  readonly tallest?: number;
  readonly empty: ComponentChildren;
}

export interface Elsewhere {
  readonly says: string;
  readonly href: string;
  readonly go: () => void;
}

export function Grid({ rows, label, columns, sort, setSort, open, elsewhere, leftOut, tallest = 560, empty }: Props) {
  const { head } = rows;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [active, setActive] = useState(-1);
  const [width, setWidth] = useState(0);
  const [own, setOwn] = useState<Readonly<Record<string, number>>>({});
  const all = useMemo(() => (head ? chosen(head, columns) : []), [head, columns.join()]);
  const needed = useMemo(() => (head ? widthsOf(all, head, width) : []), [all, width > 0 && width < 560]);
  const narrow = useMemo(
    () => (leftOut && width ? fitting(all, needed, width, sort) : all),
    [needed, width, sort, !leftOut],
  );
  const tails = useMemo(
    () => all.map(({ column, number, text }) => (number || !head ? NO_TAILS : tailsOf(head, column, text))),
    [all],
  );
  const names = narrow.map(({ column }) => column.name).join();
  const shown = useMemo(() => narrow, [names, all]);
  useEffect(
    () => leftOut?.(all.filter((each) => !shown.includes(each)).map(({ column }) => column.name)),
    [shown, !leftOut],
  );
  const places = useMemo(() => shown.map((each) => head?.columns.indexOf(each.column) ?? -1), [shown]);
  const latest = useRef<Latest>({ follow: () => null, choose: () => undefined, picks: () => false });
  const way = (cells: readonly unknown[]) => (head && elsewhere?.(cells, head)) || null;
  latest.current = {
    follow: (cells) => (head && open ? open(cells, head) : null),
    choose: setActive,
    picks: (cells) => way(cells) !== null,
  };
  const widths = shown.map((each): Wide => {
    const fixed = own[each.column.name];
    if (fixed !== undefined) return { least: fixed, grows: 0 };
    const wide = needed[all.indexOf(each)] ?? { least: 48, grows: 0 };
    return shown.length < all.length || leftOut ? { ...wide, least: Math.min(wide.least, NAME) } : wide;
  });
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
    else if (event.key === "Enter" && row) (open?.(row, head) ?? way(row)?.go)?.();
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

  const picked = active >= 0 && elsewhere ? rows.at(active) : undefined;
  const there = picked && way(picked);
  const resize = (column: string, to: number | null) => {
    const { [column]: _, ...others } = own;
    setOwn(to === null ? others : { ...others, [column]: Math.max(40, to) });
  };
  const table = (
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
            <Head key={each.column.name} shown={each} sort={sort} resize={resize} {...(setSort && { setSort })} />
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
            tails={shown.map((each) => tails[all.indexOf(each)] ?? NO_TAILS)}
            top={start + at * ROW}
            active={row === active}
            latest={latest}
          />
        ))}
      </div>
    </div>
  );
  if (!elsewhere) return table;
  return (
    <>
      {table}
      {picked && <Picked cells={picked} head={head} shown={shown} way={there ?? null} />}
    </>
  );
}

/** What can be done with the row that was clicked: to read its name in full, to copy it, to go where it is. */
function Picked({
  cells,
  head,
  shown,
  way,
}: {
  cells: readonly unknown[];
  head: TableAnswer;
  shown: readonly Shown[];
  way: Elsewhere | null;
}) {
  const [copied, setCopied] = useState("");
  useEffect(() => setCopied(""), [cells]);
  const place = head.columns.findIndex(({ dtype, name }) => name === "name" || dtype === "String");
  const name = place < 0 || cells[place] == null ? "" : String(cells[place]);
  const copy = (what: string, text: string) =>
    void navigator.clipboard?.writeText(text).then(() => setCopied(`${what} copied`));
  const names = shown.map(({ column }) => column.name);
  return (
    <div class="picked">
      {name && <span class="picked-name">{printable(name)}</span>}
      {way && (
        <a
          href={way.href}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
            event.preventDefault();
            way.go();
          }}
        >
          {way.says}
        </a>
      )}
      {name && (
        <button class="link" onClick={() => copy("Name", name)}>
          Copy name
        </button>
      )}
      <button class="link" onClick={() => copy("Row", markdown({ ...head, rows: [cells] }, names))}>
        Copy as Markdown
      </button>
      <span role="status">{copied}</span>
    </div>
  );
}

interface RowProps {
  readonly row: number;
  readonly id: string;
  readonly cells: readonly unknown[] | undefined;
  readonly shown: readonly Shown[];
  readonly places: readonly number[];
  readonly tails: readonly ReadonlyMap<string, number>[];
  readonly top: number;
  readonly active: boolean;
  readonly latest: { readonly current: Latest };
}

interface Latest {
  readonly follow: (cells: readonly unknown[]) => (() => void) | null;
  readonly choose: (row: number) => void;
  /** A click picks the row, and what can be done with it is said. */
  readonly picks: (cells: readonly unknown[]) => boolean;
}

/** A row is drawn again only if something in it is another: scrolling draws the new ones. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps) {
    const { props } = this;
    return (
      next.cells !== props.cells || next.top !== props.top || next.active !== props.active || next.shown !== props.shown
    );
  }

  override render({ row, id, cells, shown, places, tails, top, active, latest }: RowProps) {
    const leads = cells !== undefined && (latest.current.follow(cells) !== null || latest.current.picks(cells));
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
          <Cell
            key={each.column.name}
            shown={each}
            value={cells?.[places[at] as number]}
            there={cells !== undefined}
            tails={tails[at]}
          />
        ))}
      </div>
    );
  }
}

function Head({
  shown: { column, unit, number },
  sort,
  setSort,
  resize,
}: {
  shown: Shown;
  sort: string;
  setSort?: (sort: string) => void;
  /** Gives a column a width; null: the usual. */
  resize: (column: string, to: number | null) => void;
}) {
  const drag = (event: PointerEvent) => {
    const grip = event.currentTarget as HTMLElement;
    const from = event.clientX - (grip.parentElement?.offsetWidth ?? 0);
    const move = (moved: PointerEvent) => resize(column.name, moved.clientX - from);
    grip.setPointerCapture(event.pointerId);
    grip.addEventListener("pointermove", move);
    grip.addEventListener("lostpointercapture", () => grip.removeEventListener("pointermove", move), { once: true });
    event.preventDefault();
  };
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
      <i class="grip" aria-hidden="true" onPointerDown={drag} onDblClick={() => resize(column.name, null)} />
    </div>
  );
}

const tipOf = (column: Column): string =>
  printable(column.doc ? `${column.name}\n${column.doc}` : column.name).replaceAll("\\n", "\n");

interface CellProps {
  readonly shown: Shown;
  readonly value: unknown;
  readonly there: boolean;
  readonly tails: ReadonlyMap<string, number> | undefined;
}

function Cell({ shown, value, there, tails }: CellProps) {
  if (!there) return <div class={`grid-cell${shown.number ? " number" : ""} coming`} role="gridcell" />;
  const text = shown.text(value);
  return (
    <div class={`grid-cell${shown.number ? " number" : ""}`} role="gridcell">
      {shown.number ? text : <Name text={text} tip={anything(value)} from={tails?.get(text)} />}
    </div>
  );
}

function chosen(head: TableAnswer, columns: readonly string[]): Shown[] {
  const found = columns
    .map((name) => head.columns.find((column) => column.name === name))
    .filter((column): column is Column => !!column);
  return (found.length ? found : head.columns).map((column) => shownAs(column, head.scales[column.name], head.short));
}

/** The columns to begin with: those that say something, where all rows are here to be asked. */
export function telling(head: TableAnswer): string[] {
  const whole = head.rows.length === head.total && head.total > 0;
  const empty = (place: number) => whole && head.rows.every((row) => row[place] === null);
  const found = head.columns.filter((column, place) => !empty(place) && !(head.ranks === 1 && column.name === "rank"));
  return found.map((column) => column.name);
}

const NO_TAILS: ReadonlyMap<string, number> = new Map();

/** Of the names of the first window. */
const tailsOf = (head: TableAnswer, column: Column, text: Shown["text"]): ReadonlyMap<string, number> =>
  apart(head.rows.slice(0, 200).map((row) => text(row[head.columns.indexOf(column)])));

interface Wide {
  readonly least: number;
  readonly grows: number;
}

const PAD = 20;
const WIDEST = 440;
/** A name can be as narrow as this before columns are left out. */
const NAME = 240;

/** The columns that fit, from the first on; the first and the one that rows are sorted by always do. */
function fitting(all: readonly Shown[], needed: readonly Wide[], width: number, sort: string): readonly Shown[] {
  const sorted = sort.replace(/^-/, "");
  const least = (at: number) => Math.min(needed[at]?.least ?? 0, NAME);
  let room = width - all.reduce((sum, each, at) => sum + (at === 0 || each.column.name === sorted ? least(at) : 0), 0);
  let full = false;
  return all.filter((each, at) => {
    if (at === 0 || each.column.name === sorted) return true;
    full ||= least(at) > room;
    if (!full) room -= least(at);
    return !full;
  });
}

/** From the rows of the first window: numbers take what they need, names share what is left. */
function widthsOf(shown: readonly Shown[], head: TableAnswer, width: number): Wide[] {
  // In a column beside something else names are cut, rather than left out.
  const most = innerWidth <= 860 ? 180 : width && width < 560 ? 110 : 320;
  return shown.map(({ column, number, unit, text }) => {
    const place = head.columns.indexOf(column);
    const needed = head.rows
      .slice(0, 100)
      .reduce((most, row) => Math.max(most, measured(text(row[place]).slice(0, 120))), 0);
    const own = measured(`${inWords(column.name)}  (${unit})`, 12, 500) + 16;
    if (number) return { least: Math.ceil(Math.max(needed + 4, own, 48) + PAD), grows: 0 };
    const least = Math.max(own, Math.min(needed + 8, most)) + PAD;
    return { least: Math.ceil(least), grows: needed > 180 ? Math.min(needed, WIDEST) : needed > 60 ? 40 : 1 };
  });
}
