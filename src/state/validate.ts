import type { Database } from './database.ts';

/** What SQLite finds wrong with the file of the state, the first of it; null where nothing is. */
export function findDatabaseFault(db: Database): string | null {
  const found = db.one<Record<string, string>>('pragma integrity_check(1)');
  const said = found === undefined ? 'no answer' : Object.values(found)[0]!;
  return said === 'ok' ? null : said;
}

/** How much of a symbol's time is covered: windows, their lengths together, and their ends; epoch ms. */
export interface CoverageExtent {
  readonly windows: number;
  readonly ms: number;
  readonly from: number;
  readonly to: number;
}

/** Computes what the state knows of the published coverage of each symbol. Its layers overlap; a moment counts once. */
export function computeCoverageExtents(db: Database): Map<string, CoverageExtent> {
  const rows = db.iterate<{ symbol: string; t_from: number; t_to: number }>(
    'select symbol, t_from, t_to from segments order by symbol, t_from',
  );
  const out = new Map<string, CoverageExtent>();
  for (const { symbol, t_from, t_to } of rows) {
    const was = out.get(symbol);
    if (was === undefined) out.set(symbol, { windows: 1, ms: t_to - t_from, from: t_from, to: t_to });
    else {
      const ms = was.ms + Math.max(0, t_to - Math.max(t_from, was.to));
      out.set(symbol, { windows: was.windows + 1, ms, from: was.from, to: Math.max(was.to, t_to) });
    }
  }
  return out;
}
