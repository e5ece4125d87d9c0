import { LRUCache } from 'lru-cache';
import type { Archive } from '../../archive/archive.ts';
import { computeLifetime } from '../../archive/completeness/symbol-lifetime.ts';
import { createUnknownSymbol } from '../../archive/format/market.ts';
import { readKnownPageCaps, readSymbolCoverage } from '../../archive/journal/coverage-store.ts';
import { readCoverageWithoutLost, readLostTicks } from '../../archive/journal/gap-records.ts';
import { includeJournaledTicks } from '../../archive/journal/journal.ts';
import { readJournalLoad } from '../../archive/journal/journal-books.ts';
import { readPollBytes } from '../../archive/journal/journal-markets.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { readSymbol } from '../../archive/journal/symbol-store.ts';
import { requireSameOwner } from '../../archive/open-archive.ts';
import { entriesMax } from '../../base/entries-max.ts';
import { UpstreamError, UsageError } from '../../base/errors.ts';
import { addLogFields } from '../../base/ports.ts';
import { findSource } from '../../base/source-name.ts';
import { addTail, type SymbolPlan } from '../../collector/paging/plan.ts';
import { createServerBehavior, type KnownPages, type ServerBehavior } from '../../collector/paging/server-behavior.ts';
import type { Context } from '../../context/context.ts';
import { getFutureSkewMs, getLingerRules, listSourceIdentities } from '../../context/open-configured.ts';
import { listSourceSettings, requireUpstream } from '../../settings/settings.ts';
import { type LiveOutcome, type LiveReads, liveOutcomes } from '../http/service-context.ts';
import { fetchMarkets, fetchOrderBook, fetchTicks, type PlannedTicks } from './live-fetch.ts';
import { type LiveRuns, type LiveSession, openLiveRuns } from './live-run.ts';
import { isStale, planTail, type TailFacts } from './refresh-policy.ts';
import { createSingleFlight, type FetchResult, type SingleFlight } from './single-flight.ts';

/** Requests that may wait for the upstream: as many as it may get in this time, in seconds; at least `flightsMin`. */
const waitSecondsMax = 10;
const flightsMin = 8;

/** Maximum duration of one refresh, in ms. What it has received until then is kept. */
const flightMsMax = 30_000;

/** Longest deliberate re-read by a live read, in ms. The collector's next poll reads again what live reads covered. */
const overlapMsMax = 30_000;

/** How often the size of the journal is measured, in ms. */
const loadCheckMs = 60_000;

/** Maximum size of the journaled polls of the market lists, in bytes. Every poll stores the lists again. */
const pollBytesMax = 1024 ** 3;

/** Symbols whose end of the coverage is kept in memory. */
const symbolsMax = 10_000;

const routes = ['ticks', 'markets', 'orderbook'] as const;
type Route = (typeof routes)[number];

/**
 * Opens the live reads of a service. Each source of an archive that has several has live reads of its own, with its rate,
 * credentials, runs and pauses: one that is down delays no read of another.
 * @throws UsageError if there is no upstream, the archive is of another one, or was never collected here, as a snapshot
 */
export function openLiveReads(context: Context, archive: Archive): LiveReads {
  const { settings } = context;
  const ofSources = listSourceSettings(settings);
  const [first] = ofSources.map(requireUpstream);
  const sources = listSourceIdentities(settings.sources);
  const upstream = sources.length === 0 ? (settings.source.name ?? new URL(first!.baseUrl).origin) : '';
  requireSameOwner(archive.layout.root, archive.state.identity, { upstream, sources });
  requireCollectedArchive(archive);
  if (sources.length === 0) return new SourceLiveReads(context, archive);
  const bySource = new Map(
    ofSources.map((own) => {
      const log = addLogFields(context.log, { source: own.sourceName });
      return [own.sourceName!, new SourceLiveReads({ ...context, settings: own, log }, archive)];
    }),
  );
  return joinLiveReads(bySource);
}

/** Live reads that each ask the source of a symbol. A symbol without a source is not requested. */
function joinLiveReads(bySource: ReadonlyMap<string, LiveReads>): LiveReads {
  const names = [...bySource.keys()];
  const all = [...bySource.values()];
  const findReads = (symbol: string): LiveReads | undefined => {
    const source = findSource(symbol, names);
    return source === null ? undefined : bySource.get(source);
  };
  return {
    refreshTicks: async (symbol, to) => await findReads(symbol)?.refreshTicks(symbol, to),
    refreshOrderBook: async (symbol, fetchedAt) => await findReads(symbol)?.refreshOrderBook(symbol, fetchedAt),
    async refreshMarkets(polledAt) {
      await Promise.all(all.map((reads) => reads.refreshMarkets(polledAt)));
    },
    getCounts() {
      const counts = all.map((reads) => reads.getCounts());
      const sum = (name: LiveOutcome): number => counts.reduce((total, of) => total + of[name], 0);
      return Object.fromEntries(liveOutcomes.map((name) => [name, sum(name)])) as Record<LiveOutcome, number>;
    },
    async close() {
      await Promise.all(all.map((reads) => reads.close()));
    },
  };
}

const collectingJobs = ['nightly', 'markets', 'ticks', 'orderbook', 'backfill', 'import', 'live'];

/**
 * Requires that a job has collected into this archive here, unless it is new. A snapshot has no such record: what live
 * reads added to it would be missing in the archive it was taken from.
 */
function requireCollectedArchive({ state, layout }: Archive): void {
  if (state.generation() === 0) return;
  const list = collectingJobs.map((job) => `'${job}'`).join(', ');
  if (state.db.one(`select 1 from runs where job in (${list}) limit 1`) !== undefined) return;
  throw new UsageError(
    `service.live.enabled is on, but ${layout.root} is a snapshot or a copy without its state: no job has collected into it. Turn it off, or run oddslake markets once if this is the archive that you collect.`,
  );
}

/** Whether the journal has room. Without a publish it would grow without bound, and a live read never publishes. */
class JournalRoom {
  private readonly context: Context;
  private readonly db: Archive['state']['db'];
  private checkedMs = Number.NEGATIVE_INFINITY;
  private isFull = false;

  constructor(context: Context, { state }: Archive) {
    this.context = context;
    this.db = state.db;
  }

  hasRoom(): boolean {
    const { clock, settings, log } = this.context;
    const now = clock.monotonicMs();
    if (now - this.checkedMs < loadCheckMs) return !this.isFull;
    this.checkedMs = now;
    const wasFull = this.isFull;
    this.isFull =
      readJournalLoad(this.db) >= settings.publish.journalTicksMax || readPollBytes(this.db) >= pollBytesMax;
    if (this.isFull && !wasFull) log.warn({}, 'no live reads: the journal is full; run oddslake publish');
    return !this.isFull;
  }
}

/** Which routes of the upstream fail. */
class FailingRoutes {
  private readonly log: Context['log'];
  private readonly routes = new Set<Route>();

  constructor(log: Context['log']) {
    this.log = log;
  }

  /** Logs the first failure after a success, and the first success after it. */
  note(route: Route, error: UpstreamError | null): void {
    if (error === null ? this.routes.delete(route) : !this.routes.has(route)) {
      if (error === null) this.log.info({ route }, 'live reads work again');
      else this.log.warn({ route, reason: error.reason }, 'live reads fail; responses have what the archive has');
    }
    if (error !== null) this.routes.add(route);
  }

  toResult(route: Route, error: UpstreamError | null): FetchResult {
    // A status such as 404 shows that the upstream works.
    const isFailure = error !== null && error.failure !== 'refused';
    this.note(route, isFailure ? error : null);
    if (error === null) return 'fetched';
    if (error.failure === 'credential') return 'refused-credential';
    return isFailure ? 'down' : 'unknown';
  }
}

/** What a live read does in its run: the failure of the upstream, null, or `unknown` for a symbol that nobody has. */
type Fetch = (session: LiveSession, signal: AbortSignal) => Promise<UpstreamError | null | 'unknown'>;

/** The live reads of one source, to which the settings of its context apply: see `selectSource`. */
class SourceLiveReads implements LiveReads {
  private readonly context: Context;
  private readonly archive: Archive;
  private readonly maxAgeMs: number;
  private readonly stopping = new AbortController();
  private readonly runs: LiveRuns;
  private readonly flights: Readonly<Record<Route, SingleFlight>>;
  private readonly counts: Record<LiveOutcome, number>;
  private readonly behavior: ServerBehavior;
  private readonly journal: JournalRoom;
  private readonly failing: FailingRoutes;
  private readonly coveredTo = new LRUCache<string, number>(entriesMax(symbolsMax));

  constructor(outer: Context, archive: Archive) {
    const { settings, clock, log } = outer;
    const { maxAgeSeconds, timeoutMs, rateShare } = settings.service.live;
    this.context = { ...outer, signal: AbortSignal.any([outer.signal, this.stopping.signal]) };
    this.archive = archive;
    this.maxAgeMs = maxAgeSeconds * 1000;
    this.runs = openLiveRuns(this.context, archive);
    const flightsMax = Math.max(
      flightsMin,
      Math.ceil(settings.upstream.requestsPerSecond * rateShare * waitSecondsMax),
    );
    const openFlights = (): SingleFlight =>
      createSingleFlight({ maxAgeMs: this.maxAgeMs, timeoutMs, flightsMax }, clock);
    this.flights = { ticks: openFlights(), markets: openFlights(), orderbook: openFlights() };
    this.counts = Object.fromEntries(liveOutcomes.map((name) => [name, 0])) as Record<LiveOutcome, number>;
    this.behavior = readServerBehavior(archive, settings.sourceName);
    this.journal = new JournalRoom(this.context, archive);
    this.failing = new FailingRoutes(log);
  }

  async refreshTicks(symbol: string, to: number): Promise<void> {
    const nowMs = this.context.clock.nowMs();
    // Most requests need no more than this: the archive is fresh, or the window is in the past.
    const known = this.coveredTo.get(symbol) ?? null;
    const isDue = known === null || (known < to && isStale(known, nowMs, this.maxAgeMs));
    await this.refresh('ticks', symbol, isDue, () => {
      const { covered, planned } = planTicks(this.context, this.archive, symbol, to, nowMs);
      if (covered !== null) this.coveredTo.set(symbol, covered);
      return planned === null ? null : () => this.fetchPlannedTicks(planned);
    });
  }

  async refreshMarkets(polledAt: ReadonlyMap<string | null, number>): Promise<void> {
    const { settings, clock } = this.context;
    const isDue =
      settings.source.views.length > 0 &&
      isStale(polledAt.get(settings.sourceName) ?? null, clock.nowMs(), this.maxAgeMs);
    await this.refresh(
      'markets',
      '',
      isDue,
      () => () => this.fetch('markets', (session, signal) => fetchMarkets(this.context, session, signal)),
    );
  }

  async refreshOrderBook(symbol: string, fetchedAt: number | null): Promise<void> {
    const isDue = isStale(fetchedAt, this.context.clock.nowMs(), this.maxAgeMs);
    await this.refresh(
      'orderbook',
      symbol,
      isDue,
      () => () => this.fetch('orderbook', (session, signal) => fetchOrderBook(this.context, session, symbol, signal)),
    );
  }

  getCounts(): Readonly<Record<LiveOutcome, number>> {
    return { ...this.counts };
  }

  async close(): Promise<void> {
    this.stopping.abort(new Error('the service stops'));
    for (const route of routes) await this.flights[route].waitUntilIdle();
    await this.runs.close();
  }

  private async refresh(
    route: Route,
    key: string,
    isDue: boolean,
    prepare: () => (() => Promise<FetchResult>) | null,
  ): Promise<void> {
    const outcome = !isDue
      ? 'fresh'
      : this.journal.hasRoom()
        ? await this.flights[route].join(key, prepare)
        : 'crowded';
    this.counts[outcome]++;
  }

  private async fetchPlannedTicks(planned: PlannedTicks): Promise<FetchResult> {
    const { symbol } = planned.plan;
    const result = await this.fetch('ticks', (session, signal) =>
      fetchTicks(this.context, session, this.behavior, planned, signal),
    );
    const end = readSymbolCoverage(this.archive.state.db, symbol).at(-1)?.to;
    if (end !== undefined) this.coveredTo.set(symbol, end);
    return result;
  }

  /** Runs a fetch, with a limit of its time, in the run of live reads. */
  private async fetch(route: Route, fetch: Fetch): Promise<FetchResult> {
    const { clock, log, signal } = this.context;
    const limit = new AbortController();
    const done = new AbortController();
    clock.sleep(flightMsMax, done.signal).then(
      () => limit.abort(new UpstreamError(`live read of ${route}`, { failure: 'transient', reason: 'took too long' })),
      () => {},
    );
    try {
      return await this.runs.use(async (session) => {
        const result = await fetch(session, AbortSignal.any([signal, limit.signal]));
        return result === 'unknown' ? 'unknown' : this.failing.toResult(route, result);
      });
    } catch (error) {
      if (signal.aborted) return 'down';
      if (error instanceof UpstreamError) return this.failing.toResult(route, error);
      log.error({ err: error, route }, 'a live read failed');
      return 'down';
    } finally {
      done.abort();
    }
  }
}

/** What is known of how the upstream pages. */
function readServerBehavior({ state: { db } }: Archive, sourceName: string | null): ServerBehavior {
  const behavior = createServerBehavior(readKnownPageCaps<KnownPages>(db, sourceName));
  behavior.omitsTicks = readRecheckHistory(db, sourceName).caughtAt !== null;
  return behavior;
}

/** Plans the live read of a symbol's ticks. `planned` is null if none is needed; `covered`: the end of its coverage. */
function planTicks(
  context: Context,
  { state: { db } }: Archive,
  symbol: string,
  to: number,
  nowMs: number,
): {
  readonly covered: number | null;
  readonly planned: PlannedTicks | null;
} {
  const { poll, service } = context.settings;
  const stored = readSymbol(db, symbol);
  const published = stored ?? createUnknownSymbol(symbol, nowMs);
  const lost = readLostTicks(db, symbol);
  const coverage = readCoverageWithoutLost(db, symbol, nowMs + getFutureSkewMs(context), lost);
  const rules = getLingerRules(context);
  const overlapMs = poll.overlapMinutes * 60_000;
  const endsAt = computeLifetime(published, coverage, rules).to;
  const activeMs =
    published.firstTick === null || published.lastTick === null ? 0 : published.lastTick - published.firstTick;
  const tailFacts: TailFacts = {
    coveredTo: coverage.at(-1)?.to ?? null,
    opensAt: published.opensAt,
    // Only lists tell when a symbol ended. Its last ticks may come a little later.
    endsAt: published.listed ? endsAt + overlapMs : Number.POSITIVE_INFINITY,
    lostTo: lost.at(-1)?.to ?? null,
    ticksPerMs: activeMs > 0 ? published.ticks / activeMs : null,
  };
  const window = planTail(tailFacts, to, nowMs, {
    maxAgeMs: service.live.maxAgeSeconds * 1000,
    pageLimit: poll.pageLimit,
    overlapMs: Math.min(overlapMsMax, overlapMs),
  });
  const covered = tailFacts.coveredTo;
  if (window === null) return { covered, planned: null };
  const plan: SymbolPlan = { symbol, windows: [window], isFirst: coverage.length === 0 };
  const known = stored !== undefined;
  // As for a poll: if the service leaves ticks out, receiving the last known tick again does not prove that none follows.
  if (readRecheckHistory(db, context.settings.sourceName).caughtAt !== null)
    return {
      covered,
      planned: { plan: { ...plan, tail: { lastTick: null, knownTick: null } }, known },
    };
  const withTail = addTail(plan, includeJournaledTicks(db, published), coverage, { ...rules, overlapMs: 0 });
  return { covered, planned: { plan: withTail, known } };
}
