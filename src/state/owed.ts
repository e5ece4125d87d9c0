import { subtract, union, type Window } from '../core/window.ts';
import type { Database } from './database.ts';

/** A window of one symbol's ticks that was asked for and is not had; times are epoch milliseconds. */
export interface OwedWindow extends Window {
  readonly symbol: string;
  /** `expired`: the service says that it goes back no further than its end. */
  readonly kind: 'failed' | 'expired';
  /** One clause: what came of the last request for it. */
  readonly reason: string;
  /** When it was first asked for in vain. */
  readonly since: number;
}

interface OwedRow {
  symbol: string;
  t_from: number;
  t_to: number;
  kind: OwedWindow['kind'];
  reason: string;
  since: number;
}

const toOwedWindow = ({ symbol, t_from, t_to, kind, reason, since }: OwedRow): OwedWindow => ({
  symbol,
  from: t_from,
  to: t_to,
  kind,
  reason,
  since,
});

/** The windows that one symbol is owed, in order. What has come to be covered since may be among them. */
export const readOwedWindows = (db: Database, symbol: string): OwedWindow[] =>
  db
    .all<OwedRow & Record<string, never>>('select * from owed where symbol = ? order by t_from', symbol)
    .map(toOwedWindow);

/** The same of all symbols, by symbol. */
export const readAllOwedWindows = (db: Database): Map<string, OwedWindow[]> =>
  Map.groupBy(
    db.all<OwedRow & Record<string, never>>('select * from owed order by symbol, t_from').map(toOwedWindow),
    ({ symbol }) => symbol,
  );

/** The failures of one symbol in one run. */
export interface SymbolFailures {
  readonly symbol: string;
  /** What is covered of it now. */
  readonly covered: readonly Window[];
  readonly failures: readonly (Window & Pick<OwedWindow, 'kind' | 'reason'>)[];
}

/** Enters what a run asked for in vain, and drops what is covered by now. What was owed before is owed since then. */
export function recordOwed(db: Database, symbols: readonly SymbolFailures[], nowMs: number): void {
  db.transaction(() => {
    for (const { symbol, covered, failures } of symbols) {
      const before = readOwedWindows(db, symbol);
      if (before.length === 0 && failures.length === 0) continue;
      db.run('delete from owed where symbol = ?', symbol);
      // Of two failures of one window the earlier listed one counts: rows never overlap.
      let taken: Window[] = [...covered];
      const enter = (window: Window, { kind, reason, since }: Omit<OwedWindow, 'symbol' | 'from' | 'to'>): void => {
        for (const { from, to } of subtract([window], taken))
          db.run('insert into owed values (?, ?, ?, ?, ?, ?)', symbol, from, to, kind, reason, since);
        taken = union([...taken, window]);
      };
      for (const failure of failures) {
        const since = before.filter((w) => w.from < failure.to && failure.from < w.to).map((w) => w.since);
        enter(failure, { kind: failure.kind, reason: failure.reason, since: Math.min(nowMs, ...since) });
      }
      for (const window of before) enter(window, window);
    }
  });
}
