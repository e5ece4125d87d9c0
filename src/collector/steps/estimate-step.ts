import { computeLifetime } from '../../archive/completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { readKnownPageCaps, readSymbolCoverage } from '../../archive/journal/coverage-store.ts';
import type { Database } from '../../archive/journal/database.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { readLatestSummaries } from '../../archive/journal/runs.ts';
import { readAllSymbols } from '../../archive/journal/symbol-store.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import { minuteMs, type Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { getCollectorShare, getLingerRules } from '../../context/open-configured.ts';
import { computeTickDensity, estimateRequests, type PlanDensity } from '../paging/estimate-requests.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import type { KnownPages } from '../paging/server-behavior.ts';
import type { Run } from '../run/run.ts';

/** What the plans of a job will request. */
export interface FetchEstimate {
  readonly symbols: number;
  readonly windows: number;
  readonly requests: number;
  readonly ticks: number;
  /** Symbols of which nothing is known. Each of their windows counts as one request. */
  readonly unknownSymbols: number;
  /** Symbols with the same windows. */
  readonly groups: readonly WindowGroup[];
}

/** What a dry run of a backfill shows. */
export interface BackfillPlan extends FetchEstimate {
  /** The source, of an archive's several; null: the only service. */
  readonly source: string | null;
  readonly plans: readonly SymbolPlan[];
  readonly rate: ExpectedRate;
  /** Whether no symbol is known, so that the market lists would be polled first. */
  readonly isFirst: boolean;
}

/** Symbols whose windows are equal to the minute. */
export interface WindowGroup {
  /** The windows of the first symbol. */
  readonly windows: readonly Window[];
  readonly symbols: readonly string[];
  readonly requests: number;
}

/**
 * Estimates what fetching these plans takes, from the ticks per hour that are published of each symbol, and from the pages
 * that the server has sent so far. A symbol without coverage is expected to have as many ticks as the others of its category
 * and venue have on average, or else as all others.
 * @param facts of the symbols of the plans
 * @param isNight requests in pieces what remains unproven, where answers reach less far
 */
export function estimatePlans(
  run: Pick<Run, 'context' | 'archive' | 'source'>,
  plans: readonly SymbolPlan[],
  facts: ReadonlyMap<string, SymbolFacts>,
  isNight: boolean,
): FetchEstimate {
  const { context, archive, source } = run;
  const { db } = archive.state;
  const rules = getLingerRules(context);
  const measured = new Map(
    plans.map(({ symbol }) => {
      const known = facts.get(symbol)!;
      const coverage = readSymbolCoverage(db, symbol);
      const lifetime = computeLifetime(known, coverage, rules);
      const ticksPerMs = computeTickDensity(known.ticks, known, coverage, {
        from: known.opensAt ?? Number.NEGATIVE_INFINITY,
        to: lifetime.to,
      });
      // Before the first sight of a symbol whose opening is unknown there may be ticks.
      return [symbol, { ticksPerMs, lifetime: { from: known.opensAt ?? Number.NEGATIVE_INFINITY, to: lifetime.to } }];
    }),
  );
  const getSimilar = [...measured.values()].some(({ ticksPerMs }) => ticksPerMs === null)
    ? createSimilarDensity(run)
    : () => null;
  const densities: PlanDensity[] = plans.map((plan) => {
    const { ticksPerMs, lifetime } = measured.get(plan.symbol)!;
    return { plan, lifetime, ticksPerMs: ticksPerMs ?? getSimilar(facts.get(plan.symbol)!) };
  });
  const { requests, byPlan, ticks, unknownPlans } = estimateRequests(
    densities,
    {
      known: readKnownPageCaps<KnownPages>(db, source),
      pageLimit: context.settings.poll.pageLimit,
      omitsTicks: readRecheckHistory(db, source).caughtAt !== null,
      hasPieces: isNight && context.settings.poll.pieces,
      isMirror: context.settings.source.mirror,
    },
    run.context.clock.nowMs(),
  );
  return {
    symbols: plans.length,
    windows: plans.reduce((sum, plan) => sum + plan.windows.length, 0),
    requests,
    ticks,
    unknownSymbols: unknownPlans,
    groups: groupPlans(plans, byPlan),
  };
}

/** Returns the mean ticks per ms of known symbols like this one; null if there are none. */
function createSimilarDensity({
  context,
  archive,
  source,
}: Pick<Run, 'context' | 'archive' | 'source'>): (facts: SymbolFacts) => number | null {
  const { db } = archive.state;
  const rules = getLingerRules(context);
  const sums = new Map<string, { density: number; count: number }>();
  for (const facts of readAllSymbols(db, source)) {
    const coverage = readSymbolCoverage(db, facts.symbol);
    const { to } = computeLifetime(facts, coverage, rules);
    const from = facts.opensAt ?? Number.NEGATIVE_INFINITY;
    const density = computeTickDensity(facts.ticks, facts, coverage, { from, to });
    if (density === null) continue;
    for (const key of toKeys(facts)) {
      const sum = sums.get(key) ?? { density: 0, count: 0 };
      sums.set(key, { density: sum.density + density, count: sum.count + 1 });
    }
  }
  return (facts) => {
    const sum = toKeys(facts)
      .map((key) => sums.get(key))
      .find((found) => found !== undefined);
    return sum === undefined ? null : sum.density / sum.count;
  };
}

/** From the most to the least similar symbols. */
const toKeys = ({ source, category }: SymbolFacts): string[] => [JSON.stringify([source, category]), ''];

/** Groups equal windows, those of the most requests first. Polls of one night end within seconds of each other. */
function groupPlans(plans: readonly SymbolPlan[], requests: readonly number[]): WindowGroup[] {
  const toMinute = (t: number): number => Math.floor(t / minuteMs);
  const groups = new Map<string, { windows: readonly Window[]; symbols: string[]; requests: number }>();
  plans.forEach(({ symbol, windows }, i) => {
    const key = windows.map(({ from, to }) => `${toMinute(from)} ${toMinute(to)}`).join();
    const group = groups.get(key) ?? { windows, symbols: [], requests: 0 };
    groups.set(key, group);
    group.symbols.push(symbol);
    group.requests += requests[i]!;
  });
  return [...groups.values()].sort((a, b) => b.requests - a.requests);
}

/** How many requests start per second. */
export interface ExpectedRate {
  /** Requests per second. */
  readonly perSecond: number;
  /** Whether the service was slower in the last long run than the configured rate allows. */
  readonly isMeasured: boolean;
}

/** Number of requests below which a run tells nothing about the speed of the service. */
const measuredRequestsMin = 50;
/** If a run used more of the allowed rate, the rate was what limited it. */
const limitedShareMin = 0.8;
const runsReadMax = 20;

/**
 * The request rate that a job of this source reaches: the configured one, or that of the last long run if the service
 * responded too slowly for it.
 */
export function expectRequestRate({ settings, clock }: Context, db: Database, source: string | null): ExpectedRate {
  const configured = settings.upstream.requestsPerSecond * getCollectorShare(settings);
  for (const summary of readLatestSummaries(db, source, runsReadMax, clock.nowMs() + clockAheadMsMax)) {
    const run = tryParseSummary(summary);
    if (run?.rate === undefined || run.requests < measuredRequestsMin) continue;
    const measured = run.rate.used * run.rate.allowed_per_second;
    if (run.rate.used >= limitedShareMin || measured >= configured) break;
    return { perSecond: Math.max(measured, configured / 1000), isMeasured: true };
  }
  return { perSecond: configured, isMeasured: false };
}

type RateSummary = Pick<Summary, 'requests' | 'rate'>;

function tryParseSummary(text: string): RateSummary | null {
  try {
    return JSON.parse(text) as RateSummary | null;
  } catch {
    return null;
  }
}

/** Seconds that requests take at a rate. The first one starts at once. */
export const computeExpectedSeconds = (requests: number, { perSecond }: ExpectedRate): number =>
  Math.max(0, requests - 1) / perSecond;
