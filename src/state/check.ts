import type { Database } from './database.ts';

/** What SQLite finds wrong with the file of the state, the first of it; null where nothing is. */
export function faultOf(db: Database): string | null {
  const found = db.one<Record<string, string>>('pragma integrity_check(1)');
  const said = found === undefined ? 'no answer' : Object.values(found)[0]!;
  return said === 'ok' ? null : said;
}

/** How much of a symbol's time is covered: windows, their lengths together, and their ends; epoch ms. */
export interface Extent {
  readonly windows: number;
  readonly ms: number;
  readonly from: number;
  readonly to: number;
}

/** What the state knows of the published coverage of each symbol. */
export function extents(db: Database): Map<string, Extent> {
  const rows = db.iterate<{ symbol: string } & Extent & Record<string, string | number>>(
    `select symbol, count(*) as windows, sum(t_to - t_from) as ms, min(t_from) as "from", max(t_to) as "to"
       from segments group by symbol`,
  );
  const out = new Map<string, Extent>();
  for (const { symbol, ...extent } of rows) out.set(symbol, extent);
  return out;
}
