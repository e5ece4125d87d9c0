import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Covered, Origin } from '../core/coverage.ts';
import type { MarketFacts } from '../core/market.ts';
import type { Chunk } from '../core/merge.ts';
import { isInOrder, orderByTime, startAside } from '../core/merge-order.ts';
import { partOf } from '../core/part.ts';
import { seek } from '../core/search.ts';
import type { Rejected, TickColumns } from '../core/tick.ts';
import { dayFloor, dayMs, splitByDay, type Window } from '../core/window.ts';
import type { Database } from './database.ts';
import type { State } from './state.ts';
import { ensureSeen } from './symbols.ts';

/** One answer of the upstream, judged: what becomes durable in one transaction. */
export interface TickRecord {
  readonly runId: string;
  readonly symbol: string;
  readonly asked: Window;
  /** When the answer was generated, or fetched where it does not say; epoch ms. */
  readonly observedAt: number;
  readonly origin: Origin;
  readonly rank: number;
  readonly ticks: TickColumns;
  readonly rejected: readonly Rejected[];
  /** What it covers, with the moment it was generated; may speak for an earlier answer of this symbol too. */
  readonly covered: readonly Omit<Covered, 'origin'>[];
}

export interface MarketsRecord {
  readonly runId: string;
  readonly observedAt: number;
  readonly markets: readonly MarketFacts[];
}

/** Appends answers of the tick route; durable when it returns. */
export function appendTicks(state: State, records: readonly TickRecord[]): void {
  const { db } = state;
  db.transaction(() => {
    const { parts } = state.identity;
    const byRun = new Map<string, { fetched: number; quarantined: number }>();
    for (const record of records) {
      appendTickRecord(db, parts, record);
      const counts = byRun.get(record.runId) ?? { fetched: 0, quarantined: 0 };
      counts.fetched += record.ticks.t.length + record.rejected.length;
      counts.quarantined += record.rejected.length;
      byRun.set(record.runId, counts);
    }
    for (const [runId, { fetched, quarantined }] of byRun) {
      if (fetched === 0) continue;
      db.run(
        'update runs set fetched = fetched + ?, quarantined = quarantined + ? where run_id = ?',
        ...[fetched, quarantined, runId],
      );
    }
  });
}

function appendTickRecord(db: Database, parts: number, record: TickRecord): void {
  const { symbol, runId, origin } = record;
  // Nothing would ever consume it.
  if (record.ticks.t.length + record.covered.length + record.rejected.length === 0) return;
  const part = partOf(symbol, parts);
  const { id } = db.run(
    "insert into journal (run_id, kind, symbol, asked_from, asked_to, observed_at, origin, rank) values (?, 'ticks', ?, ?, ?, ?, ?, ?)",
    ...[runId, symbol, record.asked.from, record.asked.to, record.observedAt, origin, record.rank],
  );
  for (const { day, t, p } of cutByDay(record.ticks)) {
    db.run(
      'insert into journal_ticks (record_id, symbol, day, part, n, t, p) values (?, ?, ?, ?, ?, ?, ?)',
      ...[id, symbol, day, part, t.length, bytesOf(t), bytesOf(p)],
    );
  }
  for (const covered of record.covered) {
    for (const piece of splitByDay(covered)) {
      db.run(
        'insert into journal_cover (record_id, symbol, day, part, t_from, t_to, fetched_at, origin) values (?, ?, ?, ?, ?, ?, ?, ?)',
        ...[id, symbol, dayFloor(piece.from), part, piece.from, piece.to, covered.fetchedAt, origin],
      );
    }
  }
  if (record.ticks.t.length + record.covered.length > 0) {
    ensureSeen(db, symbol, record.observedAt);
  }
  appendRejected(db, id, runId, symbol, record.observedAt, record.rejected);
}

/** Sets input aside as received; joins the caller's transaction. */
export function appendRejected(
  db: Database,
  recordId: number,
  runId: string,
  symbol: string | null,
  at: number,
  rejected: readonly Rejected[],
): void {
  for (const { reason, raw } of rejected) {
    db.run(
      'insert into journal_rejected (record_id, run_id, symbol, at, reason, raw) values (?, ?, ?, ?, ?, ?)',
      ...[recordId, runId, symbol, at, reason, raw],
    );
  }
}

/** Appends a complete poll of the market lists; joins the caller's transaction. */
export function appendMarkets({ db }: State, record: MarketsRecord, rejected: readonly Rejected[]): void {
  db.transaction(() => {
    const { id } = db.run(
      "insert into journal (run_id, kind, observed_at, origin, rank) values (?, 'markets', ?, 'poll', 1)",
      ...[record.runId, record.observedAt],
    );
    const payload = zstdCompressSync(JSON.stringify(record.markets));
    db.run('insert into journal_markets values (?, ?, ?)', id, record.observedAt, payload);
    appendRejected(db, id, record.runId, null, record.observedAt, rejected);
  });
}

function* cutByDay(ticks: TickColumns): Generator<TickColumns & { day: number }> {
  const { t, p } = inOrder(ticks);
  for (let from = 0; from < t.length; ) {
    const day = dayFloor(t[from]!);
    const to = seek(t, from + 1, t.length, day + dayMs);
    yield { day, t: t.subarray(from, to), p: p.subarray(from, to) };
    from = to;
  }
}

/** The same ticks by time; those of one time keep their order. */
export function inOrder(ticks: TickColumns): TickColumns {
  const { t, p } = ticks;
  if (isInOrder(t)) return ticks;
  const copy = { t: t.slice(), p: p.slice(), source: new Uint32Array(t.length) };
  orderByTime(copy, startAside());
  return copy;
}

export const bytesOf = (values: Float64Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** Copies: SQLite's blob is not aligned for doubles. */
export const doublesOf = (bytes: Uint8Array): Float64Array => new Float64Array(new Uint8Array(bytes).buffer);

/** The last record id there is: what a publish that starts now takes in. */
export const journalEnd = (db: Database): number =>
  db.one<{ id: number | null }>('select max(id) as id from journal')?.id ?? 0;

/** Ticks accepted and not yet published. */
export const journaledTicks = (db: Database): number =>
  db.one<{ n: number | null }>('select sum(n) as n from journal_ticks')?.n ?? 0;

/** What a covered day, or an element set aside, weighs against a tick in what publishing it takes. */
export const ticksPerCoveredDay = 8;
export const ticksPerRejected = 8;

/** What publishing a record takes, in ticks. */
export function loadOf({ ticks, rejected, covered }: TickRecord): number {
  const days = covered.reduce((sum, w) => sum + Math.ceil((w.to - dayFloor(w.from)) / dayMs), 0);
  return ticks.t.length + ticksPerRejected * rejected.length + ticksPerCoveredDay * days;
}

export interface Bin {
  readonly day: number;
  readonly part: number;
}

/** The (day, part) pairs that records up to `end` touch, by ticks or by coverage; in order. */
export const journalBins = (db: Database, end: number): Bin[] =>
  db.all<Bin & Record<string, number>>(
    `select day, part from journal_ticks where record_id <= ?1
     union select day, part from journal_cover where record_id <= ?1 order by day, part`,
    end,
  );

/** The ticks of one bin, in the order they were accepted. */
export function readBin(db: Database, bin: Bin, end: number): Chunk[] {
  interface TickRow {
    symbol: string;
    t: Uint8Array;
    p: Uint8Array;
    run_id: string;
    observed_at: number;
    rank: number;
  }
  const rows = db.iterate<TickRow>(
    `select k.symbol, k.t, k.p, j.run_id, j.observed_at, j.rank from journal_ticks k join journal j on j.id = k.record_id
     where k.day = ? and k.part = ? and k.record_id <= ? order by k.id`,
    ...[bin.day, bin.part, end],
  );
  const chunks: Chunk[] = [];
  for (const row of rows) {
    const { symbol, rank } = row;
    chunks.push({
      symbol,
      t: doublesOf(row.t),
      p: doublesOf(row.p),
      runId: row.run_id,
      observedAt: row.observed_at,
      rank,
    });
  }
  return chunks;
}

/** The coverage of one bin, by symbol. */
export function readBinCoverage(db: Database, bin: Bin, end: number): Map<string, Covered[]> {
  const rows = db.all<{ symbol: string; t_from: number; t_to: number; fetched_at: number; origin: Origin }>(
    `select symbol, t_from, t_to, fetched_at, origin from journal_cover
     where day = ? and part = ? and record_id <= ? order by id`,
    ...[bin.day, bin.part, end],
  );
  const bySymbol = new Map<string, Covered[]>();
  for (const row of rows) {
    const stretch = { from: row.t_from, to: row.t_to, fetchedAt: row.fetched_at, origin: row.origin };
    const list = bySymbol.get(row.symbol);
    if (list === undefined) bySymbol.set(row.symbol, [stretch]);
    else list.push(stretch);
  }
  return bySymbol;
}

export interface MarketsPoll {
  readonly recordId: number;
  readonly observedAt: number;
  readonly markets: readonly MarketFacts[];
}

/** Market polls up to `end`, oldest first. */
export function* readMarkets(db: Database, end: number): Generator<MarketsPoll> {
  const ids = db.all<{ record_id: number }>(
    'select record_id from journal_markets where record_id <= ? order by observed_at, record_id',
    end,
  );
  for (const { record_id } of ids) {
    const row = db.one<{ observed_at: number; payload: Uint8Array }>(
      'select observed_at, payload from journal_markets where record_id = ?',
      record_id,
    )!;
    yield {
      recordId: record_id,
      observedAt: row.observed_at,
      markets: JSON.parse(zstdDecompressSync(row.payload).toString()) as MarketFacts[],
    };
  }
}

export interface RejectedRow {
  readonly run_id: string;
  readonly symbol: string | null;
  readonly at: number;
  readonly reason: string;
  readonly raw: string;
}

export const hasRejected = (db: Database, end: number): boolean =>
  db.one('select 1 from journal_rejected where record_id <= ? limit 1', end) !== undefined;

export const readRejected = (db: Database, end: number): IterableIterator<RejectedRow> =>
  db.iterate<RejectedRow>(
    'select run_id, symbol, at, reason, raw from journal_rejected where record_id <= ? order by id',
    end,
  );

/** How often each reason stands among what is set aside and not yet published, since a moment (epoch ms). */
export const waitingReasons = (
  db: Database,
  sinceMs: number,
): { reason: string; count: number; symbol: string | null }[] =>
  db.all(
    `select reason, count(*) as count, min(symbol) as symbol from journal_rejected where at >= ? group by reason`,
    sinceMs,
  );

/** Ticks of each run in one bin; what a publish has taken in for it. */
export const binTicksByRun = (db: Database, bin: Bin, end: number): { run_id: string; n: number }[] =>
  db.all(
    `select j.run_id, sum(k.n) as n from journal_ticks k join journal j on j.id = k.record_id
     where k.day = ? and k.part = ? and k.record_id <= ? group by j.run_id`,
    ...[bin.day, bin.part, end],
  );

/** Drops what a publish took in: these bins and rejected input up to `end`, and these market polls. In its transaction. */
export function consume(db: Database, bins: readonly Bin[], end: number, polls: readonly number[]): void {
  for (const { day, part } of bins) {
    db.run('delete from journal_ticks where day = ? and part = ? and record_id <= ?', day, part, end);
    db.run('delete from journal_cover where day = ? and part = ? and record_id <= ?', day, part, end);
  }
  for (const recordId of polls) db.run('delete from journal_markets where record_id = ?', recordId);
  db.run('delete from journal_rejected where record_id <= ?', end);
  db.run(
    `delete from journal where id <= ?
       and not exists (select 1 from journal_ticks where record_id = journal.id)
       and not exists (select 1 from journal_cover where record_id = journal.id)
       and not exists (select 1 from journal_markets where record_id = journal.id)
       and not exists (select 1 from journal_books where record_id = journal.id)
       and not exists (select 1 from journal_book_cover where record_id = journal.id)`,
    end,
  );
}
