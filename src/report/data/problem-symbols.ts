import type { Completeness, CompletenessInput } from '../../archive/completeness/completeness.ts';
import { isActive } from '../../archive/completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { isUnselected } from '../../archive/format/selection.ts';
import { laggingMsMin } from '../../archive/read/status.ts';
import { subtract, union } from '../../base/window.ts';

/** Symbols that cannot be fetched, or are covered less far than the others. Times in epoch ms. */
export interface ProblemSymbols {
  /** Failing symbols first, then suspended, then late ones; at most `listedMax` of each. */
  readonly listed: readonly ProblemSymbol[];
  readonly counts: Readonly<Record<ProblemSymbol['state'], number>>;
}

export interface ProblemSymbol {
  readonly symbol: string;
  readonly question: string | null;
  /**
   * `failing`: requests for some of its windows failed, and these windows are not covered. `suspended`: the service
   * says that it does not exist. `late`: covered less far than other live symbols, and not failing.
   */
  readonly state: 'failing' | 'suspended' | 'late';
  /** When the first of these requests failed, or when the symbol was suspended; null if late. */
  readonly since: number | null;
  /** End of its coverage without a gap; null if nothing is covered. */
  readonly coveredTo: number | null;
  /** Uncovered time that was requested; for a late symbol, how far it is behind the others. In ms. */
  readonly missingMs: number;
  /** Why the last request failed, one clause; null if none did. */
  readonly reason: string | null;
}

const listedMax = 15;

/** Lists failing, suspended and late symbols, those with the most missing time first. */
export function listProblemSymbols(
  state: CompletenessInput,
  { live }: Pick<Completeness, 'live'>,
  nowMs: number,
): ProblemSymbols {
  const facts = new Map(state.symbols.map((one) => [one.symbol, one]));
  const reached = new Map(live.map((one) => [one.symbol, Math.min(one.reached, nowMs)]));
  const failing = listFailing(state, facts, reached, nowMs);
  const suspended = state.symbols
    .filter((one) => one.suspendedAt !== null && isActive(one, state.namedSymbols))
    .map((one): ProblemSymbol => {
      const coveredTo = (state.coverage.get(one.symbol) ?? []).reduce<number | null>(
        (end, { to }) => Math.max(end ?? to, to),
        null,
      );
      return {
        symbol: one.symbol,
        question: one.question,
        state: 'suspended',
        since: one.suspendedAt,
        coveredTo,
        missingMs: Math.max(0, nowMs - (coveredTo ?? one.suspendedAt!)),
        reason: null,
      };
    });
  const failingNames = new Set(failing.map(({ symbol }) => symbol));
  const newest = [...reached.values()].reduce((max, to) => Math.max(max, to), Number.NEGATIVE_INFINITY);
  const late = [...reached].flatMap(([symbol, coveredTo]): ProblemSymbol[] => {
    const missingMs = newest - coveredTo;
    if (missingMs < laggingMsMin || failingNames.has(symbol)) return [];
    const question = facts.get(symbol)?.question ?? null;
    return [{ symbol, question, state: 'late', since: null, coveredTo, missingMs, reason: null }];
  });
  const groups = [failing, suspended, late];
  const worstFirst = (a: ProblemSymbol, b: ProblemSymbol): number =>
    b.missingMs - a.missingMs || (a.symbol < b.symbol ? -1 : 1);
  return {
    listed: groups.flatMap((group) => group.toSorted(worstFirst).slice(0, listedMax)),
    counts: { failing: failing.length, suspended: suspended.length, late: late.length },
  };
}

function listFailing(
  { owed = new Map(), coverage }: CompletenessInput,
  facts: ReadonlyMap<string, SymbolFacts>,
  reached: ReadonlyMap<string, number>,
  nowMs: number,
): ProblemSymbol[] {
  const out: ProblemSymbol[] = [];
  for (const [symbol, windows] of owed) {
    const one = facts.get(symbol);
    const failed = windows.filter(({ kind, from }) => kind === 'failed' && from < nowMs);
    if (one === undefined || one.suspendedAt !== null || isUnselected(one) || failed.length === 0) continue;
    // An owed window may be covered by now.
    const missing = subtract(union(failed), union([...(coverage.get(symbol) ?? []), ...(one.unselected ?? [])]));
    const missingMs = missing.reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, nowMs) - from), 0);
    if (missingMs === 0) continue;
    const last = failed.reduce((a, b) => (b.to > a.to ? b : a));
    out.push({
      symbol,
      question: one.question,
      state: 'failing',
      since: failed.reduce((min, { since }) => Math.min(min, since), Number.POSITIVE_INFINITY),
      coveredTo: reached.get(symbol) ?? null,
      missingMs,
      reason: last.reason,
    });
  }
  return out;
}
