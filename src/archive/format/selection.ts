import type { Window } from '../../base/window.ts';

/**
 * Why a symbol is not collected: a user forgot it, `source.include` and `source.exclude` leave it out, or, until a user
 * watched it, no market list named it.
 */
export type UnselectedKind = 'forgotten' | 'excluded' | 'unlisted';

/**
 * A window of a symbol's lifetime in which it is not collected: nothing is expected or owed in it. It starts at -Infinity if
 * nothing had been collected before, and ends at Infinity until the symbol is collected again. Times are epoch ms.
 */
export interface UnselectedWindow extends Window {
  readonly kind: UnselectedKind;
  /** As the user gave it. */
  readonly reason: string | null;
  /** When it was decided that it starts. The window starts at the end of what was proven by then. */
  readonly decidedAt: number;
}

/** What was decided about the collection of a symbol. Absent fields: nothing. */
export interface SymbolSelection {
  /** Sorted and disjoint; only the last one may be open. */
  readonly unselected?: readonly UnselectedWindow[];
  /** When a user decided to collect it whatever lists and settings say, epoch ms. */
  readonly watchedAt?: number;
}

/** The window in which a symbol is not collected now; undefined if it is collected. */
export function findOpenWindow({ unselected }: SymbolSelection): UnselectedWindow | undefined {
  const last = unselected?.at(-1);
  return last?.to === Number.POSITIVE_INFINITY ? last : undefined;
}

/** Whether it was decided that a symbol is not collected. */
export const isUnselected = (facts: SymbolSelection): boolean => findOpenWindow(facts) !== undefined;

/** Decisions as the manifest stores them. Times are epoch milliseconds; null: unbounded. */
export interface PublishedSelection {
  /** Equal windows of several symbols are one entry; sorted by time. */
  readonly not_collected: readonly {
    readonly kind: UnselectedKind;
    readonly from: number | null;
    readonly to: number | null;
    readonly decided_at: number;
    readonly reason?: string;
    readonly symbols: readonly string[];
  }[];
  readonly watched: readonly { readonly symbol: string; readonly decided_at: number }[];
}

/** The decisions of an archive, by symbol; sorted, so that equal decisions give equal bytes. */
export type Selections = ReadonlyMap<string, SymbolSelection>;

/** Decisions as the manifest stores them; an empty object if there are none. */
export function toManifestSelection(selections: Selections): { readonly selection?: PublishedSelection } {
  if (selections.size === 0) return {};
  const windows = [...selections].flatMap(([symbol, { unselected = [] }]) =>
    unselected.map((window) => ({ symbol, window })),
  );
  const groups = Map.groupBy(windows, ({ window: { kind, from, to, decidedAt, reason } }) =>
    JSON.stringify([decidedAt, toBound(from), toBound(to), kind, reason]),
  );
  const entries = [...groups.values()].map((group) => {
    const { kind, from, to, decidedAt, reason } = group[0]!.window;
    return {
      kind,
      from: toBound(from),
      to: toBound(to),
      decided_at: decidedAt,
      ...(reason !== null && { reason }),
      symbols: group.map(({ symbol }) => symbol),
    };
  });
  return {
    selection: {
      // The sort is stable, and the symbols are sorted.
      not_collected: entries.sort((a, b) => a.decided_at - b.decided_at || (a.from ?? 0) - (b.from ?? 0)),
      watched: [...selections].flatMap(([symbol, { watchedAt }]) =>
        watchedAt === undefined ? [] : [{ symbol, decided_at: watchedAt }],
      ),
    },
  };
}

const toBound = (t: number): number | null => (Number.isFinite(t) ? t : null);

/** The decisions that a manifest lists. */
export function parseManifestSelection({ selection }: { readonly selection?: PublishedSelection }): Selections {
  const out = new Map<string, { unselected: UnselectedWindow[]; watchedAt?: number }>();
  const get = (symbol: string) => {
    const known = out.get(symbol) ?? { unselected: [] };
    out.set(symbol, known);
    return known;
  };
  for (const { kind, from, to, decided_at: decidedAt, reason = null, symbols } of selection?.not_collected ?? []) {
    const window = {
      from: from ?? Number.NEGATIVE_INFINITY,
      to: to ?? Number.POSITIVE_INFINITY,
      kind,
      reason,
      decidedAt,
    };
    for (const symbol of symbols) get(symbol).unselected.push(window);
  }
  for (const { symbol, decided_at: decidedAt } of selection?.watched ?? []) get(symbol).watchedAt = decidedAt;
  for (const { unselected } of out.values()) unselected.sort((a, b) => a.to - b.to);
  return out;
}
