import { dayMs } from '../src/base/window.ts';
import { openMemoryArchive } from '../test/collector/paging/adversary/lake.ts';
import { collectNight } from '../test/collector/paging/adversary/night.ts';
import { createSeededRandom, type Random } from '../test/collector/paging/adversary/random.ts';
import { createAdversary, honest, type Row, type Traits } from '../test/collector/paging/adversary/server.ts';
import type { Bench } from './bench.ts';
import { atMost } from './goals.ts';
import type { Comparison, Report } from './results.ts';
import { spread } from './statistics.ts';

/**
 * Compares the number of requests of a one-day backfill with the minimum that can fetch and confirm the same ticks: for
 * a symbol with ticks, as many full pages as its ticks fill plus two confirmations; for a symbol without ticks, one
 * request. Runs in process against the simulated servers of the tests; `servers` lists how they truncate pages.
 */

const cap = 500;
const start = Date.UTC(2026, 6, 1);
const day = { from: start, to: start + dayMs };

const servers: readonly { readonly name: string; readonly goal: number; readonly traits: Partial<Traits> }[] = [
  { name: 'one cap, nothing stated', goal: 1.05, traits: { echoWindow: 'none' } },
  { name: 'one cap, the latest kept', goal: 1.05, traits: { truncate: 'latest' } },
  { name: 'states the ends where it cut', goal: 1.05, traits: { echoWindow: 'cut' } },
  { name: 'a cap that varies by up to 5 %', goal: 1.25, traits: { capVariation: 0.05 } },
  { name: 'a cap that varies by up to 60 %', goal: 1.75, traits: { capVariation: 0.6 } },
];

export async function benchPaging(bench: Bench, symbolCounts: readonly number[]): Promise<Report> {
  const comparisons: Comparison[] = [];
  for (const [symbols, { name, goal, traits }] of symbolCounts.flatMap((n) => servers.map((of) => [n, of] as const))) {
    const rounds = [];
    for (let n = 0; n < bench.runs; n++)
      rounds.push(await backfill(bench.seed + n, symbols, { ...honest, cap, ...traits }));
    const ratio = spread(rounds.map(({ requests, least }) => requests / least));
    const { requests, least } = rounds[0]!;
    bench.tell(`${symbols} symbols, ${name}: ${requests} requests, minimum ${least}`);
    comparisons.push({
      what: 'requests of a backfill',
      input: `${symbols} uneven symbols, cap of ${cap}: ${name}`,
      ours: `${requests}`,
      peer: { name: 'pages and two confirmations a symbol', figure: `${least}` },
      ratio,
      goal: atMost(goal),
      value: ratio.median,
      missing: null,
    });
  }
  return { comparisons, timings: [], failed: [] };
}

/** @throws Error if a tick is missing */
async function backfill(seed: number, symbols: number, traits: Traits): Promise<{ requests: number; least: number }> {
  const ticks = drawTicks(createSeededRandom(seed), symbols);
  const hand = { nowMs: day.to + dayMs };
  const lake = openMemoryArchive();
  const service = createAdversary(ticks, traits, hand, createSeededRandom(seed + 1_000_000));
  const plans = [...ticks.keys()].map((symbol) => ({ symbol, windows: [day], isFirst: false }));
  const { requests } = await collectNight(lake, service, hand, plans, 'backfill');
  for (const [symbol, rows] of ticks)
    if ((lake.times.get(symbol)?.size ?? 0) !== rows.length) throw new Error(`${symbol}: ticks are missing`);
  let least = 0;
  for (const rows of ticks.values()) least += rows.length === 0 ? 1 : Math.ceil(rows.length / cap) + 2;
  return { requests, least };
}

/** A fifth of the symbols has no ticks, most have less than a page, some fill up to ten. */
function drawTicks(random: Random, symbols: number): Map<string, Row[]> {
  return new Map(
    Array.from({ length: symbols }, (_, i) => {
      const count = random.pick([0, random.int(50), random.int(cap), random.int(cap), random.int(10 * cap)]);
      const times = new Set(Array.from({ length: count }, () => start + random.int(dayMs)));
      const rows = [...times].sort((a, b) => a - b).map((t) => ({ t, p: random.share(), seenFrom: 0 }));
      return [`S${i}`, rows];
    }),
  );
}
