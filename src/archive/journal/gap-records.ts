import { subtract, union, type Window } from '../../base/window.ts';
import type { AcceptedWindow, LostWindow } from '../format/coverage.ts';
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

type SymbolWindow = Window & { readonly symbol: string };

/** The windows of ticks, by symbol, that a poll asks for no more: accepted and expired ones; in no order. */
export function readSettledGaps(db: Database): Map<string, Window[]> {
  const expired = [...readAllOwedWindows(db).values()].flat().filter(({ kind }) => kind === 'expired');
  return Map.groupBy<string, SymbolWindow>([...expired, ...readAcceptedWindows(db)], ({ symbol }) => symbol);
}
