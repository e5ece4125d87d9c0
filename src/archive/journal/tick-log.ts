import { crc32 } from 'node:zlib';
import { seek } from '../../base/binary-search.ts';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import { emptyTicks, type TickColumns } from '../../base/ticks.ts';
import { findTickChanges, type TickChanges } from '../format/tick-changes.ts';
import type { TickChunk } from '../format/tick-columns.ts';
import { type Database, getMeta, setMeta } from './database.ts';
import { toBytes, toDoubles } from './journal-rows.ts';
import { openDayPrecedence } from './precedence-store.ts';

/*
 * The tick log: what journaled responses changed, in the order in which they became durable, for streams. A publish does
 * not touch it, so that a stream can resume at any row that is still kept. Only the symbols that somebody streams are
 * logged, and only for as long as somebody may still resume.
 *
 * Rows are numbered without gaps. A commit appends its rows in one transaction, and SQLite has one writer at a time:
 * a reader that has read up to a row has seen all rows before it.
 */

const rowTicksMax = 1000;

/** Maximum size of the log, in bytes; above it, the oldest rows are removed. */
const logBytesMax = 256 * 1024 * 1024;
/** How far a removal goes below the maximum, so that not every append removes rows. */
const logBytesKept = 0.9 * logBytesMax;

/**
 * Bytes that a row takes in the database, measured: its ticks, its symbol in the row and in two indexes, and the rest. Most
 * rows have a tick or two, so that the rest counts most.
 */
const computeRowBytes = (symbol: string, ticks: number): number => 16 * ticks + 3 * Buffer.byteLength(symbol) + 112;

/** ID of this log, random. Positions in another log, such as that of a lost state, mean nothing in this one. */
const logIdKey = 'tick_log_id';
/** Number of the last row that was removed; 0 if none was. */
const floorKey = 'tick_log_floor';

export interface TickLogRow extends TickColumns {
  /** From 1. */
  readonly seq: number;
  readonly symbol: string;
  /** Whether the prices replace those of known ticks; otherwise the ticks are new. */
  readonly isRevision: boolean;
}

export interface TickLogState {
  readonly id: string;
  /** The last removed row; later rows are complete. */
  readonly floor: number;
  /** The last row. */
  readonly end: number;
}

/** A row of the log does not match its checksum. */
export class TickLogDamageError extends OddslakeError {
  constructor(seq: number) {
    super(exitCodes.damaged, `Row ${seq} of the tick log does not match its checksum.`);
    this.name = 'TickLogDamageError';
  }
}

/** Reads the state of the log; null if there is none. */
export function readTickLogState(db: Database): TickLogState | null {
  const id = getMeta(db, logIdKey);
  return id === undefined ? null : { id, floor: Number(getMeta(db, floorKey) ?? 0), end: readLogEnd(db) };
}

const readLogEnd = (db: Database): number =>
  db.one<{ seq: number }>("select seq from sqlite_sequence where name = 'tick_log'")?.seq ?? 0;

/** Since when a symbol is logged, and until when. */
interface LoggedSymbol {
  /** The first row that may be of this symbol. From there on, the log has all of its changes. */
  readonly since: number;
  /** Epoch milliseconds. */
  readonly until: number;
}

export const readLoggedSymbol = (db: Database, symbol: string): LoggedSymbol | undefined =>
  db.one<LoggedSymbol & Record<string, number>>('select since, until from tick_log_symbols where symbol = ?', symbol);

/**
 * Logs these symbols until a later time than before; joins the caller's transaction.
 * @param until epoch milliseconds
 * @param id ID of the log, if there is none yet
 * @param readLastJournaled the time of a symbol's last journaled tick
 */
export function logSymbols(
  db: Database,
  symbols: readonly string[],
  until: number,
  id: string,
  readLastJournaled: (symbol: string) => number | null,
): void {
  db.transaction(() => {
    if (getMeta(db, logIdKey) === undefined) setMeta(db, logIdKey, id);
    const since = readLogEnd(db) + 1;
    for (const symbol of symbols) {
      if (readLoggedSymbol(db, symbol) === undefined)
        db.run('insert into tick_log_symbols values (?, ?, ?, ?)', symbol, since, until, readLastJournaled(symbol));
      else db.run('update tick_log_symbols set until = max(until, ?) where symbol = ?', until, symbol);
    }
  });
}

/** Removes the rows before a time, and the symbols that nobody needs any more. @param nowMs epoch milliseconds */
export function trimTickLog(db: Database, nowMs: number, keepMs: number): void {
  db.transaction(() => {
    db.run('delete from tick_log_symbols where until < ?', nowMs);
    const last = db.one<{ seq: number | null }>('select max(seq) as seq from tick_log where at < ?', nowMs - keepMs);
    if (last?.seq != null) removeRows(db, last.seq);
  });
}

/** Whether `trimTickLog` would remove anything. */
export const isTickLogDue = (db: Database, nowMs: number, keepMs: number): boolean =>
  db.one(
    `select 1 where exists (select 1 from tick_log where at < ?)
     or exists (select 1 from tick_log_symbols where until < ?)`,
    nowMs - keepMs,
    nowMs,
  ) !== undefined;

/** Removes the whole log, with its ID, after damage. Joins the caller's transaction. */
export function resetTickLog(db: Database): void {
  db.transaction(() => {
    removeRows(db, readLogEnd(db));
    db.run('delete from tick_log_symbols');
    db.run('delete from meta where key = ?', logIdKey);
  });
}

function removeRows(db: Database, last: number): void {
  db.run('delete from tick_log where seq <= ?', last);
  setMeta(db, floorKey, String(last));
}

/**
 * Reads rows from `from` on, in order, of some symbols or of all.
 * @param rowsMax at least 1
 * @throws TickLogDamageError
 */
export function readTickLog(
  db: Database,
  from: number,
  symbols: readonly string[] | null,
  rowsMax: number,
): TickLogRow[] {
  const [ofSymbols, names] =
    symbols === null ? ['', []] : ['symbol in (select value from json_each(?)) and ', [JSON.stringify(symbols)]];
  const rows = db.all<StoredRow & { seq: number }>(
    `select seq, symbol, is_revision, t, p, checksum from tick_log where seq in (
       select seq from tick_log where ${ofSymbols}seq >= ? order by seq limit ?
     ) order by seq`,
    ...names,
    from,
    rowsMax,
  );
  return rows.map((row): TickLogRow => {
    const { seq, symbol, is_revision: isRevision, checksum } = row;
    if (computeChecksum(seq, row) !== checksum) throw new TickLogDamageError(seq);
    return { seq, symbol, isRevision: isRevision === 1, t: toDoubles(row.t), p: toDoubles(row.p) };
  });
}

interface StoredRow {
  readonly symbol: string;
  readonly is_revision: number;
  readonly t: Uint8Array;
  readonly p: Uint8Array;
  readonly checksum: number;
}

const computeChecksum = (seq: number, { symbol, is_revision, t, p }: Omit<StoredRow, 'checksum'>): number =>
  crc32(p, crc32(t, crc32(`${seq} ${is_revision} ${symbol}`)));

/** One observation of a symbol, split by UTC day; each day's times are ascending. */
interface LoggedObservation {
  readonly symbol: string;
  readonly runId: string;
  readonly rank: number;
  /** Epoch milliseconds. */
  readonly observedAt: number;
  readonly days: readonly (TickColumns & { readonly day: number })[];
}

/** The ticks of a symbol and UTC day that are known before the observation. */
interface KnownTickSource {
  /** @throws DamageError if the file cannot be trusted */
  readPublished(symbol: string, day: number): TickColumns;
  readJournaled(symbol: string, day: number): readonly TickChunk[];
}

/**
 * Logs what an observation changes, if its symbol is logged. Runs in the transaction that journals it, before its rows are
 * inserted.
 */
export function logObservation(db: Database, observation: LoggedObservation, source: KnownTickSource): void {
  const { symbol, observedAt, days } = observation;
  if (days.length === 0 || db.one('select 1 from tick_log_symbols limit 1') === undefined) return;
  const logged = db.one<{ until: number; last_tick: number | null }>(
    'select until, last_tick from tick_log_symbols where symbol = ?',
    symbol,
  );
  if (logged === undefined) return;
  if (observedAt >= logged.until) {
    db.run('delete from tick_log_symbols where symbol = ?', symbol);
    return;
  }
  const published = db.one<{ last_tick: number | null }>('select last_tick from symbols where symbol = ?', symbol);
  // No tick after this one is known.
  const lastTick = Math.max(logged.last_tick ?? 0, published?.last_tick ?? 0);
  for (const day of days) {
    const changes = findNewTicks(db, symbol, day, lastTick) ?? findChangesOfDay(db, observation, day, source);
    appendRows(db, symbol, observedAt, false, changes.added);
    appendRows(db, symbol, observedAt, true, changes.revised);
  }
  const last = days.at(-1)!.t.at(-1)!;
  if (last > (logged.last_tick ?? 0))
    db.run('update tick_log_symbols set last_tick = ? where symbol = ?', last, symbol);
  boundBytes(db);
}

/**
 * A fast path of `findTickChanges` for the usual poll: ticks after the last known one, and ticks that the log has with the
 * same price. Null if there are others.
 */
function findNewTicks(db: Database, symbol: string, { t, p }: TickColumns, lastTick: number): TickChanges | null {
  for (let i = 1; i < t.length; i++) if (t[i] === t[i - 1]) return null;
  const known = seek(t, 0, t.length, lastTick + 1);
  if (known > 0) {
    const logged = readLoggedPrices(db, symbol, t[0]!, t[known - 1]!);
    for (let i = 0; i < known; i++) if (logged.get(t[i]!) !== p[i]) return null;
  }
  return { added: { t: t.subarray(known), p: p.subarray(known) }, revised: emptyTicks };
}

/** The logged prices from `first` to `last`, both included. Every change of a logged tick is logged, so the latest is kept. */
function readLoggedPrices(db: Database, symbol: string, first: number, last: number): Map<number, number> {
  const rows = db.all<{ t: Uint8Array; p: Uint8Array }>(
    'select t, p from tick_log where symbol = ? and t_max >= ? and t_min <= ? order by seq',
    symbol,
    first,
    last,
  );
  const prices = new Map<number, number>();
  for (const row of rows) {
    const [t, p] = [toDoubles(row.t), toDoubles(row.p)];
    for (let i = 0; i < t.length; i++) if (t[i]! >= first && t[i]! <= last) prices.set(t[i]!, p[i]!);
  }
  return prices;
}

function findChangesOfDay(
  db: Database,
  { symbol, runId, rank, observedAt }: LoggedObservation,
  { day, t, p }: LoggedObservation['days'][number],
  source: KnownTickSource,
): TickChanges {
  const known = {
    published: readPublishedOrNone(source, symbol, day),
    journaled: source.readJournaled(symbol, day),
    precedence: openDayPrecedence(db, day),
  };
  return findTickChanges(known, { symbol, runId, rank, observedAt, t, p });
}

/** Ticks of a damaged file are unknown; they are logged again, because leaving out a new one would be worse. */
function readPublishedOrNone(source: KnownTickSource, symbol: string, day: number): TickColumns {
  try {
    return source.readPublished(symbol, day);
  } catch (error) {
    if (error instanceof DamageError) return emptyTicks;
    throw error;
  }
}

function appendRows(db: Database, symbol: string, observedAt: number, isRevision: boolean, ticks: TickColumns): void {
  for (let from = 0; from < ticks.t.length; from += rowTicksMax) {
    const [t, p] = [ticks.t.subarray(from, from + rowTicksMax), ticks.p.subarray(from, from + rowTicksMax)];
    const last = db.one<{ at: number; bytes_to: number }>(
      'select at, bytes_to from tick_log order by seq desc limit 1',
    );
    const seq = readLogEnd(db) + 1;
    const row = { symbol, is_revision: isRevision ? 1 : 0, t: toBytes(t), p: toBytes(p) };
    db.run(
      `insert into tick_log (seq, symbol, is_revision, at, t_min, t_max, bytes_to, t, p, checksum)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      seq,
      symbol,
      row.is_revision,
      // Rows are removed in their order, so their times must not decrease: a replayed response was observed long ago.
      Math.max(observedAt, last?.at ?? 0),
      t[0]!,
      t.at(-1)!,
      (last?.bytes_to ?? 0) + computeRowBytes(symbol, t.length),
      row.t,
      row.p,
      computeChecksum(seq, row),
    );
  }
}

/** Removes the oldest rows if the log is too large. */
function boundBytes(db: Database): void {
  const read = (order: 'asc' | 'desc'): number =>
    db.one<{ bytes_to: number }>(`select bytes_to from tick_log order by seq ${order} limit 1`)?.bytes_to ?? 0;
  const end = read('desc');
  if (end - read('asc') <= logBytesMax) return;
  const kept = db.one<{ seq: number }>(
    'select seq from tick_log where bytes_to > ? order by seq limit 1',
    end - logBytesKept,
  );
  removeRows(db, kept!.seq - 1);
}
