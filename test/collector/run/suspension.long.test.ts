import { describe, expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as ticks } from '../../../jobs/ticks.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { readStatus } from '../../../src/archive/read/status.ts';
import type { Context } from '../../../src/context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../../src/context/open-configured.ts';
import { manifestOf, totalTicks } from '../../e2e/lake.ts';
import { at, fewFiles, hourMs, type Nights, startNights } from './nights.ts';
import { scriptedLake } from './one-process.ts';

async function statusAt(nights: Nights, nowMs: number): Promise<ReturnType<typeof readStatus>> {
  const context: Context = await nights.contextAt(nowMs);
  const archive = openConfiguredArchive(context, false);
  try {
    return readStatus(archive, toCompletenessRules(context.settings), nowMs);
  } finally {
    archive.close();
  }
}

/** Symbols of the sandbox that are listed during the whole test. */
async function lastingSymbols(nights: Nights): Promise<string[]> {
  const response = await fetch(`${nights.box().url}/api/v1/markets`, {
    headers: { authorization: 'Bearer sandbox-key' },
  });
  const { markets } = (await response.json()) as { markets: { closes_at: number; symbol?: string }[] };
  return markets.flatMap(({ symbol, closes_at }) => (symbol !== undefined && closes_at > at(9) ? [symbol] : []));
}

test('covers symbols completely after five failed runs of a five-minute schedule', async () => {
  const options = { seed: 4, markets: 12, ticksPerDay: 100, lifetimeDaysMax: 60 };
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
  expect(totalTicks(nights.output)).toBe(totalTicks(calm.output));
});

describe('a symbol that the service does not know', () => {
  const options = { seed: 9, markets: 5, ticksPerDay: 20, lifetimeDaysMax: 60 };

  test('is suspended after three nights, excluded from watermark and lag, and requested once a day', async () => {
    const nights = await startNights(options, fewFiles);
    expect((await nights.night(at(0))).exit_code).toBe(0);
    const [victim] = await lastingSymbols(nights);
    nights.box().set({ faultSymbols: { [victim!]: 404 } });
    for (const n of [1, 2])
      expect(await nights.night(at(n))).toMatchObject({ exit_code: 4, symbols: { suspended: 0 } });
    expect(manifestOf(nights.output).reached).toBe(at(0));
    expect(await nights.night(at(3))).toMatchObject({ exit_code: 4, symbols: { failed: 1, suspended: 1 } });
    // It has had ticks, so it is a failure of every night.
    const later = await nights.night(at(3) + hourMs);
    expect(later).toMatchObject({ exit_code: 4, symbols: { failed: 0, suspended: 1 } });
    expect(later.failures).toContainEqual(
      expect.objectContaining({ symbol: victim, reason: expect.stringMatching(/^suspended: .*although it had ticks/) }),
    );
    expect(later.warnings).toContainEqual(expect.stringContaining(victim!));
    expect(manifestOf(nights.output).reached).toBe(at(3) + hourMs);
    expect(await statusAt(nights, at(3) + hourMs)).toMatchObject({ lag_ms: 0, symbols: { suspended: 1 } });
    expect(await nights.night(at(4))).toMatchObject({ symbols: { failed: 1, suspended: 1 } });
    nights.box().set({ faultSymbols: {} });
    const back = await nights.night(at(5));
    expect(back, JSON.stringify(back.failures)).toMatchObject({ exit_code: 0, symbols: { failed: 0, suspended: 0 } });
  });

  test('without ticks is only a warning when it is suspended, if it is one of many', async () => {
    const nights = await startNights({ ...options, markets: 90 }, [...fewFiles, 'poll.page_limit=1000']);
    await nights.contextAt(at(0));
    const lasting = await lastingSymbols(nights);
    expect(lasting.length).toBeGreaterThan(2);
    nights.box().set({ faultSymbols: { [lasting[0]!]: 404 } });
    for (const n of [0, 1, 2]) expect((await nights.night(at(n))).exit_code).toBe(4);
    const after: Summary = await nights.night(at(3));
    expect(after, JSON.stringify(after.failures)).toMatchObject({ exit_code: 0, symbols: { suspended: 1 } });
    expect(after.warnings).toContainEqual(expect.stringContaining(lasting[0]!));
    // A second one exceeds 1 %.
    nights.box().set({ faultSymbols: { [lasting[0]!]: 404, [lasting[1]!]: 404 } });
    for (const n of [4, 5, 6]) expect((await nights.night(at(n))).exit_code).toBe(4);
    const two = await nights.night(at(7));
    expect(two.failures).toContainEqual(
      expect.objectContaining({ symbol: null, reason: expect.stringContaining('more than 1 %') }),
    );
  });

  test('is requested immediately by name, and then fails by name', async () => {
    const nights = await startNights(options, [...fewFiles, 'source.suspend_after_days=1']);
    await nights.night(at(0));
    const [victim] = await lastingSymbols(nights);
    nights.box().set({ faultSymbols: { [victim!]: 404 } });
    expect(await nights.night(at(1))).toMatchObject({ symbols: { suspended: 1 } });
    const pollVictim = async () => ticks.run(await nights.contextAt(at(1) + hourMs), { symbols: [victim!] });
    expect(await pollVictim()).toMatchObject({ exit_code: 4, symbols: { planned: 1, failed: 1 } });
    nights.box().set({ faultSymbols: {} });
    expect(await pollVictim()).toMatchObject({ exit_code: 0, symbols: { done: 1, suspended: 0 } });
  });
});

test('a suspended symbol that answers once and then breaks off is a failure of that night', async () => {
  const set = [...fewFiles, 'source.suspend_after_days=1', 'poll.recheck_share=0', 'upstream.retry_attempts_max=1'];
  const { box, contextAt } = await scriptedLake(at(0), ['ONE', 'TWO'], set);
  const night = async (n: number) => nightly.run(await contextAt(at(n)), { day: null });
  let known = Number.POSITIVE_INFINITY;
  let failure = 404;
  box.script.ticks = (honest, { symbol }) =>
    symbol === 'TWO' || known-- > 0 ? honest : (response) => void response.writeHead(failure).end('{}');
  expect((await night(0)).exit_code).toBe(0);
  known = 0;
  for (const n of [1, 2]) expect((await night(n)).exit_code).toBe(4);
  expect((await night(3)).symbols.suspended).toBe(1);
  [known, failure] = [1, 500];
  const broken = await night(4);
  expect(broken, JSON.stringify(broken)).toMatchObject({ exit_code: 4, symbols: { failed: 1, suspended: 0 } });
  expect(broken.failures).toContainEqual(expect.objectContaining({ symbol: 'ONE' }));
});

test('suspends no symbol if the service knows none of them', async () => {
  const nights = await startNights({ seed: 9, markets: 5, ticksPerDay: 20, lifetimeDaysMax: 60 }, fewFiles);
  await nights.night(at(0));
  for (let n = 1; n <= 5; n++) {
    // Including symbols that are new since the previous night.
    await nights.contextAt(at(n));
    const all = nights.box().symbols();
    nights.box().set({ faultSymbols: Object.fromEntries(all.map((symbol) => [symbol, 404])) });
    expect(await nights.night(at(n))).toMatchObject({ exit_code: 4, symbols: { suspended: 0 } });
  }
});
