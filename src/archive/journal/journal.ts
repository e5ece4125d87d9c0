import { zstdCompressSync } from 'node:zlib';
import { seek } from '../../base/binary-search.ts';
import { pushTo } from '../../base/push-to.ts';
import { findSource } from '../../base/source-name.ts';
import type { SymbolRange } from '../../base/symbol-range.ts';
import type { RejectedInput, TickColumns } from '../../base/ticks.ts';
import { dayMs, floorToDay, splitByDay, subtract, type Window } from '../../base/window.ts';
import type { Origin } from '../../contract/raw-page.ts';
import type { CoveredWindow } from '../format/coverage.ts';
import type { DayPart } from '../format/day-parts.ts';
import type { MarketFacts, SymbolFacts } from '../format/market.ts';
import { createMergeScratch, isSorted, sortTicksInPlace } from '../format/merge-order.ts';
import { isOutside } from '../format/price-law.ts';
import type { TickChunk } from '../format/tick-columns.ts';
import type { DatedWindow, PublishedWithdrawal } from '../format/withdrawals.ts';
import { type Database, getMeta, setMeta, toSourceKey } from './database.ts';
import { appendRejected } from './journal-rejected.ts';
import {
  computeHeaderChecksum,
  headerNames,
  insertJournalRow,
  type JournalHeaderRow,
  readJournalRows,
  toBytes,
  toCoveredWindow,
  toDoubles,
} from './journal-rows.ts';
import type { State } from './state.ts';
import { ensureSymbol } from './symbol-store.ts';
import { logObservation } from './tick-log.ts';

/** One validated response from the upstream, written in one transaction. */
export interface TickRecord {
  readonly runId: string;
  readonly symbol: string;
  readonly requestedWindow: Window;
  /** When the response was generated or, if it does not state that, when it was fetched; epoch ms. */
  readonly observedAt: number;
  readonly origin: Origin;
  readonly rank: number;
  readonly ticks: TickColumns;
  readonly rejected: readonly RejectedInput[];
  /**
   * Windows that the response covers, with the time when it was generated. They may include windows of an earlier
   * response for this symbol.
   */
  readonly covered: readonly Omit<CoveredWindow, 'origin'>[];
  /**
   * Windows of this symbol whose coverage is withdrawn: published coverage, and coverage journaled before this record.
   * The coverage of this record itself is added afterwards.
   */
  readonly withdrawn?: readonly Window[];
}

interface MarketsRecord {
  readonly runId: string;
  readonly observedAt: number;
  readonly markets: readonly MarketFacts[];
}

/** Appends tick responses and records the oldest tick that the server returned; durable when it returns. */
export function appendTicks(state: State, records: readonly TickRecord[]): void {
  const { db } = state;
  db.transaction(() => {
    const byRun = new Map<string, { fetched: number; quarantined: number }>();
    const names = state.identity.sources.map(({ name }) => name);
    const outside = new Set<string | null>();
    for (const record of records) {
      if (record.origin !== 'import') {
        if (record.ticks.p.some(isOutside)) outside.add(findSource(record.symbol, names));
      }
      appendTickRecord(state, record);
      const counts = byRun.get(record.runId) ?? { fetched: 0, quarantined: 0 };
      counts.fetched += record.ticks.t.length + record.rejected.length;
      counts.quarantined += record.rejected.length;
      byRun.set(record.runId, counts);
    }
    for (const source of outside) notePricesOutside(db, source);
    for (const [runId, { fetched, quarantined }] of byRun) {
      if (fetched === 0) continue;
      db.run(
        'update runs set fetched = fetched + ?, quarantined = quarantined + ? where run_id = ?',
        fetched,
        quarantined,
        runId,
      );
    }
  });
}

/** Whether a source has prices outside of 0 to 1: `journaled`, then `published`. */
export const pricesOutsideKey = 'prices_outside';

function notePricesOutside(db: Database, source: string | null): void {
  const key = toSourceKey(pricesOutsideKey, source);
  if (getMeta(db, key) !== 'published') setMeta(db, key, 'journaled');
}

function appendTickRecord(state: State, record: TickRecord): void {
  const { db } = state;
  const { symbol, runId, origin } = record;
  // No publish would ever consume an empty record.
  const { withdrawn = [] } = record;
  if (record.ticks.t.length + record.covered.length + record.rejected.length + withdrawn.length === 0) return;
  const days = [...splitTicksByDay(record.ticks)];
  const coverPieces = record.covered.flatMap(({ fetchedAt, evidence, ...w }) =>
    splitByDay(w).map((piece) => ({ ...piece, fetchedAt, evidence })),
  );
  const withdrawnPieces = withdrawn.flatMap(splitByDay);
  const { observedAt, rank, requestedWindow } = record;
  logObservation(
    db,
    { symbol, runId, rank, observedAt, days },
    {
      readPublished: state.readPublishedTicks,
      readJournaled: (_, day) => readSymbolDayTicks(db, symbol, day, Number.MAX_SAFE_INTEGER),
    },
  );
  const headerFields = {
    run_id: runId,
    kind: 'ticks',
    symbol,
    requested_from: requestedWindow.from,
    requested_to: requestedWindow.to,
  };
  const { id, header } = appendHeader(
    db,
    { ...headerFields, observed_at: observedAt, origin, rank },
    days.length + coverPieces.length + withdrawnPieces.length,
  );
  for (const { day, t, p } of days) {
    insertJournalRow(db, 'journal_ticks', header, [id, symbol, day, t.length, toBytes(t), toBytes(p)]);
  }
  for (const { from, to, fetchedAt, evidence } of coverPieces) {
    const values = [id, symbol, floorToDay(from), from, to, fetchedAt, origin, evidence];
    insertJournalRow(db, 'journal_coverage', header, values);
  }
  for (const { from, to } of withdrawnPieces) {
    insertJournalRow(db, 'journal_withdrawn', header, [id, symbol, floorToDay(from), from, to]);
  }
  if (record.ticks.t.length + record.covered.length > 0) {
    ensureSymbol(db, symbol, observedAt);
  }
  const rejected = record.rejected.map((item) => ({ symbol, at: observedAt, ...item }));
  appendRejected(db, { id, runId, header }, rejected);
}

const insertHeaderSql = `insert into journal (${headerNames.join(', ')}, rows, checksum)
  values (${'?, '.repeat(headerNames.length)}?, ?)`;

/**
 * Appends a record header; joins the caller's transaction.
 * @param rows its number of rows in other tables, without rejected input
 * @returns its ID, and the checksum that its rows continue
 */
export function appendHeader(db: Database, row: JournalHeaderRow, rows: number): { id: number; header: number } {
  const header = computeHeaderChecksum(row);
  const { id } = db.run(insertHeaderSql, ...headerNames.map((name) => row[name]), rows, header);
  return { id, header };
}

/**
 * Moves the journaled ticks of a run and symbol to its rejected input, and drops what their responses cover. Joins the caller's
 * transaction. Returns the number of ticks, and the windows that were covered.
 */
export function rejectSymbolTicks(
  db: Database,
  runId: string,
  symbol: string,
  reason: string,
): { ticks: number; windows: Window[] } {
  let count = 0;
  const windows: Window[] = [];
  const records = db.all<{ id: number; header: number; at: number }>(
    "select id, checksum as header, observed_at as at from journal where run_id = ? and symbol = ? and kind = 'ticks'",
    runId,
    symbol,
  );
  for (const { id, header, at } of records) {
    for (const row of db.all<{ t: Uint8Array; p: Uint8Array }>(
      'select t, p from journal_ticks where record_id = ?',
      id,
    )) {
      const [t, p] = [toDoubles(row.t), toDoubles(row.p)];
      count += t.length;
      const items = Array.from(t, (time, i) => ({ symbol, at, reason, raw: JSON.stringify({ t: time, p: p[i] }) }));
      appendRejected(db, { id, runId, header }, items);
    }
    windows.push(
      ...db.all<Window & Record<string, number>>(
        `select t_from as "from", t_to as "to" from journal_coverage where record_id = ?`,
        id,
      ),
    );
    for (const table of ['journal_ticks', 'journal_coverage']) db.run(`delete from ${table} where record_id = ?`, id);
    db.run('update journal set rows = (select count(*) from journal_withdrawn where record_id = ?1) where id = ?1', id);
  }
  db.run('update runs set quarantined = quarantined + ? where run_id = ?', count, runId);
  return { ticks: count, windows };
}

/** Appends a complete poll of the market lists; joins the caller's transaction. */
export function appendMarkets({ db }: State, record: MarketsRecord, rejected: readonly RejectedInput[]): void {
  db.transaction(() => {
    const { runId, observedAt } = record;
    const headerFields = { run_id: runId, kind: 'markets', symbol: null, requested_from: null, requested_to: null };
    const { id, header } = appendHeader(db, { ...headerFields, observed_at: observedAt, origin: 'poll', rank: 1 }, 1);
    const payload = zstdCompressSync(JSON.stringify(record.markets));
    insertJournalRow(db, 'journal_markets', header, [id, observedAt, payload]);
    const items = rejected.map((item) => ({ symbol: null, at: observedAt, ...item }));
    appendRejected(db, { id, runId, header }, items);
  });
}

function* splitTicksByDay(ticks: TickColumns): Generator<TickColumns & { day: number }> {
  const { t, p } = sortTicksByTime(ticks);
  for (let from = 0; from < t.length; ) {
    const day = floorToDay(t[from]!);
    const to = seek(t, from + 1, t.length, day + dayMs);
    yield { day, t: t.subarray(from, to), p: p.subarray(from, to) };
    from = to;
  }
}

/**
 * Sorts the ticks of one response or file by time. Of those with equal times the last one counts (`merge.ts`), which is the
 * last in ascending reading order: ticks that run newest first are reversed. Ticks in no order have no last one, so the
 * greatest price counts.
 */
export function sortTicksByTime(ticks: TickColumns): TickColumns {
  const { t, p } = ticks;
  if (isSorted(t)) return ticks;
  if (isSorted(t, -1)) return { t: t.toReversed(), p: p.toReversed() };
  const copy = { t: t.slice(), p: p.slice(), source: new Uint32Array(t.length) };
  sortTicksInPlace(copy, createMergeScratch());
  sortEqualTimesByPrice(copy);
  return copy;
}

function sortEqualTimesByPrice({ t, p }: TickColumns): void {
  for (let from = 0; from < t.length; ) {
    let to = from + 1;
    while (to < t.length && t[to] === t[from]) to++;
    if (to - from > 1) p.subarray(from, to).sort();
    from = to;
  }
}

/** Reads the last record ID. A publish that starts now includes the records up to it. */
export const readJournalEnd = (db: Database): number =>
  db.one<{ id: number | null }>('select max(id) as id from journal')?.id ?? 0;

/** Cost of publishing one covered day or one rejected input, expressed as a number of ticks. */
export const ticksPerCoveredDay = 8;
export const ticksPerRejected = 8;

/** Computes the cost of publishing a record, expressed as a number of ticks. */
export function computeTickLoad({ ticks, rejected, covered, withdrawn = [] }: TickRecord): number {
  const days = [...covered, ...withdrawn].reduce((sum, w) => sum + Math.ceil((w.to - floorToDay(w.from)) / dayMs), 0);
  return ticks.t.length + ticksPerRejected * rejected.length + ticksPerCoveredDay * days;
}

/** Deletes the rows of parts in records up to `end`. Must run inside a transaction. */
export function deleteParts(db: Database, tables: readonly string[], parts: readonly DayPart[], end: number): void {
  for (const { day, from, to } of parts)
    for (const table of tables)
      db.run(`delete from ${table} where day = ? and symbol between ? and ? and record_id <= ?`, day, from, to, end);
}

/** Reads the ticks of one part, those of each symbol in the order of acceptance. @throws JournalDamageError */
export const readPartTicks = (db: Database, part: DayPart, end: number): TickChunk[] =>
  readTickChunks(db, { day: part.day }, end, part);

/** Reads the journaled ticks of one symbol and day in the order of acceptance. @throws JournalDamageError */
export const readSymbolDayTicks = (db: Database, symbol: string, day: number, end: number): TickChunk[] =>
  readTickChunks(db, { symbol, day }, end);

const readTickChunks = (
  db: Database,
  selected: { readonly day: number; readonly symbol?: string },
  end: number,
  range?: SymbolRange,
): TickChunk[] =>
  Array.from(
    readJournalRows(db, 'journal_ticks', selected, end, range),
    ({ symbol, t, p, head_run_id: runId, head_observed_at: observedAt, head_rank: rank }): TickChunk => {
      return { symbol, t: toDoubles(t), p: toDoubles(p), runId, observedAt, rank };
    },
  );

/** A UTC day with journaled ticks of a symbol, and the last record with such ticks. */
interface JournaledDayTicks {
  readonly day: number;
  readonly last: number;
}

/** Lists the days with journaled ticks of a symbol in records up to `end`, sorted. */
export const listJournaledDays = (db: Database, symbol: string, end: number): JournaledDayTicks[] =>
  db.all<JournaledDayTicks & Record<string, number>>(
    `select day, max(record_id) as last from journal_ticks where symbol = ? and record_id <= ? group by day order by day`,
    symbol,
    end,
  );

/** Reads the time of the last journaled tick of a symbol, epoch ms; null if none is journaled. */
export function readLastJournaledTick(db: Database, symbol: string): number | null {
  // The ticks of a row are sorted: its last eight bytes are its last time.
  const rows = db.all<{ last: Uint8Array }>(
    `select substr(t, -8) as last from journal_ticks
     where symbol = ?1 and n > 0 and day = (select max(day) from journal_ticks where symbol = ?1)`,
    symbol,
  );
  return rows.reduce<number | null>((best, { last }) => Math.max(best ?? 0, toDoubles(last)[0]!), null);
}

/**
 * Returns the facts with the last tick that is published or journaled. Stored facts are of published ticks: compared with an
 * older tick, the journaled ones would look like late ticks and contradict the coverage that came with them.
 */
export function includeJournaledTicks(db: Database, facts: SymbolFacts): SymbolFacts {
  const journaled = readLastJournaledTick(db, facts.symbol);
  return journaled === null || journaled <= (facts.lastTick ?? Number.NEGATIVE_INFINITY)
    ? facts
    : { ...facts, lastTick: journaled };
}

/**
 * Reads the coverage of one part by symbol, minus later withdrawals up to `end`, and the number of rows read.
 * @throws JournalDamageError
 */
export function readPartClaims(
  db: Database,
  part: DayPart,
  end: number,
): { readonly covered: Map<string, CoveredWindow[]>; readonly rows: number } {
  const withdrawals = readWithdrawals(db, part, end);
  const bySymbol = new Map<string, CoveredWindow[]>();
  let count = 0;
  for (const row of readJournalRows(db, 'journal_coverage', { day: part.day }, end, part)) {
    count++;
    const later = withdrawals.get(row.symbol)?.filter(({ recordId }) => recordId > row.record_id) ?? [];
    const window = toCoveredWindow(row);
    for (const piece of subtract([window], later)) pushTo(bySymbol, row.symbol, { ...window, ...piece });
  }
  return { covered: bySymbol, rows: count };
}

/** A window of one day whose coverage a record withdraws. */
interface Withdrawal extends DatedWindow {
  readonly recordId: number;
}

/**
 * Reads the withdrawals of one part by symbol. They apply to published coverage before the journaled coverage is added.
 * @throws JournalDamageError
 */
export function readWithdrawals(db: Database, part: DayPart, end: number): ReadonlyMap<string, readonly Withdrawal[]> {
  const withdrawals = Array.from(
    readJournalRows(db, 'journal_withdrawn', { day: part.day }, end, part),
    ({ symbol, record_id: recordId, t_from: from, t_to: to, head_observed_at: at }) => ({
      symbol,
      window: { recordId, from, to, at },
    }),
  );
  const bySymbol = Map.groupBy(withdrawals, ({ symbol }) => symbol);
  return new Map([...bySymbol].map(([symbol, list]) => [symbol, list.map(({ window }) => window)]));
}

/** Reads the withdrawals that are not published yet. */
export const readJournaledWithdrawals = (db: Database): PublishedWithdrawal[] =>
  db.all(
    `select w.symbol, w.t_from as "from", w.t_to as "to", j.observed_at as at
     from journal_withdrawn w join journal j on j.id = w.record_id`,
  );

/** A UTC day and symbol with journaled ticks, and their number. */
export interface JournaledSymbolDay {
  readonly day: number;
  readonly symbol: string;
  readonly ticks: number;
}

/** Lists the days and symbols with journaled ticks, of one run or of all, sorted by day. */
export const listJournaledSymbolDays = (db: Database, runId: string | null = null): JournaledSymbolDay[] =>
  db.all<JournaledSymbolDay & Record<string, string | number>>(
    `select k.day, k.symbol, sum(k.n) as ticks from journal_ticks k join journal j on j.id = k.record_id
     where ?1 is null or j.run_id = ?1 group by k.day, k.symbol order by k.day`,
    runId,
  );
