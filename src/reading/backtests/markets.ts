import { floorToDay, type Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import { toSqlTimestamp } from '../../query/slice-query.ts';

/** Which markets a symbol was known to be of, from a moment on; epoch milliseconds. Several, where a match is in doubt. */
export interface KnownIds {
  readonly from: number;
  readonly ids: readonly string[];
}

/** What polls told of the markets of symbols. */
export interface MarketIndex {
  /** By time; none where no poll told of the symbol. */
  getIds(symbol: string): readonly KnownIds[];
  /** A name for all symbols that were, one by another, ever known to be of one market; null where nothing is known. */
  getGroup(symbol: string): string | null;
}

/** Reads the markets dataset up to a moment: what was told later was not known. */
export async function readMarketIndex(query: Query, to: number, signal: AbortSignal): Promise<MarketIndex> {
  const sql = `SELECT symbol, canonical_id, epoch_ms(first_seen)::DOUBLE FROM markets
    WHERE symbol IS NOT NULL AND first_seen < ${toSqlTimestamp(to)} ORDER BY symbol, first_seen, canonical_id`;
  const ids = new Map<string, readonly KnownIds[]>();
  const groups = createUnionFind();
  // Rows of a symbol stand together. They are many, and what is known by them is little.
  let [of, told] = [null as string | null, [] as { from: number; ids: string[] }[]];
  const learn = (): void => {
    if (of !== null) ids.set(of, foldKnownIds(told));
  };
  for await (const [symbols, names, froms] of query.readChunks([sql], signal)) {
    for (const [row, name] of symbols!.entries()) {
      const [symbol, id, from] = [name as string, names![row] as string, froms![row] as number];
      if (symbol !== of) {
        learn();
        [of, told] = [symbol, []];
      }
      groups.join(id, told.at(-1)?.ids[0] ?? id);
      if (told.at(-1)?.from === from) told.at(-1)!.ids.push(id);
      else told.push({ from, ids: [id] });
    }
  }
  learn();
  return {
    getIds: (symbol) => ids.get(symbol) ?? [],
    getGroup(symbol) {
      const [first] = ids.get(symbol) ?? [];
      return first === undefined ? null : groups.of(first.ids[0]!);
    },
  };
}

/**
 * What was known by what rows of the markets dataset told as they began. Every day begins anew with all that its first poll
 * told; within it a row may be there for another state of a market that was told before, and says nothing of the others.
 */
export function foldKnownIds(told: readonly KnownIds[]): KnownIds[] {
  const known: KnownIds[] = [];
  for (const [i, one] of told.entries()) {
    const last = known.at(-1);
    const isLater = i > 0 && floorToDay(told[i - 1]!.from) === floorToDay(one.from);
    const isNews = last === undefined || !one.ids.every((id) => last.ids.includes(id));
    if (isNews || (!isLater && one.ids.length < last.ids.length)) known.push(one);
  }
  return known;
}

/** Names that belong together, found by one of them. */
function createUnionFind() {
  const above = new Map<string, string>();
  const of = (name: string): string => {
    let top = name;
    for (let next = above.get(top); next !== undefined; next = above.get(top)) top = next;
    // Whoever asks again finds it at once.
    for (let at = name; at !== top; ) {
      const next = above.get(at)!;
      above.set(at, top);
      at = next;
    }
    return top;
  };
  return {
    of,
    join(a: string, b: string): void {
      const [x, y] = [of(a), of(b)];
      // The lesser stands for both, so that the order of rows makes no difference.
      if (x !== y) above.set(x < y ? y : x, x < y ? x : y);
    },
  };
}

/** When two symbols were known to be of one market. */
export function findSharedWindows(a: readonly KnownIds[], b: readonly KnownIds[]): Window[] {
  const out: { from: number; to: number }[] = [];
  const moments = [...new Set([...a, ...b].map(({ from }) => from))].sort((x, y) => x - y);
  const idsAt = (known: readonly KnownIds[], t: number): readonly string[] =>
    known.findLast(({ from }) => from <= t)?.ids ?? [];
  for (const [i, from] of moments.entries()) {
    const ofB = idsAt(b, from);
    if (!idsAt(a, from).some((id) => ofB.includes(id))) continue;
    const to = moments[i + 1] ?? Number.POSITIVE_INFINITY;
    if (out.at(-1)?.to === from) out.at(-1)!.to = to;
    else out.push({ from, to });
  }
  return out;
}
