import { intersection, isEmpty, type Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import { moment } from '../../query/slice-query.ts';
import { literal } from '../../query/views.ts';
import type { Member } from './select-symbols.ts';

/** Milliseconds of symbols' lives in a span, and how many of them no answer covers. */
export interface Lacking {
  readonly asked: number;
  readonly lacking: number;
}

/** What of a symbol's life lies in a span, epoch milliseconds; it is not empty. */
export interface Life extends Window {
  readonly symbol: string;
}

export const livesIn = (members: readonly Pick<Member, 'symbol' | 'livesFrom' | 'livesTo'>[], span: Window): Life[] =>
  members.flatMap(({ symbol, livesFrom, livesTo }) => {
    const life = intersection(span, { from: livesFrom, to: livesTo });
    return isEmpty(life) ? [] : [{ symbol, ...life }];
  });

/** With more symbols than these all rows are read, rather than looked for by name. */
const namedMax = 1000;

/**
 * What coverage lacks of the lives of some symbols. It is read once from its beginning to its end, a day having one file for
 * all symbols, and of each symbol two numbers are kept.
 * @param query over coverage, with one thread, so that rows come in the order of files: a symbol's by their start
 */
export async function lackingOf(query: Query, lives: readonly Life[], signal: AbortSignal): Promise<Lacking> {
  const [asked, span] = [sum(lives.map(({ from, to }) => to - from)), around(lives)];
  const places = new Map(lives.map(({ symbol }, i) => [symbol, i]));
  /** How far each is counted: windows may overlap. */
  const counted = Float64Array.from(lives, ({ from }) => from);
  const starts = new Float64Array(lives.length);
  let covered = 0;
  if (lives.length === 0) return { asked, lacking: 0 };
  // DuckDB makes a join of many names, after which rows come in any order.
  const named = `AND symbol IN (${[...places.keys()].map(literal).join(', ')}) ORDER BY t_from`;
  const sql = `SELECT symbol, epoch_ms(t_from)::DOUBLE, epoch_ms(t_to)::DOUBLE FROM coverage
    WHERE dataset = 'ticks' AND t_to > ${moment(span.from)} AND t_from < ${moment(span.to)} ${lives.length > namedMax ? '' : named}`;
  for await (const [names, froms, tos] of query.chunks([sql], signal)) {
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
  return { asked, lacking: asked - covered };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

const around = (windows: readonly Window[]): Window => ({
  from: windows.reduce((least, { from }) => Math.min(least, from), Number.POSITIVE_INFINITY),
  to: windows.reduce((most, { to }) => Math.max(most, to), 0),
});
