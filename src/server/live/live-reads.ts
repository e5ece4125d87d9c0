import { LRUCache } from 'lru-cache';
import type { Archive } from '../../archive/archive.ts';
import { computeLifetime } from '../../archive/completeness/symbol-lifetime.ts';
import { createUnknownSymbol } from '../../archive/format/market.ts';
import { keepCollectedEnd } from '../../archive/journal/collected-ends.ts';
import {
  findInferredTails,
  readEvidenceSince,
  readKnownPageCaps,
  readOldestServedTick,
  readSymbolCoverage,
} from '../../archive/journal/coverage-store.ts';
import { readCoverageWithoutLost, readLostTicks } from '../../archive/journal/gap-records.ts';
import { appendTicks, includeJournaledTicks, type TickRecord } from '../../archive/journal/journal.ts';
import { appendBooks, readJournalLoad } from '../../archive/journal/journal-books.ts';
import { readPollBytes } from '../../archive/journal/journal-markets.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { readSymbol } from '../../archive/journal/symbols.ts';
import { UpstreamError } from '../../base/errors.ts';
import { collectBooks } from '../../collector/order-books/collect-books.ts';
import { collectTicks } from '../../collector/paging/collect-ticks.ts';
import { addTail, type SymbolPlan } from '../../collector/paging/plan.ts';
import { pollMarkets } from '../../collector/paging/poll-markets.ts';
import { createServerBehavior, type KnownPages } from '../../collector/paging/server-behavior.ts';
import { journalMarketsPoll } from '../../collector/steps/poll-steps.ts';
import type { Context } from '../../context/context.ts';
import { getFutureSkewMs, getLingerRules } from '../../context/open-configured.ts';
import { type LiveOutcome, type LiveReads, liveOutcomes } from '../http/service-context.ts';
import { type LiveSession, openLiveRuns } from './live-run.ts';
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
 * Opens the live reads of one source.
 * @param outer its settings are those of the source, see `selectSource`
 */
export function openSourceLiveReads(outer: Context, archive: Archive): LiveReads {
  const { settings, clock, log } = outer;
  const { sourceName } = settings;
  const { maxAgeSeconds, timeoutMs, rateShare } = settings.service.live;
  const maxAgeMs = maxAgeSeconds * 1000;
  const stopping = new AbortController();
  const signal = AbortSignal.any([outer.signal, stopping.signal]);
  const context: Context = { ...outer, signal };
  const runs = openLiveRuns(context, archive);
  const flightRules = {
    maxAgeMs,
    timeoutMs,
    flightsMax: Math.max(flightsMin, Math.ceil(settings.upstream.requestsPerSecond * rateShare * waitSecondsMax)),
  };
  const openFlights = (): SingleFlight => createSingleFlight(flightRules, clock);
  const flights = { ticks: openFlights(), markets: openFlights(), orderbook: openFlights() };
  const counts = Object.fromEntries(liveOutcomes.map((name) => [name, 0])) as Record<LiveOutcome, number>;
  const { db } = archive.state;
  const behavior = createServerBehavior(
    readOldestServedTick(db, sourceName),
    readKnownPageCaps<KnownPages>(db, sourceName),
  );
  // If the upstream omits ticks, all windows are compared with narrower ones.
  if (readRecheckHistory(db, sourceName).caughtAt !== null) behavior.contradictions = 1;
  const coveredTo = new LRUCache<string, number>({ max: symbolsMax });
  let checkedMs = Number.NEGATIVE_INFINITY;
  let isJournalFull = false;

  /** Without a publish the journal would grow without bound. The collector publishes; a live read never does. */
  function hasRoom(): boolean {
    const now = clock.monotonicMs();
    if (now - checkedMs < loadCheckMs) return !isJournalFull;
    checkedMs = now;
    const wasFull = isJournalFull;
    isJournalFull = readJournalLoad(db) >= settings.publish.journalTicksMax || readPollBytes(db) >= pollBytesMax;
    if (isJournalFull && !wasFull) log.warn({}, 'no live reads: the journal is full; run oddslake publish');
    return !isJournalFull;
  }

  const failing = new Set<Route>();
  /** Logs the first failure after a success, and the first success after it. */
  function noteResult(route: Route, error: UpstreamError | null): void {
    if (error === null ? failing.delete(route) : !failing.has(route)) {
      if (error === null) log.info({ route }, 'live reads work again');
      else log.warn({ route, reason: error.reason }, 'live reads fail; responses have what the archive has');
    }
    if (error !== null) failing.add(route);
  }

  function toResult(route: Route, error: UpstreamError | null): FetchResult {
    // A status such as 404 shows that the upstream works.
    const isFailure = error !== null && error.failure !== 'refused';
    noteResult(route, isFailure ? error : null);
    if (error === null) return 'fetched';
    if (error.failure === 'credential') return 'refused-credential';
    return isFailure ? 'down' : 'unknown';
  }

  async function fetchWith(
    route: Route,
    fetch: (session: LiveSession, signal: AbortSignal) => Promise<UpstreamError | null | 'unknown'>,
  ): Promise<FetchResult> {
    const limit = new AbortController();
    const done = new AbortController();
    clock.sleep(flightMsMax, done.signal).then(
      () => limit.abort(new UpstreamError(`live read of ${route}`, { failure: 'transient', reason: 'took too long' })),
      () => {},
    );
    try {
      return await runs.use(async (session) => {
        const result = await fetch(session, AbortSignal.any([signal, limit.signal]));
        if (result === 'unknown') return 'unknown';
        return toResult(route, result);
      });
    } catch (error) {
      if (signal.aborted) return 'down';
      if (error instanceof UpstreamError) return toResult(route, error);
      log.error({ err: error, route }, 'a live read failed');
      return 'down';
    } finally {
      done.abort();
    }
  }

  async function refresh(
    route: Route,
    key: string,
    isDue: boolean,
    prepare: () => (() => Promise<FetchResult>) | null,
  ): Promise<void> {
    const outcome = !isDue ? 'fresh' : hasRoom() ? await flights[route].join(key, prepare) : 'crowded';
    counts[outcome]++;
  }

  async function fetchTicks(
    { run, state, upstream, write }: LiveSession,
    plan: SymbolPlan,
    known: boolean,
    flightSignal: AbortSignal,
  ): Promise<UpstreamError | null | 'unknown'> {
    const { symbol, windows } = plan;
    let failure: UpstreamError | null = null;
    // A symbol that nobody has ticks of must not enter the archive because someone asked for it.
    let held: TickRecord[] | null = known ? null : [];
    const append = async (record: TickRecord): Promise<void> => {
      if (held !== null && record.ticks.t.length === 0) return void held.push(record);
      const records = [...(held ?? []), record];
      held = null;
      await write(() => {
        keepCollectedEnd(state.db, symbol, windows[0]!.from);
        appendTicks(state, records);
      });
    };
    const collected = await collectTicks(
      {
        upstream: {
          ticks: (query, ownSignal) =>
            upstream.ticks(query, ownSignal).then(
              (page) => {
                run.hasUpstreamResponded = true;
                return page;
              },
              (error: unknown) => {
                if (error instanceof UpstreamError) failure = error;
                throw error;
              },
            ),
        },
        clock,
        runId: run.id,
        origin: 'poll',
        behavior,
        signal: flightSignal,
        append,
        drain: async () => {},
        pageLimit: settings.poll.pageLimit,
        futureSkewMs: getFutureSkewMs(context),
        concurrency: 1,
        getCoverage: (name) => readSymbolCoverage(state.db, name),
        onPage() {
          run.pages++;
        },
        onSymbol() {},
      },
      [plan],
    );
    flightSignal.throwIfAborted();
    if (held !== null) return failure === null || collected.unknown.length > 0 ? 'unknown' : failure;
    return collected.failed.length > 0 ? failure : null;
  }

  return {
    async refreshTicks(symbol, to) {
      const nowMs = clock.nowMs();
      // Most requests need no more than this: the archive is fresh, or the window is in the past.
      const known = coveredTo.get(symbol) ?? null;
      const isDue = known === null || (known < to && isStale(known, nowMs, maxAgeMs));
      await refresh('ticks', symbol, isDue, () => {
        const { covered, planned } = planTicks(context, archive, symbol, to, nowMs);
        if (covered !== null) coveredTo.set(symbol, covered);
        if (planned === null) return null;
        return async () => {
          const result = await fetchWith('ticks', (session, flightSignal) =>
            fetchTicks(session, planned.plan, planned.known, flightSignal),
          );
          const end = readSymbolCoverage(db, symbol).at(-1)?.to;
          if (end !== undefined) coveredTo.set(symbol, end);
          return result;
        };
      });
    },
    async refreshMarkets(polledAt) {
      const { source, drops } = settings;
      const isDue = source.views.length > 0 && isStale(polledAt.get(sourceName) ?? null, clock.nowMs(), maxAgeMs);
      await refresh(
        'markets',
        '',
        isDue,
        () => () =>
          fetchWith('markets', async ({ run, state, upstream, write }, flightSignal) => {
            const poll = await pollMarkets({
              upstream,
              clock,
              views: source.views,
              signal: flightSignal,
              paths: source,
              futureSkewMs: getFutureSkewMs(context),
            });
            run.hasUpstreamResponded = true;
            await write(() => journalMarketsPoll(state, run, poll, drops.marketsShareMax));
            return null;
          }),
      );
    },
    async refreshOrderBook(symbol, fetchedAt) {
      const isDue = isStale(fetchedAt, clock.nowMs(), maxAgeMs);
      await refresh(
        'orderbook',
        symbol,
        isDue,
        () => () =>
          fetchWith('orderbook', async ({ run, state, upstream, write }, flightSignal) => {
            let failure: UpstreamError | null = null;
            const collected = await collectBooks(
              {
                upstream: {
                  orderbook: (query, ownSignal) =>
                    upstream.orderbook(query, ownSignal).catch((error: unknown) => {
                      if (error instanceof UpstreamError) failure = error;
                      throw error;
                    }),
                },
                clock,
                runId: run.id,
                concurrency: 1,
                futureSkewMs: getFutureSkewMs(context),
                signal: flightSignal,
                append: (record) => write(() => appendBooks(state, [record])),
                drain: async () => {},
                onResponse() {
                  run.hasUpstreamResponded = true;
                },
                onSymbol() {},
              },
              [symbol],
            );
            flightSignal.throwIfAborted();
            return collected.done.length > 0 ? null : failure;
          }),
      );
    },
    getCounts: () => ({ ...counts }),
    async close() {
      stopping.abort(new Error('the service stops'));
      for (const route of routes) await flights[route].waitUntilIdle();
      await runs.close();
    },
  };
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
  readonly planned: { readonly plan: SymbolPlan; readonly known: boolean } | null;
} {
  const { poll, service } = context.settings;
  const stored = readSymbol(db, symbol);
  const published = stored ?? createUnknownSymbol(symbol, nowMs);
  const lost = readLostTicks(db, symbol);
  const coverage = readCoverageWithoutLost(db, symbol, nowMs + getFutureSkewMs(context), lost);
  const rules = getLingerRules(context);
  const endsAt = computeLifetime(published, coverage, rules).to;
  const activeMs =
    published.firstTick === null || published.lastTick === null ? 0 : published.lastTick - published.firstTick;
  const tailFacts: TailFacts = {
    coveredTo: coverage.at(-1)?.to ?? null,
    opensAt: published.opensAt,
    // Only lists tell when a symbol ended. Its last ticks may come a little later.
    endsAt: published.listed ? endsAt + rules.settleMs : Number.POSITIVE_INFINITY,
    lostTo: lost.at(-1)?.to ?? null,
    ticksPerMs: activeMs > 0 ? published.ticks / activeMs : null,
  };
  const window = planTail(tailFacts, to, nowMs, {
    maxAgeMs: service.live.maxAgeSeconds * 1000,
    pageLimit: poll.pageLimit,
    overlapMs: Math.min(overlapMsMax, poll.overlapMinutes * 60_000),
  });
  const covered = tailFacts.coveredTo;
  if (window === null) return { covered, planned: null };
  const plan: SymbolPlan = { symbol, windows: [window], isFirst: coverage.length === 0 };
  const known = stored !== undefined;
  // As for a poll: if the service leaves ticks out, receiving the last known tick again does not prove that none follows.
  if (readRecheckHistory(db, context.settings.sourceName).caughtAt !== null)
    return {
      covered,
      planned: { plan: { ...plan, tail: { lastTick: null, knownTick: null, inferred: [], confirm: 'now' } }, known },
    };
  const inferred = findInferredTails(db, readEvidenceSince(db), symbol).get(symbol);
  const withTail = addTail(
    plan,
    includeJournaledTicks(db, published),
    coverage,
    inferred,
    { ...rules, overlapMs: 0 },
    poll.confirm,
  );
  return { covered, planned: { plan: withTail, known } };
}
