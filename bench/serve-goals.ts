import { atLeast, atMost, type Goal, under } from './goals.ts';
import type { PeerServerName } from './peers.ts';
import type { LoadResult } from './request-load.ts';
import { type Comparison, countText, type LoadTiming } from './results.ts';
import { median, pairRatios } from './statistics.ts';

/** The goals of the HTTP service, judged by its measured loads. Pure. */

export type ServerName = 'oddslake' | PeerServerName | 'generator';

/** `repeated` always sends the same request, `fresh` none twice. */
const loadNames = {
  cold: '/ticks, cold, 1 connection',
  warm: '/ticks, warm, 16 connections',
  coldBusy: '/ticks, cold, 1 connection, busy machine',
  warmBusy: '/ticks, warm, 16 connections, busy machine',
  marketsRepeated: 'historical/markets?limit=100, repeated',
  marketsFresh: 'historical/markets?limit=100, fresh',
  candlesRepeated: 'historical/candles?interval=4h&symbol=, repeated',
  candlesFresh: 'historical/candles?interval=4h&symbol=, fresh',
  ticksFresh: 'historical/ticks?symbol=, fresh',
} as const;

export type LoadName = keyof typeof loadNames;

/** Results by load and server, one for each round. */
export type Measurements = ReadonlyMap<LoadName, ReadonlyMap<ServerName, readonly LoadResult[]>>;

const serverTitles: Readonly<Record<ServerName, string>> = {
  oddslake: 'oddslake',
  postgres: 'PostgreSQL behind FastAPI',
  duckdb: 'DuckDB behind FastAPI',
  generator: 'a server of one constant response',
};

const rateGoals: readonly (readonly [LoadName, number])[] = [
  ['warm', 5000],
  ['marketsRepeated', 1000],
  ['candlesRepeated', 1000],
  ['marketsFresh', 200],
  ['candlesFresh', 200],
  ['ticksFresh', 500],
];
const p99 = under(10, 'ms');
const duckdbTimes = 10;
/** A load generator that is not much faster than the service measures itself. */
const generatorTimes = 2;

const rateOf = (of: readonly LoadResult[]): number[] => of.map(({ requestsPerSecond }) => requestsPerSecond);
const p99Of = (of: readonly LoadResult[]): number[] => of.map(({ p99Ms }) => p99Ms);
const formatRate = (values: readonly number[]): string => `${countText(median(values))}/s`;
const formatP99 = (values: readonly number[]): string => `${median(values).toFixed(2)} ms`;

/** @param missing why a server has no results */
export function compareServers(
  input: string,
  measurements: Measurements,
  missing: ReadonlyMap<ServerName, string>,
): Comparison[] {
  const find = (load: LoadName, server: ServerName): readonly LoadResult[] => measurements.get(load)?.get(server) ?? [];

  const judge = (what: string, goal: Goal, load: LoadName, valuesOf: typeof rateOf, format: typeof formatRate) => {
    const values = valuesOf(find(load, 'oddslake'));
    const isMissing = values.length === 0;
    return {
      what,
      input,
      ours: isMissing ? '–' : format(values),
      peer: null,
      ratio: null,
      goal,
      value: isMissing ? null : median(values),
      missing: isMissing ? (missing.get('oddslake') ?? 'no result') : null,
    };
  };

  /** @param worst judge the highest ratio of a round, not the median */
  const versus = (
    what: string,
    goal: Goal,
    load: LoadName,
    peer: ServerName,
    valuesOf: typeof rateOf,
    format: typeof formatRate,
    options: { readonly isWorstJudged?: boolean; readonly isInverse?: boolean } = {},
  ): Comparison => {
    const [ours, theirs] = [valuesOf(find(load, 'oddslake')), valuesOf(find(load, peer))];
    const isComplete = ours.length > 0 && ours.length === theirs.length;
    const ratio = !isComplete ? null : options.isInverse === true ? pairRatios(theirs, ours) : pairRatios(ours, theirs);
    return {
      what,
      input,
      ours: ours.length === 0 ? '–' : format(ours),
      peer: { name: serverTitles[peer], figure: theirs.length === 0 ? '–' : format(theirs) },
      ratio,
      goal,
      value: ratio === null ? null : options.isWorstJudged === true ? ratio.max : ratio.median,
      missing: isComplete ? null : (missing.get('oddslake') ?? missing.get(peer) ?? 'no result'),
    };
  };

  const never = atMost(1, 'at most 1 in every round');
  const name = (load: LoadName, what: string): string => `${loadNames[load]}: ${what}`;
  const rates = rateGoals.map(([load, rate]) => {
    const goal = atLeast(rate, `${countText(rate)}/s`);
    return judge(name(load, 'requests'), goal, load, rateOf, formatRate);
  });
  const latencies = (['warm', 'cold'] as const).map((load) => judge(name(load, 'p99'), p99, load, p99Of, formatP99));
  return [
    ...rates,
    ...latencies,
    ...(['warmBusy', 'coldBusy'] as const).map((load) =>
      versus(name(load, 'p99'), never, load, 'postgres', p99Of, formatP99, { isWorstJudged: true }),
    ),
    ...(['warm', 'cold'] as const).map((load) =>
      versus(name(load, 'requests'), atLeast(duckdbTimes), load, 'duckdb', rateOf, formatRate),
    ),
    versus('load generator: requests', atLeast(generatorTimes), 'warm', 'generator', rateOf, formatRate, {
      isInverse: true,
    }),
  ];
}

/** Medians over the rounds. */
export const summariseLoads = (measurements: Measurements): LoadTiming[] =>
  [...measurements].flatMap(([load, byServer]) =>
    [...byServer].map(([server, results]) => ({
      what: loadNames[load],
      server: serverTitles[server],
      medians: {
        requestsPerSecond: median(rateOf(results)),
        p50Ms: median(results.map(({ p50Ms }) => p50Ms)),
        p99Ms: median(p99Of(results)),
        cpuMsPerRequest: medianOrNaN(results.map(({ cpuMsPerRequest }) => cpuMsPerRequest)),
        clientCpuMsPerRequest: median(results.map(({ clientCpuMsPerRequest }) => clientCpuMsPerRequest)),
        bytes: median(results.map(({ bytes }) => bytes)),
      },
    })),
  );

const medianOrNaN = (values: readonly number[]): number =>
  values.every((value) => Number.isFinite(value)) ? median(values) : Number.NaN;
