/** Every lane by name, to filter, fold, hide, order, size and pin: what the labels do, for keyboards and screen readers too. */

import { printable, words } from "../../../base/text";
import { shown } from "../../../base/numbers";
import { Pill } from "../../../frame/popover";
import {
  type Arrangement,
  dropped,
  type Flipped,
  flipped,
  heightOf,
  keyOf,
  LABELS,
  LEAST_HALVES,
  MOST_HALVES,
  nudged,
  resized,
  shownLanes,
} from "../engine/arrange";
import { startOf } from "../engine/places";
import type { TimelineGroup, TimelineLane, TimelineLanes } from "../../../api/answers";
import type { Item } from "../engine/types";

interface Props {
  readonly lanes: TimelineLanes;
  readonly how: Arrangement;
  readonly set: (how: Arrangement) => void;
}

/** Lanes that are listed at once; a filter finds the others. */
const LISTED = 250;

const count = ({ ranks }: TimelineLanes): number =>
  ranks.reduce((sum, { groups }) => sum + groups.reduce((all, group) => all + group.lanes.length, 0), 0);

export function LanesMenu({ lanes, how, set }: Props) {
  const all = lanes.ranks.reduce((sum, { more = 0 }) => sum + more, count(lanes));
  // What is hidden is listed, too: here it comes back.
  const listed = shownLanes(lanes, { ...how, hidden: new Set() });
  const seen = count(shownLanes(lanes, how));
  const changed = JSON.stringify(plain(how)) !== JSON.stringify(plain(startOf(lanes)));
  let left = LISTED;
  return (
    <Pill
      label="Lanes"
      value={seen < all ? `${shown(seen, "")} of ${shown(all, "")}` : `${all}`}
      title="Lanes"
      set={seen < count(lanes)}
      right
    >
      {() => (
        <div class="tl-lanes">
          <div class="tl-lanes-head">
            <input
              type="search"
              value={how.filter}
              placeholder="Filter: stream, main, rank 3"
              aria-label="Only lanes whose name contains one of these words"
              onInput={(event) => set({ ...how, filter: event.currentTarget.value })}
            />
            <button class="tl-tool" disabled={!changed} onClick={() => set(startOf(lanes))}>
              Reset
            </button>
          </div>
          <label class="tl-lanes-range">
            Row height
            <input
              type="range"
              min={LEAST_HALVES}
              max={MOST_HALVES}
              value={2 * heightOf(how, "*")}
              onInput={(event) => set(resized(how, "*", Number(event.currentTarget.value) - 2 * heightOf(how, "*")))}
            />
          </label>
          <label class="tl-lanes-range">
            Label width
            <input
              type="range"
              min={LABELS.least}
              max={LABELS.most}
              step={10}
              value={how.labels || 184}
              onInput={(event) => set({ ...how, labels: Number(event.currentTarget.value) })}
            />
          </label>
          {lanes.notes.map((note) => (
            <p class="sub" key={note}>
              {words(note)}
            </p>
          ))}
          {listed.ranks.map(({ rank, groups }) => (
            <fieldset key={rank}>
              {lanes.ranks.length > 1 && (
                <legend>
                  <Line
                    {...{ how, set, lanes }}
                    name={keyOf.rank(rank)}
                    item={{ what: "rank", rank }}
                    title={`Rank ${rank}`}
                    folds
                    strong
                  />
                </legend>
              )}
              {groups
                .filter(({ kind }) => kind !== "steps")
                .map((group) => (
                  <div key={group.id}>
                    {group.lanes.length > 1 && (
                      <Line
                        {...{ how, set, lanes }}
                        name={keyOf.group(rank, group.id)}
                        item={{ what: "group", rank }}
                        title={group.title}
                        folds
                        strong
                      />
                    )}
                    {group.lanes
                      .filter(() => left-- > 0)
                      .map((lane) => (
                        <Line
                          key={lane.id}
                          {...{ how, set, lanes }}
                          name={keyOf.lane(rank, lane.id)}
                          item={{ what: "lane", rank, lane: lane.id }}
                          title={titleOf(group, lane)}
                          folds={lane.depth > 1}
                          sizes
                        />
                      ))}
                  </div>
                ))}
            </fieldset>
          ))}
          {left < 0 && <p class="sub">{`${shown(-left, "")} more: filter them by name.`}</p>}
          {!listed.ranks.length && <p class="sub">No lane has such a name.</p>}
        </div>
      )}
    </Pill>
  );
}

const titleOf = (group: TimelineGroup, lane: TimelineLane): string =>
  group.kind === "device" && group.lanes.length === 1 ? `${group.title} · ${lane.title}` : lane.title;

/** Sets and maps as JSON has them. */
const plain = (how: Arrangement): unknown =>
  Object.values(how).map((part: unknown) => (part instanceof Set || part instanceof Map ? [...part] : part));

interface LineProps extends Props {
  readonly name: string;
  readonly item: Pick<Item, "what" | "rank"> & { readonly lane?: string };
  readonly title: string;
  readonly folds: boolean;
  readonly sizes?: boolean;
  readonly strong?: boolean;
}

function Line({ lanes, how, set, name, item, title, folds, sizes = false, strong = false }: LineProps) {
  const hidden = how.hidden.has(name);
  const named = printable(title);
  const flip = (what: Flipped) => set(flipped(how, what, name));
  const whole = { lane: "", ...item, key: name } as Item;
  const text = (
    <span class={`tl-lane-name${hidden ? " off" : ""}`} data-tip={named}>
      {named}
    </span>
  );
  return (
    <div
      class={`tl-lane${strong ? " strong" : ""}`}
      draggable
      onDragStart={(event) => event.dataTransfer?.setData("text/plain", JSON.stringify(whole))}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        const from = read(event.dataTransfer?.getData("text/plain") ?? "");
        const box = event.currentTarget.getBoundingClientRect();
        if (from) set(dropped(how, lanes, from, whole, event.clientY > box.top + box.height / 2));
      }}
    >
      {folds ? (
        <label class="tl-check">
          <input type="checkbox" checked={!how.folded.has(name)} onChange={() => flip("folded")} />
          {text}
        </label>
      ) : (
        text
      )}
      <button
        class="tl-tool"
        aria-label={`Up: ${named}`}
        data-tip="Up"
        onClick={() => set(nudged(how, lanes, whole, -1))}
      >
        ↑
      </button>
      <button
        class="tl-tool"
        aria-label={`Down: ${named}`}
        data-tip="Down"
        onClick={() => set(nudged(how, lanes, whole, 1))}
      >
        ↓
      </button>
      {sizes && (
        <>
          <button
            class="tl-tool"
            aria-label={`Lower rows: ${named}`}
            data-tip="Lower rows"
            onClick={() => set(resized(how, name, -1))}
          >
            −
          </button>
          <button
            class="tl-tool"
            aria-label={`Higher rows: ${named}`}
            data-tip="Higher rows"
            onClick={() => set(resized(how, name, 1))}
          >
            +
          </button>
          <button
            class={`tl-tool${how.pinned.has(name) ? " on" : ""}`}
            aria-label={`Pin: ${named}`}
            aria-pressed={how.pinned.has(name)}
            onClick={() => flip("pinned")}
          >
            Pin
          </button>
        </>
      )}
      <button
        class={`tl-tool${hidden ? " on" : ""}`}
        aria-label={`Hide: ${named}`}
        aria-pressed={hidden}
        onClick={() => flip("hidden")}
      >
        {hidden ? "Show" : "Hide"}
      </button>
    </div>
  );
}

/** What was dragged here; something else may be dropped as well. */
function read(text: string): Item | null {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null && "key" in found && "what" in found ? (found as Item) : null;
  } catch {
    return null;
  }
}
