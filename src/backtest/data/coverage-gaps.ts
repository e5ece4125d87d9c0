import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteLiteral } from '../../archive/query/views.ts';
import { intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import type { UniverseMember } from './batches.ts';

/** Total lifetime of symbols in a window, and its uncovered part, in ms. */
export interface CoverageTotals {
  readonly lifetimeMs: number;
  readonly uncoveredMs: number;
}

/** Lifetime of a symbol within a window, epoch ms; not empty. */
export interface LifetimeWindow extends Window {
  readonly symbol: string;
}

export const clipLifetimes = (
  members: readonly Pick<UniverseMember, 'symbol' | 'lifetimeFrom' | 'lifetimeTo'>[],
  span: Window,
): LifetimeWindow[] =>
  members.flatMap(({ symbol, lifetimeFrom, lifetimeTo }) => {
    const lifetime = intersectTwo(span, { from: lifetimeFrom, to: lifetimeTo });
    return isEmpty(lifetime) ? [] : [{ symbol, ...lifetime }];
  });

/** Maximum number of symbols in a query; with more, all rows are read. */
const symbolsInQueryMax = 1000;

/**
 * Computes the uncovered time of symbol lifetimes in one pass over the coverage dataset. Keeps two numbers per symbol
 * in memory.
 * @param query single-threaded query over coverage, so that rows arrive in file order (within a symbol, sorted by
 *   start)
 */
export async function computeCoverageTotals(
  query: Query,
  lifetimes: readonly LifetimeWindow[],
  signal: AbortSignal,
): Promise<CoverageTotals> {
  const [lifetimeMs, span] = [sum(lifetimes.map(({ from, to }) => to - from)), spanWindows(lifetimes)];
  const symbolIndexes = new Map(lifetimes.map(({ symbol }, i) => [symbol, i]));
  /** End of the counted time per symbol, because windows may overlap. */
  const countedTo = Float64Array.from(lifetimes, ({ from }) => from);
  const starts = new Float64Array(lifetimes.length);
  let covered = 0;
  if (lifetimes.length === 0) return { lifetimeMs, uncoveredMs: 0 };
  // With many names DuckDB uses a join, which does not preserve row order.
  const named = `AND symbol IN (${[...symbolIndexes.keys()].map(quoteLiteral).join(', ')}) ORDER BY t_from`;
  const sql = `SELECT symbol, epoch_ms(t_from)::DOUBLE, epoch_ms(t_to)::DOUBLE FROM coverage
    WHERE dataset = 'ticks' AND t_to > ${toSqlTimestamp(span.from)} AND t_from < ${toSqlTimestamp(span.to)} ${lifetimes.length > symbolsInQueryMax ? '' : named}`;
  for await (const [names, froms, tos] of query.readChunks([sql], signal)) {
    for (let row = 0; row < names!.length; row++) {
      const symbolIndex = symbolIndexes.get(names![row] as string);
      if (symbolIndex === undefined) continue;
      const from = froms![row] as number;
      if (from < starts[symbolIndex]!) throw new Error(`the coverage of ${names![row]} is out of order`);
      starts[symbolIndex] = from;
      const to = Math.min(tos![row] as number, lifetimes[symbolIndex]!.to);
      covered += Math.max(0, to - Math.max(from, countedTo[symbolIndex]!));
      countedTo[symbolIndex] = Math.max(to, countedTo[symbolIndex]!);
    }
  }
  return { lifetimeMs, uncoveredMs: lifetimeMs - covered };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

const spanWindows = (windows: readonly Window[]): Window => ({
  from: windows.reduce((min, { from }) => Math.min(min, from), Number.POSITIVE_INFINITY),
  to: windows.reduce((max, { to }) => Math.max(max, to), 0),
});
