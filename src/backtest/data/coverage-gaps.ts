import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteLiteral } from '../../archive/query/views.ts';
import { intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import type { UniverseMember } from './batches.ts';

/** Milliseconds of symbols' lives in a span, and how many of them no answer covers. */
export interface CoverageTotals {
  readonly lifetimeMs: number;
  readonly uncoveredMs: number;
}

/** What of a symbol's life lies in a span, epoch milliseconds; it is not empty. */
export interface LifetimeWindow extends Window {
  readonly symbol: string;
}

export const clipLifetimes = (
  members: readonly Pick<UniverseMember, 'symbol' | 'lifetimeFrom' | 'lifetimeTo'>[],
  span: Window,
): LifetimeWindow[] =>
  members.flatMap(({ symbol, lifetimeFrom, lifetimeTo }) => {
    const life = intersectTwo(span, { from: lifetimeFrom, to: lifetimeTo });
    return isEmpty(life) ? [] : [{ symbol, ...life }];
  });

/** With more symbols than these all rows are read, rather than looked for by name. */
const symbolsInQueryMax = 1000;

/**
 * What coverage lacks of the lives of some symbols. It is read once from its beginning to its end, a day having one file for
 * all symbols, and of each symbol two numbers are kept.
 * @param query over coverage, with one thread, so that rows come in the order of files: a symbol's by their start
 */
export async function computeCoverageTotals(
  query: Query,
  lives: readonly LifetimeWindow[],
  signal: AbortSignal,
): Promise<CoverageTotals> {
  const [asked, span] = [sum(lives.map(({ from, to }) => to - from)), spanWindows(lives)];
  const places = new Map(lives.map(({ symbol }, i) => [symbol, i]));
  /** How far each is counted: windows may overlap. */
  const counted = Float64Array.from(lives, ({ from }) => from);
  const starts = new Float64Array(lives.length);
  let covered = 0;
  if (lives.length === 0) return { lifetimeMs: asked, uncoveredMs: 0 };
  // DuckDB makes a join of many names, after which rows come in any order.
  const named = `AND symbol IN (${[...places.keys()].map(quoteLiteral).join(', ')}) ORDER BY t_from`;
  const sql = `SELECT symbol, epoch_ms(t_from)::DOUBLE, epoch_ms(t_to)::DOUBLE FROM coverage
    WHERE dataset = 'ticks' AND t_to > ${toSqlTimestamp(span.from)} AND t_from < ${toSqlTimestamp(span.to)} ${lives.length > symbolsInQueryMax ? '' : named}`;
  for await (const [names, froms, tos] of query.readChunks([sql], signal)) {
    for (let row = 0; row < names!.length; row++) {
      const place = places.get(names![row] as string);
      if (place === undefined) continue;
      const from = froms![row] as number;
      if (from < starts[place]!) throw new Error(`the coverage of ${names![row]} is out of order`);
      starts[place] = from;
      const to = Math.min(tos![row] as number, lives[place]!.to);
      covered += Math.max(0, to - Math.max(from, counted[place]!));
      counted[place] = Math.max(to, counted[place]!);
    }
  }
  return { lifetimeMs: asked, uncoveredMs: asked - covered };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

const spanWindows = (windows: readonly Window[]): Window => ({
  from: windows.reduce((least, { from }) => Math.min(least, from), Number.POSITIVE_INFINITY),
  to: windows.reduce((most, { to }) => Math.max(most, to), 0),
});
