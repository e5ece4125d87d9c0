import { intersectTwo, overlaps, subtract, union, type Window } from '../../base/window.ts';
import type { AcceptedWindow, LostWindow } from '../format/coverage.ts';
import { readSymbolCoverage } from './coverage-store.ts';
import { type Database, getMeta, setMeta } from './database.ts';

/** A lost window in the state. Times are epoch milliseconds. */
export interface RecordedLoss extends LostWindow {
  readonly lostAt: number;
  /** When a run first ended with exit code 4 because of it; null before. */
  readonly reportedAt: number | null;
}

const lostSql = `select dataset, symbol, t_from as "from", t_to as "to", ticks, lost_at as "lostAt",
  reported_at as "reportedAt" from lost`;

/**
 * Records lost windows, each within one UTC day, inside the transaction that withdraws their coverage. They never
 * overlap known ones: a lost window is not covered, so it cannot be lost again.
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

/** Reads the lost windows, sorted by dataset, symbol and time. */
export const readLostWindows = (db: Database): RecordedLoss[] =>
  db.all<RecordedLoss>(`${lostSql} order by dataset, symbol, t_from`);

/** Reads the lost tick windows that overlap `window`, by symbol. */
export function readLostTicksIn(db: Database, { from, to }: Window): Map<string, RecordedLoss[]> {
  const where = "dataset = 'ticks' and t_from < ? and t_to > ?";
  const rows = db.all<RecordedLoss>(`${lostSql} where ${where} order by symbol, t_from`, to, from);
  return Map.groupBy(rows, (loss) => loss.symbol);
}

/** Reads all lost tick windows by symbol, sorted. There are rarely any, so one query serves all symbols. */
export const readAllLostTicks = (db: Database): Map<string, RecordedLoss[]> =>
  Map.groupBy(
    readLostWindows(db).filter(({ dataset }) => dataset === 'ticks'),
    ({ symbol }) => symbol,
  );

/** Reads the lost tick windows of one symbol, sorted. */
export const readLostTicks = (db: Database, symbol: string): RecordedLoss[] =>
  db.all(`${lostSql} where dataset = 'ticks' and symbol = ? order by t_from`, symbol);

/**
 * Reads the coverage of one symbol, published or journaled, without its lost windows. A journaled response for a lost
 * window proves nothing until it is published.
 * @param believedMs see readSymbolCoverage
 * @param lost the symbol's lost windows, if already read
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

/** Deletes restored windows, inside the transaction that adds their coverage. */
export function dropLost(db: Database, windows: readonly LostWindow[]): void {
  for (const { dataset, symbol, from } of windows)
    db.run('delete from lost where dataset = ? and symbol = ? and t_from = ?', dataset, symbol, from);
}

/** Records that a run ended with exit code 4 because of these windows. */
export function markLostReported(db: Database, windows: readonly LostWindow[], reportedAtMs: number): void {
  db.transaction(() => {
    for (const { dataset, symbol, from } of windows)
      db.run(
        'update lost set reported_at = ? where dataset = ? and symbol = ? and t_from = ? and reported_at is null',
        reportedAtMs,
        dataset,
        symbol,
        from,
      );
  });
}

const acceptedSql = `select symbol, t_from as "from", t_to as "to", reason, accepted_at as "acceptedAt",
  reported_at as "reportedAt" from accepted`;

/** Reads the accepted windows of all symbols, sorted by symbol and time. They never overlap. */
export const readAcceptedWindows = (db: Database): AcceptedWindow[] => db.all(`${acceptedSql} order by symbol, t_from`);

/** Accepts windows of one symbol, which do not overlap. The new reason replaces earlier ones inside them. */
export function acceptWindows(db: Database, windows: readonly AcceptedWindow[]): void {
  db.transaction(() => {
    for (const window of windows) {
      revokeAccepted(db, window.symbol, window);
      insertAccepted(db, window);
    }
  });
}

/** Revokes the acceptance of a symbol's gaps inside a window. Returns the revoked parts. */
function revokeAccepted(db: Database, symbol: string, window: Window): AcceptedWindow[] {
  return db.transaction(() => {
    const sql = `${acceptedSql} where symbol = ? and t_from < ? and t_to > ? order by t_from`;
    const overlapping = db.all<AcceptedWindow>(sql, symbol, window.to, window.from);
    for (const accepted of overlapping) {
      db.run('delete from accepted where symbol = ? and t_from = ?', symbol, accepted.from);
      for (const rest of subtract([accepted], [window])) insertAccepted(db, { ...accepted, ...rest });
    }
    return overlapping.map((accepted) => ({ ...accepted, ...intersectTwo(accepted, window) }));
  });
}

/** A window of one symbol whose acceptance a user revoked, and when, epoch ms. */
interface RevokedGap extends Window {
  readonly symbol: string;
  readonly at: number;
}

const revokedKey = 'revoked_gaps';
/** The most revocations that are kept. */
const revokedMax = 1000;

/** Reads what users revoked: another archive that accepted it before does not bring it back. */
export const readRevokedGaps = (db: Database): RevokedGap[] =>
  JSON.parse(getMeta(db, revokedKey) ?? '[]') as RevokedGap[];

/** Does the same as `revokeAccepted`, as a decision of a user. */
export const revokeGaps = (db: Database, symbol: string, { from, to }: Window, at: number): AcceptedWindow[] =>
  db.transaction(() => {
    const gaps = [...readRevokedGaps(db), { symbol, from, to, at }].slice(-revokedMax);
    setMeta(db, revokedKey, JSON.stringify(gaps));
    return revokeAccepted(db, symbol, { from, to });
  });

/** Records that a run ended with exit code 4 because of these windows. */
export function markAcceptedReported(db: Database, windows: readonly AcceptedWindow[], reportedAtMs: number): void {
  db.transaction(() => {
    for (const { symbol, from } of windows)
      db.run(
        'update accepted set reported_at = ? where symbol = ? and t_from = ? and reported_at is null',
        reportedAtMs,
        symbol,
        from,
      );
  });
}

const insertAccepted = (db: Database, { symbol, from, to, reason, acceptedAt, reportedAt }: AcceptedWindow): void =>
  void db.run('insert into accepted values (?, ?, ?, ?, ?, ?)', symbol, from, to, reason, acceptedAt, reportedAt);

/** A window of one symbol's ticks that was requested and is not covered. Times are epoch milliseconds. */
interface OwedWindow extends Window {
  readonly symbol: string;
  /** `expired`: the server says that its history starts after this window. */
  readonly kind: 'failed' | 'expired';
  /** Why the last request for it failed, one clause. */
  readonly reason: string;
  /** When a request for it first failed. */
  readonly since: number;
}

const owedSql = `select symbol, t_from as "from", t_to as "to", kind, reason, since from owed`;

/** Reads the owed windows of one symbol, sorted. Some may be covered by now. */
export const readOwedWindows = (db: Database, symbol: string): OwedWindow[] =>
  db.all(`${owedSql} where symbol = ? order by t_from`, symbol);

/** Reads the owed windows of all symbols, by symbol. */
export const readAllOwedWindows = (db: Database): Map<string, OwedWindow[]> =>
  Map.groupBy(db.all<OwedWindow>(`${owedSql} order by symbol, t_from`), ({ symbol }) => symbol);

/** The failed windows of one symbol in one run. */
interface SymbolFailures {
  readonly symbol: string;
  /** Windows that are covered now. */
  readonly covered: readonly Window[];
  readonly failures: readonly (Window & Pick<OwedWindow, 'kind' | 'reason'>)[];
}

/**
 * Records failed requests and removes windows that are now covered. A window that was already owed keeps the time of
 * its first failure.
 */
export function recordOwed(db: Database, symbols: readonly SymbolFailures[], nowMs: number): void {
  db.transaction(() => {
    for (const { symbol, covered, failures } of symbols) {
      const owedBefore = readOwedWindows(db, symbol);
      if (owedBefore.length === 0 && failures.length === 0) continue;
      db.run('delete from owed where symbol = ?', symbol);
      // If a window failed twice, only the first failure is stored, so rows never overlap.
      let recorded: Window[] = [...covered];
      const insert = (window: Window, { kind, reason, since }: Omit<OwedWindow, 'symbol' | 'from' | 'to'>): void => {
        for (const { from, to } of subtract([window], recorded))
          db.run('insert into owed values (?, ?, ?, ?, ?, ?)', symbol, from, to, kind, reason, since);
        recorded = union([...recorded, window]);
      };
      for (const failure of failures) {
        const since = owedBefore.filter((w) => overlaps(w, failure)).map((w) => w.since);
        insert(failure, { kind: failure.kind, reason: failure.reason, since: Math.min(nowMs, ...since) });
      }
      for (const window of owedBefore) insert(window, window);
    }
  });
}

type SymbolWindow = Window & { readonly symbol: string };

/** Reads the tick windows that polls no longer request, by symbol: accepted and expired ones, unsorted. */
export function readSettledGaps(db: Database): Map<string, Window[]> {
  const expired = [...readAllOwedWindows(db).values()].flat().filter(({ kind }) => kind === 'expired');
  return Map.groupBy<string, SymbolWindow>([...expired, ...readAcceptedWindows(db)], ({ symbol }) => symbol);
}
