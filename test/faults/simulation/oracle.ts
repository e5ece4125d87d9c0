import type { CoveredWindow } from '../../../src/archive/format/coverage.ts';
import type { DatedWindow } from '../../../src/archive/format/withdrawals.ts';
import { type Database, getMeta } from '../../../src/archive/journal/database.ts';
import { toDoubles } from '../../../src/archive/journal/journal-rows.ts';
import { pushTo } from '../../../src/base/push-to.ts';
import { floorToDay, intersect, splitByDay, subtract } from '../../../src/base/window.ts';
import type { LostTick } from './damage.ts';
import { findCounted } from './reading-order.ts';
import type { Saved } from './saved.ts';
import { listVisibleTicks, type World } from './world.ts';

/** One accepted tick: a price from a response, durable since its transaction. */
interface Observation {
  readonly rank: number;
  readonly observedAt: number;
  readonly p: number;
  readonly record: number;
  /** Whether it is the one of its response that counts for its key. */
  readonly counts: boolean;
}

/**
 * The possible and required content of the archive: a map from (symbol, t) to accepted prices. It sees every
 * transaction of the state, and the input of imports, which is accepted with the import's commit.
 */
export interface Oracle {
  readonly seen: ReadonlyMap<string, ReadonlyMap<number, readonly Observation[]>>;
  /** All accepted prices of a key, also those before its state or tick was lost. */
  ever(symbol: string, t: number): readonly Observation[];
  /** All coverage ever claimed, by response. */
  readonly covers: ReadonlyMap<string, readonly CoveredWindow[]>;
  /**
   * What pages claimed that are older than a withdrawal of their window: not covered, unless the import began before the
   * withdrawal, or the state was lost before it was published.
   */
  readonly disputed: ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Errors; the first is the most relevant. */
  readonly wrongs: string[];
  /** Keys whose precedence is unknown because the state was lost: the price of any observation may win. */
  isLoose(symbol: string, t: number): boolean;
  /**
   * @param saved the input that the process of the transaction has read
   * @returns whether the transaction commits a generation
   */
  observe(db: Database, saved?: Saved): boolean;
  /** These were published and are lost: their next observation counts as the first. */
  lose(ticks: readonly LostTick[]): void;
  /** The state is lost with the journal; `isPublished` tells which rows were in it. */
  forget(
    published: ReadonlyMap<string, ReadonlyMap<number, number>>,
    covered: ReadonlyMap<string, CoveredWindow[]>,
  ): void;
}

interface TickRow {
  record_id: number;
  symbol: string;
  t: Uint8Array;
  p: Uint8Array;
  observed_at: number;
  rank: number;
}

interface CoverRow {
  symbol: string;
  t_from: number;
  t_to: number;
  fetched_at: number;
  origin: CoveredWindow['origin'];
  evidence: CoveredWindow['evidence'];
}

/**
 * @param generatedMsMax how long after the recorded time a response may have been generated, if it does not state it
 */
export function startOracle(world: World, generatedMsMax: number): Oracle {
  let seen = new Map<string, Map<number, Observation[]>>();
  let covers = new Map<string, CoveredWindow[]>();
  const disputed = new Map<string, CoveredWindow[]>();
  const withdrawals = new Map<string, DatedWindow[]>();
  let loose = new Set<string>();
  const ever = new Map<string, Observation[]>();
  const wrongs: string[] = [];
  let last = 0;
  let generation: number | undefined;

  function observe(db: Database, saved?: Saved): boolean {
    if (db.one("select 1 from sqlite_master where name = 'journal'") === undefined) return false;
    const journaled = observeJournal(db);
    const now = Number(getMeta(db, 'generation'));
    const committed = generation !== undefined && now > generation;
    generation = now;
    if (committed && saved !== undefined) accept(saved, journaled);
    return committed;
  }

  /** What a commit accepted from an import, without what it journaled instead. */
  function accept({ rank, pages }: Saved, journaled: ReadonlySet<string>): void {
    for (const { symbol, observedAt, ticks } of pages) {
      const counted = findCounted(
        ticks.map(({ t }) => t),
        (a, b) => ticks[a]!.p > ticks[b]!.p,
      );
      for (const [i, { t, p }] of ticks.entries())
        if (!journaled.has(`${symbol} ${floorToDay(t)}`))
          note(symbol, t, { rank, observedAt, p, record: 0, counts: counted.has(i) });
    }
    for (const { symbol, observedAt, ticks, covered } of pages) {
      const head = { origin: 'import', evidence: ticks.length > 0 ? 'stated' : 'inferred' } as const;
      const later = (withdrawals.get(symbol) ?? []).filter(({ at }) => at > observedAt);
      for (const window of covered.flatMap((one) => splitByDay(one))) {
        if (journaled.has(`${symbol} ${floorToDay(window.from)}`)) continue;
        for (const { from, to } of subtract([window], later))
          claim({ symbol, t_from: from, t_to: to, fetched_at: observedAt, ...head });
        for (const both of intersect([window], later))
          pushTo(disputed, symbol, { ...both, fetchedAt: observedAt, ...head });
      }
    }
  }

  function note(symbol: string, t: number, observation: Observation): void {
    const ofSymbol = seen.get(symbol) ?? new Map<number, Observation[]>();
    seen.set(symbol, ofSymbol);
    const list = ofSymbol.get(t);
    if (list === undefined) ofSymbol.set(t, [observation]);
    else list.push(observation);
    const key = `${symbol}\n${t}`;
    const all = ever.get(key);
    if (all === undefined) ever.set(key, [observation]);
    else all.push(observation);
  }

  /** The symbols and days with new journal records. */
  function observeJournal(db: Database): Set<string> {
    const days = new Set<string>();
    const { id } = db.one<{ id: number | null }>('select max(id) as id from journal')!;
    if (id === null || id <= last) return days;
    const rows = db.all<TickRow & Record<string, never>>(
      `select k.record_id, k.symbol, k.t, k.p, j.observed_at, j.rank
       from journal_ticks k join journal j on j.id = k.record_id where k.record_id > ?`,
      last,
    );
    for (const row of rows) {
      const [t, p] = [toDoubles(row.t), toDoubles(row.p)];
      for (let i = 0; i < t.length; i++) {
        const { rank, observed_at: observedAt, record_id: record } = row;
        note(row.symbol, t[i]!, { rank, observedAt, p: p[i]!, record, counts: t[i + 1] !== t[i] });
        days.add(`${row.symbol} ${floorToDay(t[i]!)}`);
      }
    }
    const claims = db.all<CoverRow & { record_id: number } & Record<string, never>>(
      'select record_id, symbol, t_from, t_to, fetched_at, origin, evidence from journal_coverage where record_id > ? order by id',
      last,
    );
    const withdrawn = db.all<{ record_id: number; symbol: string; t_from: number; t_to: number; at: number }>(
      `select record_id, w.symbol, t_from, t_to, observed_at as at
       from journal_withdrawn w join journal j on j.id = record_id where record_id > ? order by w.id`,
      last,
    );
    for (const { symbol, t_from: from, t_to: to, at } of withdrawn) pushTo(withdrawals, symbol, { from, to, at });
    const takenBack = Map.groupBy(withdrawn, (row) => row.record_id);
    for (const row of claims) {
      // A record withdraws only windows claimed before it.
      while (withdrawn.length > 0 && withdrawn[0]!.record_id <= row.record_id) takeBack(withdrawn.shift()!);
      // A window that is withdrawn and inferred in one record had better evidence before: it keeps the time of its
      // oldest response.
      const isDemoted =
        row.evidence === 'inferred' &&
        (takenBack.get(row.record_id) ?? []).some((w) => w.t_from <= row.t_from && row.t_to <= w.t_to);
      claim(row, isDemoted);
      days.add(`${row.symbol} ${floorToDay(row.t_from)}`);
    }
    for (const row of withdrawn) takeBack(row);
    last = id;
    return days;
  }

  function takeBack({ symbol, t_from: from, t_to: to }: { symbol: string; t_from: number; t_to: number }): void {
    const uncovered = (covers.get(symbol) ?? []).flatMap((covered) =>
      subtract([covered], [{ from, to }]).map((window) => ({ ...covered, ...window })),
    );
    covers.set(symbol, uncovered);
  }

  /**
   * A claim is correct if all data of its window at its time has been accepted. An inferred claim only promises that
   * nothing contradicted it.
   */
  function claim(
    { symbol, t_from: from, t_to: to, fetched_at: fetchedAt, origin, evidence }: CoverRow,
    isDemoted = false,
  ): void {
    const list = covers.get(symbol) ?? [];
    covers.set(symbol, list);
    list.push({ from, to, fetchedAt, origin, evidence });
    const market = world.bySymbol.get(symbol);
    if (market === undefined) return;
    const observations = seen.get(symbol);
    for (const { t } of listVisibleTicks(market, { from, to }, fetchedAt)) {
      if (evidence === 'inferred' || observations?.has(t)) continue;
      wrongs.push(`coverage: ${symbol} [${from}, ${to}) at ${fetchedAt} is ${evidence}, without its tick at ${t}`);
    }
    if (to > fetchedAt && !isDemoted)
      wrongs.push(`coverage: ${symbol} [${from}, ${to}) is claimed beyond its response of ${fetchedAt}`);
    const holes = market.holes.filter((gap) => fetchedAt + generatedMsMax < gap.until && gap.from < fetchedAt);
    for (const gap of holes.filter((w) => w.from < to && from < w.to))
      wrongs.push(
        `coverage: ${symbol} [${gap.from}, ${gap.to}) is claimed though the service lacked it at ${fetchedAt}`,
      );
  }

  return {
    get seen() {
      return seen;
    },
    get covers() {
      return covers;
    },
    disputed,
    wrongs,
    ever: (symbol, t) => ever.get(`${symbol}\n${t}`) ?? [],
    isLoose: (symbol, t) => loose.has(`${symbol}\n${t}`),
    observe,
    lose(ticks) {
      for (const { symbol, t } of ticks) {
        seen.get(symbol)?.delete(t);
        loose.delete(`${symbol}\n${t}`);
      }
    },
    forget(published, covered) {
      last = 0;
      generation = undefined;
      const retained = new Map<string, Map<number, Observation[]>>();
      loose = new Set();
      for (const [symbol, ticks] of published) {
        const before = seen.get(symbol);
        const of = new Map<number, Observation[]>();
        for (const [t] of ticks) {
          const list = before?.get(t);
          if (list === undefined) continue;
          of.set(
            t,
            list.map((observation) => ({ ...observation, record: 0 })),
          );
          if (list.length > 1) loose.add(`${symbol}\n${t}`);
        }
        retained.set(symbol, of);
      }
      seen = retained;
      // Joined rows have the earliest time; the response times of their windows are known from before.
      covers = new Map(
        [...covered].map(([symbol, rows]) => {
          const before = (covers.get(symbol) ?? []).flatMap((claim) =>
            intersect([claim], rows).map((window) => ({ ...claim, ...window })),
          );
          return [symbol, [...rows, ...before]];
        }),
      );
    },
  };
}

/** The price to publish by the contract: the greatest (rank, observation time, price) of those that count. */
export function pickWinner(observations: readonly Observation[]): number {
  return observations
    .filter(({ counts }) => counts)
    .reduce((a, b) =>
      (b.rank !== a.rank ? b.rank > a.rank : b.observedAt !== a.observedAt ? b.observedAt > a.observedAt : b.p > a.p)
        ? b
        : a,
    ).p;
}
