import { dayMs, subtract, union, type Window } from '../../base/window.ts';
import type { Origin } from '../../contract/raw-page.ts';
import {
  type CoveredWindow,
  type Evidence,
  joinFinalWindows,
  overlayLayers,
  withdrawCoverage,
} from '../format/coverage.ts';
import { type Database, evidenceSinceKey, getMeta, setMeta } from './database.ts';

interface SegmentRow {
  symbol: string;
  t_from: number;
  t_to: number;
  fetched_at: number;
  origin: Origin;
  evidence: Evidence;
}

const toCoveredWindow = (row: SegmentRow): CoveredWindow => ({
  from: row.t_from,
  to: row.t_to,
  fetchedAt: row.fetched_at,
  origin: row.origin,
  evidence: row.evidence,
});

/** A window of the state, its kind and the journal record that brought it (0: published). */
interface StateWindow extends Window {
  readonly symbol: string;
  readonly kind: 'published' | 'journaled' | 'withdrawn';
  readonly recordId: number;
  readonly evidence: Evidence | null;
}

/**
 * Selects what coverage is made of in one statement, so that no publish comes in between. `?1` is the latest
 * `fetched_at` that counts, in ms.
 */
const selectStateWindows = (where: string): string => `
  select symbol, t_from as "from", t_to as "to", 'published' as kind, 0 as recordId, evidence
    from segments where fetched_at <= ?1 and ${where}
  union all select symbol, t_from, t_to, 'journaled', record_id, evidence
    from journal_cover where fetched_at <= ?1 and ${where}
  union all select symbol, t_from, t_to, 'withdrawn', record_id, null from journal_withdrawn where ${where}`;

/** Computes what is covered: a withdrawal takes back what is published and what records before it journaled. */
function applyWithdrawals(rows: readonly StateWindow[]): Window[] {
  const withdrawn = rows.filter(({ kind }) => kind === 'withdrawn');
  const covered = rows.filter(({ kind }) => kind !== 'withdrawn');
  if (withdrawn.length === 0) return union(covered);
  return union(
    [...Map.groupBy(covered, ({ recordId }) => recordId)].flatMap(([record, windows]) =>
      subtract(
        windows,
        withdrawn.filter(({ recordId }) => recordId > record),
      ),
    ),
  );
}

/**
 * Everything that is covered of one symbol, published or journaled.
 * @param believedMs responses of a later moment do not count: the clock of the run that had them was ahead
 */
export const readSymbolCoverage = (db: Database, symbol: string, believedMs = Number.MAX_SAFE_INTEGER): Window[] =>
  applyWithdrawals(db.all<StateWindow & Record<string, never>>(selectStateWindows('symbol = ?2'), believedMs, symbol));

/** The published coverage of one symbol, at the grain of single responses: the layers of `overlayLayers`. */
export const readSegments = (db: Database, symbol: string): CoveredWindow[] =>
  db
    .all<SegmentRow & Record<string, number>>(
      'select * from segments where symbol = ? order by t_from, evidence',
      symbol,
    )
    .map(toCoveredWindow);

/** The coverage of one symbol, published or journaled, at the grain of single responses; in the order of time, windows may overlap. */
export function readResponses(db: Database, symbol: string): CoveredWindow[] {
  const withdrawn = db.all<{ from: number; to: number; record: number } & Record<string, never>>(
    'select t_from as "from", t_to as "to", record_id as record from journal_withdrawn where symbol = ?',
    symbol,
  );
  return db
    .all<SegmentRow & { record: number } & Record<string, never>>(
      `select symbol, t_from, t_to, fetched_at, origin, evidence, 0 as record from segments where symbol = ?1
       union all select symbol, t_from, t_to, fetched_at, origin, evidence, record_id from journal_cover
       where symbol = ?1 order by t_from, evidence`,
      symbol,
    )
    .flatMap((row) => {
      const later = withdrawn.filter(({ record }) => record > row.record);
      return subtract([toCoveredWindow(row)], later).map((window) => ({ ...toCoveredWindow(row), ...window }));
    });
}

/** The published coverage of every symbol. */
export function readAllSegments(db: Database): Map<string, CoveredWindow[]> {
  const out = new Map<string, CoveredWindow[]>();
  for (const row of db.iterate<SegmentRow>('select * from segments order by symbol, t_from, evidence')) {
    const list = out.get(row.symbol);
    if (list === undefined) out.set(row.symbol, [toCoveredWindow(row)]);
    else list.push(toCoveredWindow(row));
  }
  return out;
}

interface CurrentCoverageRow extends SegmentRow {
  kind: StateWindow['kind'];
  recordId: number;
}

/** Selects what `readCurrentCoverage` is made of, in one statement, so that no publish comes in between. */
const selectCurrentCoverage = (where: string): string => `
  select symbol, t_from, t_to, fetched_at, origin, evidence, 'published' as kind, 0 as recordId from segments ${where}
  union all select symbol, t_from, t_to, fetched_at, origin, evidence, 'journaled', record_id from journal_cover ${where}
  union all select symbol, t_from, t_to, 0, '', '', 'withdrawn', record_id from journal_withdrawn ${where}`;

/** The coverage of every symbol, published or journaled, with its evidence; windows of a symbol may overlap. */
export const readCurrentCoverage = (db: Database): Map<string, CoveredWindow[]> =>
  collectCurrentCoverage(db.iterate<CurrentCoverageRow>(selectCurrentCoverage('')));

/** The same of these symbols. */
export const readCurrentCoverageOf = (db: Database, symbols: readonly string[]): Map<string, CoveredWindow[]> =>
  new Map(
    symbols.flatMap((symbol) => [
      ...collectCurrentCoverage(db.iterate<CurrentCoverageRow>(selectCurrentCoverage('where symbol = ?1'), symbol)),
    ]),
  );

function collectCurrentCoverage(rows: Iterable<CurrentCoverageRow>): Map<string, CoveredWindow[]> {
  const out = new Map<string, CoveredWindow[]>();
  const journaled: CurrentCoverageRow[] = [];
  const withdrawn = new Map<string, (Window & { record: number })[]>();
  for (const row of rows) {
    if (row.kind === 'withdrawn')
      pushTo(withdrawn, row.symbol, { from: row.t_from, to: row.t_to, record: row.recordId });
    else if (row.kind === 'published') pushTo(out, row.symbol, toCoveredWindow(row));
    else journaled.push(row);
  }
  // A withdrawal takes back what is published and what records before it journaled.
  for (const [symbol, windows] of withdrawn) out.set(symbol, withdrawCoverage(out.get(symbol) ?? [], windows));
  for (const row of journaled) {
    const later = withdrawn.get(row.symbol)?.filter(({ record }) => record > row.recordId) ?? [];
    for (const left of withdrawCoverage([toCoveredWindow(row)], later)) pushTo(out, row.symbol, left);
  }
  return out;
}

function pushTo<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}

/**
 * Of each symbol the windows that are only inferred and adjoin each other up to the last one, published or journaled;
 * sorted and disjoint. What was fetched before `sinceMs` (epoch ms) is left out, and so is what is before it.
 */
export function findInferredTails(db: Database, sinceMs: number): Map<string, CoveredWindow[]> {
  // A window counts less what later records take back.
  const rows = db.iterate<SegmentRow & { record_id: number }>(
    `select symbol, t_from, t_to, fetched_at, origin, evidence, 0 as record_id from segments where evidence = 'inferred'
     union all select symbol, t_from, t_to, fetched_at, origin, evidence, record_id from journal_cover
     where evidence = 'inferred' order by symbol, t_from, t_to`,
  );
  const withdrawn = Map.groupBy(
    db.all<{ symbol: string; from: number; to: number; record: number } & Record<string, never>>(
      'select symbol, t_from as "from", t_to as "to", record_id as record from journal_withdrawn',
    ),
    ({ symbol }) => symbol,
  );
  const out = new Map<string, CoveredWindow[]>();
  for (const row of rows) {
    const list = out.get(row.symbol) ?? [];
    const last = list.at(-1);
    const later = withdrawn.get(row.symbol)?.filter(({ record }) => record > row.record_id) ?? [];
    const whole = toCoveredWindow(row);
    const left = later.length === 0 ? whole : subtract([whole], later).at(-1);
    if (left === undefined) continue;
    const piece = { ...whole, from: left.from, to: left.to };
    if (piece.fetchedAt < sinceMs || (last !== undefined && last.to < piece.from)) list.length = 0;
    const from = Math.max(piece.from, list.at(-1)?.to ?? piece.from);
    if (piece.fetchedAt >= sinceMs && from < piece.to) list.push({ ...piece, from });
    out.set(row.symbol, list);
  }
  return out;
}

/** The published coverage that reaches into a window, by symbol; as it is, not cut. */
export function readSegmentsIn(db: Database, { from, to }: Window): Map<string, CoveredWindow[]> {
  const rows = db.all<SegmentRow & Record<string, number>>(
    'select * from segments where t_from < ? and t_to > ? order by symbol, t_from, evidence',
    to,
    from,
  );
  return new Map(
    [...Map.groupBy(rows, (row) => row.symbol)].map(([symbol, list]) => [symbol, list.map(toCoveredWindow)]),
  );
}

/** What of a window is covered, published or journaled, by symbol; as it is, not cut. */
export const readCoverageIn = (db: Database, { from, to }: Window): Map<string, Window[]> =>
  new Map(
    [...readStateWindows(db, { from, to })].flatMap(([symbol, rows]): [string, Window[]][] => {
      const covered = applyWithdrawals(rows);
      return covered.length === 0 ? [] : [[symbol, covered]];
    }),
  );

const readStateWindows = (db: Database, { from, to }: Window): Map<string, StateWindow[]> =>
  Map.groupBy(
    db.iterate<StateWindow>(selectStateWindows('t_from < ?3 and t_to > ?2'), Number.MAX_SAFE_INTEGER, from, to),
    ({ symbol }) => symbol,
  );

/** Finds the windows, published or journaled, that only `inferred` evidence speaks for, by symbol; as they are, not cut. */
export function findInferred(db: Database, window: Window): Map<string, Window[]> {
  const out = new Map<string, Window[]>();
  for (const [symbol, rows] of readStateWindows(db, window)) {
    const inferred = computeInferred(rows);
    if (inferred.length > 0) out.set(symbol, inferred);
  }
  return out;
}

/** The same of one symbol. */
export const findInferredOf = (db: Database, symbol: string): Window[] =>
  computeInferred(
    db.all<StateWindow & Record<string, never>>(selectStateWindows('symbol = ?2'), Number.MAX_SAFE_INTEGER, symbol),
  );

function computeInferred(rows: readonly StateWindow[]): Window[] {
  const isInferred = ({ kind, evidence }: StateWindow): boolean => kind === 'withdrawn' || evidence === 'inferred';
  const isProof = ({ kind, evidence }: StateWindow): boolean => kind === 'withdrawn' || evidence !== 'inferred';
  return subtract(applyWithdrawals(rows.filter(isInferred)), applyWithdrawals(rows.filter(isProof)));
}

/** Takes back what is covered of a symbol in some windows. Inside the transaction that publishes it. */
export function retractSegments(db: Database, symbol: string, windows: readonly Window[]): void {
  for (const segment of readSegments(db, symbol)) {
    const left = subtract([segment], windows);
    if (left.length === 1 && left[0]!.from === segment.from && left[0]!.to === segment.to) continue;
    dropSegment(db, symbol, segment);
    restoreSegments(
      db,
      symbol,
      left.map((window) => ({ ...segment, ...window })),
    );
  }
}

/** How long the answers of a symbol are told apart, in ms; older ones are joined once they are final. */
const separateResponsesMs = 2 * dayMs;

/** Lays what a publish took in over a symbol's segments. Inside the publish's transaction. */
export function addSegments(db: Database, symbol: string, added: readonly CoveredWindow[], settleMs: number): void {
  if (added.length === 0) return;
  const from = added.reduce((least, w) => Math.min(least, w.from), Number.POSITIVE_INFINITY);
  const to = added.reduce((most, w) => Math.max(most, w.to), Number.NEGATIVE_INFINITY);
  // The neighbours too, and those old enough by now to be joined with theirs.
  const near = db
    .all<SegmentRow & Record<string, number>>(
      'select * from segments where symbol = ? and t_to >= ? and t_from <= ?',
      symbol,
      from - 2 * separateResponsesMs,
      to,
    )
    .map(toCoveredWindow);
  for (const segment of near) dropSegment(db, symbol, segment);
  restoreSegments(db, symbol, joinOldSegments(overlayLayers([...near, ...added]), settleMs));
}

/** Joins the windows of one symbol, in layers, that are final and no longer told apart. */
export const joinOldSegments = (sorted: readonly CoveredWindow[], settleMs: number): CoveredWindow[] =>
  joinFinalWindows(sorted, settleMs, findNewestResponse(sorted) - separateResponsesMs);

/** When the last response about a symbol was observed, epoch ms. */
export const findNewestResponse = (segments: readonly CoveredWindow[]): number =>
  segments.reduce((max, { fetchedAt }) => Math.max(max, fetchedAt), Number.NEGATIVE_INFINITY);

/** Whether a segment may have been joined with its neighbours, `newest` being the symbol's last response. */
export const canBeJoined = ({ to }: Window, newest: number): boolean => to <= newest - separateResponsesMs;

/** Enters segments of a symbol where there are none. */
export function restoreSegments(db: Database, symbol: string, segments: readonly CoveredWindow[]): void {
  for (const s of segments)
    db.run(
      'insert into segments (symbol, t_from, t_to, fetched_at, origin, evidence) values (?, ?, ?, ?, ?, ?)',
      symbol,
      s.from,
      s.to,
      s.fetchedAt,
      s.origin,
      s.evidence,
    );
}

const dropSegment = (db: Database, symbol: string, { from, evidence }: CoveredWindow): void => {
  db.run('delete from segments where symbol = ? and t_from = ? and evidence = ?', symbol, from, evidence);
};

/**
 * From the first to the last moment of which anything is known, be it covered (published or journaled), a published
 * tick, lost, or owed; null where there is none.
 */
export function findKnownWindow(db: Database): Window | null {
  const row = db.one<{ t_from: number | null; t_to: number | null }>(
    `select min(t_from) as t_from, max(t_to) as t_to from
       (select t_from, t_to from segments union all select t_from, t_to from journal_cover
        union all select first_tick, last_tick + 1 from symbols
        union all select t_from, t_to from lost where dataset = 'ticks'
        union all select t_from, t_to from owed)`,
  );
  return row === undefined || row.t_from === null || row.t_to === null ? null : { from: row.t_from, to: row.t_to };
}

// What is remembered from run to run to judge how far coverage is proven.

/** The oldest tick that the service ever showed, epoch ms; infinite before the first: an empty response about what is older proves nothing. */
export const readOldestShown = (db: Database): number =>
  Number(getMeta(db, 'oldest_tick_shown') ?? Number.POSITIVE_INFINITY);

/** Remembers the oldest tick of a run, epoch ms, where it is older than what is known. */
export function recordOldestShown(db: Database, t: number): void {
  if (t < readOldestShown(db)) setMeta(db, 'oldest_tick_shown', String(t));
}

/** Windows that were fetched before this moment, epoch ms, are of an older format: a poll confirms nothing of them. */
export const readEvidenceSince = (db: Database): number => Number(getMeta(db, evidenceSinceKey) ?? 0);

/** What the last run inferred of the sizes of pages; nothing where none did. */
export function readKnownPages<Known extends object>(db: Database): Partial<Known> {
  const text = getMeta(db, 'known_pages');
  if (text === undefined) return {};
  return JSON.parse(text, (_, value) => (value === 'infinite' ? Number.POSITIVE_INFINITY : value)) as Partial<Known>;
}

/** Remembers what a run inferred of the sizes of pages; null forgets it. */
export function recordKnownPages(db: Database, known: object | null): void {
  const text = JSON.stringify(known ?? {}, (_, value) => (value === Number.POSITIVE_INFINITY ? 'infinite' : value));
  if (text !== getMeta(db, 'known_pages')) setMeta(db, 'known_pages', text);
}

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
