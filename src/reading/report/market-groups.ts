import type { SymbolFacts } from '../../core/market.ts';

/** What symbols are grouped by: the first of these that tells them apart. */
export type GroupingKey = 'category' | 'source' | 'prefix';

export interface SymbolGrouping {
  readonly by: GroupingKey;
  /** The name of a symbol's group. */
  getGroupName(facts: SymbolFacts): string;
}

/** The rest, where there are more groups than are shown. */
export const otherGroupsName = 'all others';

const unknownGroupName = 'unknown';

/** A group of symbols that has no more than these tells nothing apart. */
const groupsMin = 2;

/**
 * Groups symbols so that there are at most `groupsMax`, those of the most symbols under their own name: by category where
 * half of them have one and there are several, else by source, else by what their tickers begin with.
 */
export function groupSymbols(symbols: readonly SymbolFacts[], groupsMax: number): SymbolGrouping {
  const by = (['category', 'source'] as const).find((name) => {
    const known = symbols.flatMap((facts) => facts[name] ?? []);
    return known.length * 2 >= symbols.length && new Set(known).size >= groupsMin;
  });
  const keyOf = (facts: SymbolFacts): string =>
    by === undefined ? toPrefix(facts.symbol) : (facts[by]?.trim() ?? '') || unknownGroupName;
  const counts = new Map<string, number>();
  for (const facts of symbols) counts.set(keyOf(facts), (counts.get(keyOf(facts)) ?? 0) + 1);
  const order = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).map(([name]) => name);
  const named = new Set(order.length <= groupsMax ? order : order.slice(0, groupsMax - 1));
  return {
    by: by ?? 'prefix',
    getGroupName(facts) {
      const key = keyOf(facts);
      return named.has(key) ? key : otherGroupsName;
    },
  };
}

/** `KXBTC` of `KXBTC-26NOV23-T90`: up to the first character that is no letter; all of it where that is none. */
const toPrefix = (symbol: string): string => /^\p{L}+/u.exec(symbol)?.[0] ?? symbol.slice(0, 1);
