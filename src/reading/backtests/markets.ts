import type { Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import { moment } from '../../query/slice.ts';

/** Which market a symbol was known to be of, from a moment on; epoch milliseconds. */
export interface KnownId {
  readonly from: number;
  readonly id: string;
}

/** What polls told of the markets of symbols. */
export interface Markets {
  /** By time; none where no poll told of the symbol. */
  idsOf(symbol: string): readonly KnownId[];
  /** A name for all symbols that were, one by another, ever known to be of one market; null where nothing is known. */
  groupOf(symbol: string): string | null;
}

/** Reads the markets dataset up to a moment: what was told later was not known. */
export async function readMarkets(query: Query, to: number, signal: AbortSignal): Promise<Markets> {
  const sql = `SELECT symbol, canonical_id, epoch_ms(first_seen)::DOUBLE FROM markets
    WHERE symbol IS NOT NULL AND first_seen < ${moment(to)} ORDER BY symbol, first_seen, canonical_id`;
  const ids = new Map<string, KnownId[]>();
  const groups = joiner();
  for await (const [symbols, names, froms] of query.chunks([sql], signal)) {
    for (const [row, name] of symbols!.entries()) {
      const [symbol, id, from] = [name as string, names![row] as string, froms![row] as number];
      const known = ids.get(symbol) ?? [];
      ids.set(symbol, known);
      // Every day begins anew with what was known the day before.
      if (known.at(-1)?.id === id) continue;
      groups.join(id, known.at(-1)?.id ?? id);
      known.push({ from, id });
    }
  }
  return {
    idsOf: (symbol) => ids.get(symbol) ?? [],
    groupOf(symbol) {
      const [first] = ids.get(symbol) ?? [];
      return first === undefined ? null : groups.of(first.id);
    },
  };
}

/** Names that belong together, found by one of them. */
function joiner() {
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
export function togetherOf(a: readonly KnownId[], b: readonly KnownId[]): Window[] {
  const out: { from: number; to: number }[] = [];
  const moments = [...new Set([...a, ...b].map(({ from }) => from))].sort((x, y) => x - y);
  const idAt = (ids: readonly KnownId[], t: number): string | undefined => ids.findLast(({ from }) => from <= t)?.id;
  for (const [i, from] of moments.entries()) {
    const id = idAt(a, from);
    if (id === undefined || id !== idAt(b, from)) continue;
    const to = moments[i + 1] ?? Number.POSITIVE_INFINITY;
    if (out.at(-1)?.to === from) out.at(-1)!.to = to;
    else out.push({ from, to });
  }
  return out;
}
