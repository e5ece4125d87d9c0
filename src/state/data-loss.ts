import type { LostWindow } from '../core/coverage.ts';
import { subtract, type Window } from '../core/window.ts';
import { readSymbolCoverage } from './coverage.ts';
import type { Database } from './database.ts';

/** A lost window as the state knows it; times are epoch milliseconds. */
export interface RecordedLoss extends LostWindow {
  readonly lostAt: number;
  /** When a run ended with 4 because of it; null while none did. */
  readonly reportedAt: number | null;
}

interface LostRow {
  dataset: string;
  symbol: string;
  t_from: number;
  t_to: number;
  ticks: number;
  lost_at: number;
  told_at: number | null;
}

const toRecordedLoss = (row: LostRow): RecordedLoss => ({
  dataset: row.dataset,
  symbol: row.symbol,
  from: row.t_from,
  to: row.t_to,
  ticks: row.ticks,
  lostAt: row.lost_at,
  reportedAt: row.told_at,
});

/**
 * Notes windows that are lost, each within one UTC day; inside the transaction that takes their coverage back. They
 * never overlap those known: a lost window is not covered, so that it cannot be lost again.
 */
export function recordLost(db: Database, windows: readonly LostWindow[], lostAtMs: number): void {
  for (const { dataset, symbol, from, to, ticks } of windows) {
    db.run(
      `insert into lost values (?, ?, ?, ?, ?, ?, null)
       on conflict do update set t_to = max(t_to, excluded.t_to), ticks = max(ticks, excluded.ticks)`,
      dataset,
      symbol,
      from,
      to,
      ticks,
      lostAtMs,
    );
  }
}

/** The windows that are lost, of one symbol or of all, in the order of dataset, symbol and time. */
export const readLostWindows = (db: Database, symbol?: string): RecordedLoss[] =>
  (symbol === undefined
    ? db.all<LostRow & Record<string, never>>('select * from lost order by dataset, symbol, t_from')
    : db.all<LostRow & Record<string, never>>(
        'select * from lost where symbol = ? order by dataset, symbol, t_from',
        symbol,
      )
  ).map(toRecordedLoss);

/** The lost windows of ticks that reach into `window`, by symbol. */
export function readLostTicksIn(db: Database, { from, to }: Window): Map<string, RecordedLoss[]> {
  const rows = db.all<LostRow & Record<string, never>>(
    "select * from lost where dataset = 'ticks' and t_from < ? and t_to > ? order by symbol, t_from",
    to,
    from,
  );
  return Map.groupBy(rows.map(toRecordedLoss), (loss) => loss.symbol);
}

/** The lost windows of ticks, by symbol, in order: there are hardly ever any, and one look tells of all symbols. */
export const readAllLostTicks = (db: Database): Map<string, RecordedLoss[]> =>
  Map.groupBy(
    readLostWindows(db).filter(({ dataset }) => dataset === 'ticks'),
    ({ symbol }) => symbol,
  );

/** The lost windows of one symbol's ticks, in order. */
export const readLostTicks = (db: Database, symbol: string): RecordedLoss[] =>
  db
    .all<LostRow & Record<string, never>>(
      "select * from lost where dataset = 'ticks' and symbol = ? order by t_from",
      symbol,
    )
    .map(toRecordedLoss);

/**
 * What is asked and answered for one symbol, published or journaled, as far as it may be claimed: an answer that is
 * journaled for a lost window proves nothing before it is published.
 * @param believedMs see coverageOf
 * @param lost its lost windows, where they are known already
 */
export function readCoverageWithoutLost(
  db: Database,
  symbol: string,
  believedMs?: number,
  lost: readonly Window[] = readLostTicks(db, symbol),
): Window[] {
  const covered = readSymbolCoverage(db, symbol, believedMs);
  return lost.length === 0 ? covered : subtract(covered, lost);
}

/** Drops windows that are whole again; inside the transaction that claims their coverage. */
export function dropLost(db: Database, windows: readonly LostWindow[]): void {
  for (const { dataset, symbol, from } of windows)
    db.run('delete from lost where dataset = ? and symbol = ? and t_from = ?', dataset, symbol, from);
}

/** Notes that a run ended with 4 because of these. */
export function markLostReported(db: Database, windows: readonly LostWindow[], toldAtMs: number): void {
  db.transaction(() => {
    for (const { dataset, symbol, from } of windows)
      db.run(
        'update lost set told_at = ? where dataset = ? and symbol = ? and t_from = ? and told_at is null',
        toldAtMs,
        dataset,
        symbol,
        from,
      );
  });
}
