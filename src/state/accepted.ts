import { subtract, type Window } from '../core/window.ts';
import type { Database } from './database.ts';

/** A window of one symbol's ticks that somebody accepted as a gap; times are epoch milliseconds. */
export interface AcceptedWindow extends Window {
  readonly symbol: string;
  /** Why, in the words of whoever accepted it. */
  readonly reason: string;
  readonly acceptedAt: number;
  /** When a run ended with 4 because of it; null while none did. */
  readonly reportedAt: number | null;
}

interface AcceptedRow {
  symbol: string;
  t_from: number;
  t_to: number;
  reason: string;
  accepted_at: number;
  told_at: number | null;
}

const toAcceptedWindow = (row: AcceptedRow): AcceptedWindow => ({
  symbol: row.symbol,
  from: row.t_from,
  to: row.t_to,
  reason: row.reason,
  acceptedAt: row.accepted_at,
  reportedAt: row.told_at,
});

/** The accepted windows of one symbol, or of all, in the order of symbol and time. They never overlap. */
export const readAcceptedWindows = (db: Database, symbol?: string): AcceptedWindow[] =>
  (symbol === undefined
    ? db.all<AcceptedRow & Record<string, never>>('select * from accepted order by symbol, t_from')
    : db.all<AcceptedRow & Record<string, never>>('select * from accepted where symbol = ? order by t_from', symbol)
  ).map(toAcceptedWindow);

/** Accepts a window; what was accepted of it before is so for the new reason. */
export function acceptWindow(db: Database, window: AcceptedWindow): void {
  db.transaction(() => {
    revokeAccepted(db, window.symbol, window);
    insertAccepted(db, window);
  });
}

/** Takes back what was accepted of a symbol inside a window; returns what that was. */
export function revokeAccepted(db: Database, symbol: string, window: Window): AcceptedWindow[] {
  return db.transaction(() => {
    const touched = readAcceptedWindows(db, symbol).filter(({ from, to }) => from < window.to && window.from < to);
    for (const accepted of touched) {
      db.run('delete from accepted where symbol = ? and t_from = ?', symbol, accepted.from);
      for (const rest of subtract([accepted], [window])) insertAccepted(db, { ...accepted, ...rest });
    }
    return touched.map((accepted) => ({
      ...accepted,
      from: Math.max(accepted.from, window.from),
      to: Math.min(accepted.to, window.to),
    }));
  });
}

/** Notes that a run ended with 4 because of these. */
export function markAcceptedReported(db: Database, windows: readonly AcceptedWindow[], toldAtMs: number): void {
  db.transaction(() => {
    for (const { symbol, from } of windows)
      db.run(
        'update accepted set told_at = ? where symbol = ? and t_from = ? and told_at is null',
        toldAtMs,
        symbol,
        from,
      );
  });
}

const insertAccepted = (db: Database, { symbol, from, to, reason, acceptedAt, reportedAt }: AcceptedWindow): void =>
  void db.run('insert into accepted values (?, ?, ?, ?, ?, ?)', symbol, from, to, reason, acceptedAt, reportedAt);
