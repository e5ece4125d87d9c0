import { describe, expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { coverageOf } from '../../e2e/lake.ts';
import { type Decoded, readFiles } from '../../whole/truth.ts';
import { dayMs, fewFiles, hourMs } from './nights.ts';
import { scriptedLake } from './one-process.ts';
import type { MarketBody, Requested, Tick } from './scripted-service.ts';

// Nights that run so soon after midnight that ticks of the day before may still appear. The next night proves that day, so that it
// becomes complete with the second night after it, and never while it lacks a tick.

const minuteMs = 60_000;
const day0 = Date.UTC(2025, 5, 10);
const nightCount = 4;

/** A symbol of the service. Times are epoch ms. */
interface Listed {
  readonly opensAt?: number;
  readonly resolvedAt?: number;
  /** When a list first names it. */
  readonly listedFrom?: number;
  readonly ticks: readonly (Tick & { readonly visibleAt?: number })[];
}

const at = (...times: number[]) => times.map((t, i) => ({ t, p: ((i * 7) % 90) / 100 }));

function every(stepMs: number, from: number, to: number, offsetMs = 0): Tick[] {
  const times: number[] = [];
  for (let t = from + offsetMs; t < to; t += stepMs) times.push(t);
  return at(...times);
}

const begin = day0 - 9 * dayMs;
const end = day0 + nightCount * dayMs;
const evening = (hours: number, minutes: number): number => day0 + hours * hourMs + minutes * minuteMs;

/** Symbols with ticks every few hours up to their end. */
const ticking: Readonly<Record<string, Listed>> = {
  STEADY: { ticks: every(7 * minuteMs, begin, end, 1234) },
  HOURLY: { ticks: every(hourMs, begin, end, 17 * minuteMs) },
  BUSY: { opensAt: day0 - dayMs, ticks: every(2 * minuteMs, day0 - dayMs, end) },
  // These ticks appear after the night: after the last known tick, and before it.
  LATE: {
    ticks: [...every(hourMs, begin, end, 1000), { t: evening(23, 50), p: 0.5, visibleAt: evening(24, 40) }].sort(
      (a, b) => a.t - b.t,
    ),
  },
  BETWEEN: {
    ticks: [
      ...every(2 * hourMs, begin, evening(23, 0), 3000),
      { t: evening(23, 12), p: 0.25, visibleAt: evening(24, 11) },
      { t: evening(23, 30), p: 0.5, visibleAt: evening(24, 30) },
      ...at(evening(23, 55)),
      ...every(5 * hourMs, evening(26, 0), end),
    ],
  },
  ENDED: { resolvedAt: evening(21, 2), ticks: every(hourMs, begin, evening(21, 2)) },
  ENDING: { resolvedAt: evening(23, 30), ticks: [...every(hourMs, begin, evening(23, 0)), ...at(evening(23, 29))] },
};

/** Silences that nothing in so small an archive shows the service to pass: they stay inferred. */
const silent: Readonly<Record<string, Listed>> = {
  // Its last ticks are in the last hour of a day, and no tick follows for days.
  QUIET: { ticks: [...every(hourMs, begin, evening(23, 0)), ...at(evening(23, 20), evening(23, 40))] },
  ONE: { ticks: [...every(hourMs, begin, evening(22, 0)), ...at(evening(23, 40))] },
  FAR: { ticks: every(hourMs, begin, day0 - 3 * dayMs) },
  FIRST: { opensAt: evening(10, 0), ticks: [...at(evening(23, 30)), ...every(3 * hourMs, evening(25, 0), end)] },
  EMPTY: { opensAt: evening(10, 0), ticks: [] },
  BRIEF: {
    opensAt: evening(12, 0),
    resolvedAt: evening(15, 0),
    listedFrom: evening(12, 0),
    ticks: every(10 * minuteMs, evening(12, 5), evening(15, 0)),
  },
};

interface Paging {
  readonly cap: number;
  readonly keeps: 'earliest' | 'latest';
}

type ListedSymbols = Readonly<Record<string, Listed>>;

async function startService(world: ListedSymbols, { cap, keeps }: Paging) {
  const { box, output, contextAt } = await scriptedLake(day0, Object.keys(world), fewFiles);
  const visible = (symbol: string, from: number, to: number): Tick[] =>
    world[symbol]!.ticks.filter(
      ({ t, visibleAt = t }) => from <= t && t < Math.min(to, box.nowMs) && visibleAt <= box.nowMs,
    );
  box.script = {
    ticks(_, { symbol, from, to, limit }: Requested) {
      box.nowMs += 20;
      const all = visible(symbol, from, to);
      const most = Math.min(cap, limit);
      const page = (keeps === 'earliest' ? all.slice(0, most) : all.slice(-most)).map(({ t, p }) => ({ t, p }));
      return { symbol, ticks: page, count: page.length, from, to, generated_at: box.nowMs };
    },
    markets(honest) {
      box.nowMs += 20;
      const markets = honest.markets.flatMap((market: MarketBody) => {
        const { opensAt, resolvedAt, listedFrom = opensAt ?? 0 } = world[market.symbol]!;
        if (listedFrom > box.nowMs) return [];
        const isOver = resolvedAt !== undefined && resolvedAt <= box.nowMs;
        const times = { ...(opensAt && { opens_at: opensAt }), ...(isOver && { resolved_at: resolvedAt, outcome: 1 }) };
        return [{ ...market, ...times, is_active: !isOver }];
      });
      return { ...honest, markets, count: markets.length, total: markets.length, generated_at: box.nowMs };
    },
  };
  return { box, output, contextAt, visible };
}

/** Runs the nights at `minutes` after midnight. Calls `check` after each with the number of the night. */
async function runNights(
  world: ListedSymbols,
  minutes: number,
  paging: Paging,
  check: (n: number, lake: Lake) => void,
): Promise<void> {
  const { box, output, contextAt, visible } = await startService(world, paging);
  const decoded: Decoded = new Map();
  for (let n = 0; n < nightCount; n++) {
    box.requests = [];
    const context = await contextAt(day0 + n * dayMs + minutes * minuteMs);
    const summary = await nightly.run(context, { day: null });
    expect(summary.exit_code).toBe(0);
    const archive = openConfiguredArchive(context, false);
    const manifest = archive.readManifest();
    archive.close();
    const { ticks } = readFiles(output, manifest, decoded);
    check(n, {
      stateOf: (day) => manifest.days[new Date(day).toISOString().slice(0, 10)]?.state,
      lackingOn: (day) =>
        Object.keys(world).flatMap((symbol) =>
          visible(symbol, day, day + dayMs)
            .filter(({ t }) => ticks.get(symbol)?.has(t) !== true)
            .map(({ t }) => `${symbol} ${new Date(t).toISOString()}`),
        ),
      lackingInProven: () =>
        coverageOf(output)
          .filter(({ evidence }) => evidence !== 'inferred')
          .flatMap(({ symbol, from, to }) => visible(symbol, from, to).filter(({ t }) => !ticks.get(symbol)?.has(t))),
    });
  }
}

interface Lake {
  stateOf(day: number): string | undefined;
  /** The ticks of a day that the service shows now and that are not published. */
  lackingOn(day: number): string[];
  /** The ticks of proven windows that the service shows now and that are not published. */
  lackingInProven(): Tick[];
}

describe.for([
  { minutes: 10, cap: 500, keeps: 'earliest' },
  { minutes: 10, cap: 25, keeps: 'latest' },
  { minutes: 197, cap: 500, keeps: 'latest' },
] as const)('nights soon after midnight: %o', ({ minutes, ...paging }) => {
  test('complete each day with the second night after it, and not before all of its ticks are there', async () => {
    const states: string[] = [];
    await runNights(ticking, minutes, paging, (n, lake) => {
      for (let day = day0 - 3 * dayMs; day < day0 + n * dayMs; day += dayMs) {
        const state = lake.stateOf(day);
        if (state === 'complete') expect(lake.lackingOn(day)).toEqual([]);
        if (day >= day0 - dayMs && day <= day0 + (n - 1) * dayMs) states.push(`${n}: ${state}`);
      }
    });
    // Each night from the second one on completes the day before the last one, and leaves the earlier ones complete.
    expect(states).toEqual([
      ...['0: provisional'],
      ...['1: complete', '1: provisional'],
      ...['2: complete', '2: complete', '2: provisional'],
      ...['3: complete', '3: complete', '3: complete', '3: provisional'],
    ]);
  });

  test('prove nothing of a silence that no other symbol shows to be in reach, and lack no tick of what they prove', async () => {
    await runNights({ ...ticking, ...silent }, minutes, paging, (_, lake) => {
      expect(lake.stateOf(day0 - dayMs)).toBe('provisional');
      expect(lake.lackingInProven()).toEqual([]);
    });
  });
});
