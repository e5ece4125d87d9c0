import { intersect, intersection, isEmpty, subtract, type Window } from '../../core/window.ts';
import type { Query } from '../../query/query.ts';
import { moment } from '../../query/slice.ts';
import { literal } from '../../query/views.ts';
import type { Member } from './universe.ts';

/** Milliseconds of symbols' lives in a span, and how many of them no answer covers. */
export interface Lacking {
  readonly asked: number;
  readonly lacking: number;
}

/** What coverage lacks of the lives of some symbols in a span. */
export async function lackingOf(
  query: Query,
  members: readonly Member[],
  span: Window,
  signal: AbortSignal,
): Promise<Lacking> {
  const lives = new Map(members.map((member) => [member.symbol, lifeIn(member, span)]));
  const covered = await coveredBy(query, [...lives.keys()], span, signal);
  let [asked, lacking] = [0, 0];
  for (const [symbol, life] of lives) {
    if (isEmpty(life)) continue;
    asked += life.to - life.from;
    for (const { from, to } of subtract([life], covered.get(symbol) ?? [])) lacking += to - from;
  }
  return { asked, lacking };
}

/** What of a symbol's life lies in a span. */
const lifeIn = ({ livesFrom, livesTo }: Member, span: Window): Window =>
  intersection(span, { from: livesFrom, to: livesTo });

async function coveredBy(
  query: Query,
  symbols: readonly string[],
  span: Window,
  signal: AbortSignal,
): Promise<Map<string, Window[]>> {
  const sql = `SELECT symbol, epoch_ms(t_from)::DOUBLE, epoch_ms(t_to)::DOUBLE FROM coverage
    WHERE dataset = 'ticks' AND symbol IN (${symbols.map(literal).join(', ')})
      AND t_to > ${moment(span.from)} AND t_from < ${moment(span.to)}`;
  const out = new Map<string, Window[]>();
  for await (const [names, froms, tos] of query.chunks([sql], signal)) {
    for (const [row, name] of names!.entries()) {
      const windows = out.get(name as string) ?? [];
      out.set(name as string, windows);
      windows.push(...intersect([{ from: froms![row] as number, to: tos![row] as number }], [span]));
    }
  }
  return out;
}
