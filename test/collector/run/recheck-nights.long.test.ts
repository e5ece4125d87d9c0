import { describe, expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { readAllPublishedCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { readRecheckHistory } from '../../../src/archive/journal/nightly-memory.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { dayMs } from '../../../src/base/window.ts';
import { coverageOf, ticksOf } from '../../e2e/lake.ts';
import { withState } from '../../harness/with-state.ts';
import { at, fewFiles, firstNight, hourMs, startNights } from './nights.ts';
import { scriptedLake } from './one-process.ts';

const input = { seed: 5, markets: 12, ticksPerDay: 150, lifetimeDaysMax: 30 };

describe('late ticks', () => {
  test('after the overlap are found, and the overlap grows to include them', async () => {
    const nights = await startNights({ ...input, lateShare: 0.3, lateDelayMsMax: 6 * hourMs }, fewFiles);
    const summaries: Summary[] = [];
    for (let n = 0; n < 6; n++) summaries.push(await nights.night(at(n)));
    const { lateness_ms, overlap_ms } = summaries.at(-1)!.rechecks!;
    // The maximum lateness of the service.
    expect(lateness_ms).toBeGreaterThan(3 * hourMs);
    expect(lateness_ms).toBeLessThanOrEqual(6 * hourMs);
    expect(overlap_ms).toBe(Math.ceil(1.5 * lateness_ms));
    expect(summaries.map(({ exit_code }) => exit_code)).toEqual(summaries.map(() => 0));
    expect(withState(nights.output, readRecheckHistory).caughtAt).toBeNull();
  });

  test('are searched at most overlap_minutes_max back', async () => {
    const nights = await startNights({ ...input, lateShare: 0.3, lateDelayMsMax: 6 * hourMs }, [
      ...fewFiles,
      'poll.overlap_minutes_max=70',
    ]);
    let last: Summary | undefined;
    for (let n = 0; n < 4; n++) last = await nights.night(at(n));
    expect(last!.rechecks!.overlap_ms).toBe(70 * 60_000);
  });
});

test('recheck_share sets the share of repeated requests, and 0 disables rechecks', async () => {
  const requests: number[] = [];
  for (const share of [0, 0.01, 0.5]) {
    const nights = await startNights(input, [...fewFiles, `poll.recheck_share=${share}`]);
    await nights.night(at(0));
    const { rechecks, requests: sent } = await nights.night(at(1));
    const windows = share === 0 ? 0 : Math.max(4, Math.ceil(share * (sent - rechecks!.requests)));
    expect(rechecks!.windows).toBe(windows);
    requests.push(sent - rechecks!.requests);
    if (share === 0) expect(rechecks!.requests).toBe(0);
  }
  expect(new Set(requests).size).toBe(1);
});

test('a clean recheck changes nothing, and a repeated night makes none', async () => {
  const [without, checked] = await Promise.all(
    // With this lookback, nights do not fetch again what the service, whose clock stands still, cannot prove.
    [0, 1].map((share) =>
      startNights(input, [...fewFiles, `poll.recheck_share=${share}`, 'source.first_lookback_days=0']),
    ),
  );
  for (const nights of [without!, checked!]) {
    await nights.night(at(0));
    await nights.night(at(1));
  }
  expect(ticksOf(checked!.output)).toEqual(ticksOf(without!.output));
  expect(withState(checked!.output, readAllPublishedCoverage)).toEqual(
    withState(without!.output, readAllPublishedCoverage),
  );
  const again = await nightly.run(await checked!.contextAt(at(1) + hourMs), { day: firstNight - (firstNight % dayMs) });
  expect(again.rechecks).toMatchObject({ requests: 0, windows: 0 });
  expect(ticksOf(checked!.output)).toEqual(ticksOf(without!.output));
  expect(withState(checked!.output, readAllPublishedCoverage)).toEqual(
    withState(without!.output, readAllPublishedCoverage),
  );
});

describe('a service that answers wide windows with a coarser grid', () => {
  test('is detected: its coverage counts as inferred until it is read again completely', async () => {
    const symbols = ['A', 'B', 'C'];
    const { output, box, contextAt } = await scriptedLake(firstNight, symbols, [
      ...fewFiles,
      'source.first_lookback_days=3',
    ]);
    box.script = {
      ticks(honest, request, _, truth) {
        box.nowMs += 5;
        const isWide = request.to - request.from > 6 * hourMs;
        const ticks = truth(request.from, request.to).filter(
          ({ t }) => !isWide || Math.floor(t / (7 * 60_000)) % 2 === 0,
        );
        return { ...honest, ticks, count: ticks.length, from: request.from, to: request.to, generated_at: box.nowMs };
      },
    };
    const summaries: Summary[] = [];
    let caughtIn = -1;
    for (let n = 0; n < 8; n++) {
      summaries.push(await nightly.run(await contextAt(at(n)), { day: null }));
      const { caughtAt } = withState(output, readRecheckHistory);
      if (caughtIn < 0 && caughtAt !== null) caughtIn = n;
    }
    expect(caughtIn).toBeGreaterThanOrEqual(0);
    const caught = summaries[caughtIn]!;
    expect(caught.rechecks!.contradicted).toBeGreaterThan(0);
    expect(caught.rechecks!.withdrawn_windows).toBeGreaterThan(0);
    expect(caught.warnings.join()).toContain('leaves ticks out of responses for wide windows');
    const last = summaries.at(-1)!;
    expect(last.rechecks).toMatchObject({ contradicted: 0, doubtful_windows: 0 });
    for (const symbol of symbols) {
      const had = new Set(
        ticksOf(output)
          .get(symbol)!
          .map(({ t }) => t),
      );
      const due = coverageOf(output).filter((row) => row.symbol === symbol);
      const truth = due.flatMap(({ from, to }) => box.truth(symbol, from, to));
      expect(truth.length).toBeGreaterThan(1000);
      expect(truth.filter(({ t }) => !had.has(t))).toEqual([]);
    }
  });
});
