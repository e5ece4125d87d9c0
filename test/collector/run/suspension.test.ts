import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { job as ticks } from '../../../jobs/ticks.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import { readStatus } from '../../../src/archive/read/status.ts';
import type { Summary } from '../../../src/collector/run/summary.ts';
import type { Context } from '../../../src/context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../../src/context/open-configured.ts';
import { dayMs, fewFiles, firstNight, hourMs, type Nights, startNights } from './nights.ts';

const at = (n: number): number => firstNight + n * dayMs;
const manifestOf = (output: string) => JSON.parse(readFileSync(join(output, 'manifest.json'), 'utf8')) as Manifest;

async function statusAt(nights: Nights, nowMs: number): Promise<ReturnType<typeof readStatus>> {
  const context: Context = await nights.contextAt(nowMs);
  const archive = openConfiguredArchive(context, false);
  try {
    return readStatus(archive, toCompletenessRules(context.settings), nowMs);
  } finally {
    archive.close();
  }
}

/** Symbols of the sandbox that stay on the lists for all of the test. */
async function lastingSymbols(nights: Nights): Promise<string[]> {
  const answer = await fetch(`${nights.box().url}/api/v1/markets`, {
    headers: { authorization: 'Bearer sandbox-key' },
  });
  const { markets } = (await answer.json()) as { markets: { closes_at: number; symbol?: string }[] };
  return markets.flatMap(({ symbol, closes_at }) => (symbol !== undefined && closes_at > at(9) ? [symbol] : []));
}

const ticksThere = (nights: Nights): number =>
  manifestOf(nights.output).datasets.ticks.files.reduce((sum, { rows }) => sum + rows, 0);

test('symbols that answer 500 for five runs of a five-minute schedule are had whole once they come back', async () => {
  const options = { seed: 4, markets: 12, ticksPerDay: 100, lifeDaysMax: 60 };
  const nights = await startNights(options, fewFiles);
  const calm = await startNights(options, fewFiles);
  await nights.contextAt(at(0));
  const half = nights
    .box()
    .symbols()
    .filter((_, i) => i % 2 === 0);
  nights.box().set({ faultSymbols: Object.fromEntries(half.map((symbol) => [symbol, 500])) });
  const few = ['upstream.retry_attempts_max=1'];
  for (let run = 0; run < 5; run++) {
    const summary = await nights.night(at(0) + run * 5 * 60_000, ...few);
    expect(summary, JSON.stringify(summary.failures)).toMatchObject({ exit_code: 4, symbols: { suspended: 0 } });
    expect(summary.symbols.failed).toBeGreaterThan(3);
  }
  nights.box().set({ faultSymbols: {} });
  const after = await nights.night(at(0) + 25 * 60_000);
  expect(after, JSON.stringify(after.failures)).toMatchObject({ exit_code: 0, symbols: { failed: 0, suspended: 0 } });
  for (const run of [0, 5]) await calm.night(at(0) + run * 5 * 60_000);
  expect(ticksThere(nights)).toBe(ticksThere(calm));
});

describe('a symbol that the service does not know', () => {
  const options = { seed: 9, markets: 5, ticksPerDay: 20, lifeDaysMax: 60 };

  test('is suspended after three nights, holds up neither watermark nor lag then, and is tried once a day', async () => {
    const nights = await startNights(options, fewFiles);
    expect((await nights.night(at(0))).exit_code).toBe(0);
    const [victim] = await lastingSymbols(nights);
    nights.box().set({ faultSymbols: { [victim!]: 404 } });
    for (const n of [1, 2])
      expect(await nights.night(at(n))).toMatchObject({ exit_code: 4, symbols: { suspended: 0 } });
    expect(manifestOf(nights.output).reached).toBe(at(0));
    expect(await nights.night(at(3))).toMatchObject({ exit_code: 4, symbols: { failed: 1, suspended: 1 } });
    // It had shown ticks before: it stays a failure of every night.
    const later = await nights.night(at(3) + hourMs);
    expect(later).toMatchObject({ exit_code: 4, symbols: { failed: 0, suspended: 1 } });
    expect(later.failures).toContainEqual(
      expect.objectContaining({ symbol: victim, reason: expect.stringMatching(/^suspended: .*had shown ticks/) }),
    );
    expect(later.warnings).toContainEqual(expect.stringContaining(victim!));
    expect(manifestOf(nights.output).reached).toBe(at(3) + hourMs);
    expect(await statusAt(nights, at(3) + hourMs)).toMatchObject({ lag_ms: 0, symbols: { suspended: 1 } });
    expect(await nights.night(at(4))).toMatchObject({ symbols: { failed: 1, suspended: 1 } });
    nights.box().set({ faultSymbols: {} });
    const back = await nights.night(at(5));
    expect(back, JSON.stringify(back.failures)).toMatchObject({ exit_code: 0, symbols: { failed: 0, suspended: 0 } });
  });

  test('and never had ticks is a warning once it is suspended, where it is one of many', async () => {
    const nights = await startNights({ ...options, markets: 90 }, [...fewFiles, 'poll.page_limit=1000']);
    await nights.contextAt(at(0));
    const lasting = await lastingSymbols(nights);
    expect(lasting.length).toBeGreaterThan(2);
    nights.box().set({ faultSymbols: { [lasting[0]!]: 404 } });
    for (const n of [0, 1, 2]) expect((await nights.night(at(n))).exit_code).toBe(4);
    const after: Summary = await nights.night(at(3));
    expect(after, JSON.stringify(after.failures)).toMatchObject({ exit_code: 0, symbols: { suspended: 1 } });
    expect(after.warnings).toContainEqual(expect.stringContaining(lasting[0]!));
    // A second one makes more than one in a hundred.
    nights.box().set({ faultSymbols: { [lasting[0]!]: 404, [lasting[1]!]: 404 } });
    for (const n of [4, 5, 6]) expect((await nights.night(at(n))).exit_code).toBe(4);
    const two = await nights.night(at(7));
    expect(two.failures).toContainEqual(
      expect.objectContaining({ symbol: null, reason: expect.stringContaining('more than 1 %') }),
    );
  });

  test('is asked for at once by name, and fails then by name', async () => {
    const nights = await startNights(options, [...fewFiles, 'source.suspend_after_days=1']);
    await nights.night(at(0));
    const [victim] = await lastingSymbols(nights);
    nights.box().set({ faultSymbols: { [victim!]: 404 } });
    expect(await nights.night(at(1))).toMatchObject({ symbols: { suspended: 1 } });
    const asked = async () => ticks.run(await nights.contextAt(at(1) + hourMs), { symbols: [victim!] });
    expect(await asked()).toMatchObject({ exit_code: 4, symbols: { planned: 1, failed: 1 } });
    nights.box().set({ faultSymbols: {} });
    expect(await asked()).toMatchObject({ exit_code: 0, symbols: { done: 1, suspended: 0 } });
  });
});

test('a service that knows no symbol at all suspends none of them', async () => {
  const nights = await startNights({ seed: 9, markets: 5, ticksPerDay: 20, lifeDaysMax: 60 }, fewFiles);
  await nights.night(at(0));
  for (let n = 1; n <= 5; n++) {
    // Those too that are new since the night before.
    await nights.contextAt(at(n));
    const all = nights.box().symbols();
    nights.box().set({ faultSymbols: Object.fromEntries(all.map((symbol) => [symbol, 404])) });
    expect(await nights.night(at(n))).toMatchObject({ exit_code: 4, symbols: { suspended: 0 } });
  }
});
