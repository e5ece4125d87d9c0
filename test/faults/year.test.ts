import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import { dayMs, firstNight, startNights } from '../collector/run/nights.ts';
import { findWrongWindows, manifestOf } from '../e2e/lake.ts';
import { limitMs } from '../harness/limits.ts';

/** Number of nights; NIGHTS=365 for the year. */
const count = Number(process.env.NIGHTS ?? 24);
const seed = Number(process.env.SEED || 11);

interface Listed {
  readonly is_active: boolean;
  readonly symbol?: string;
  readonly venues?: readonly unknown[];
}

const megabytes = (path: string): string => `${(statSync(path).size / 1e6).toFixed(2)} MB`;
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

test('a night requests in proportion to the live symbols, however many nights went before', {
  timeout: limitMs + count * 20_000,
}, async () => {
  const nights = await startNights({ seed, markets: 60, lifetimeDaysMax: 10, ticksPerDay: 60 });
  const perSymbol: number[] = [];
  const rechecks: number[] = [];
  const requests: number[] = [];
  const seconds: number[] = [];
  let watermark = 0;
  for (let n = 0; n < count; n++) {
    const begun = systemClock.monotonicMs();
    const summary = await nights.night(firstNight + n * dayMs);
    seconds.push((systemClock.monotonicMs() - begun) / 1000);
    expect(summary, JSON.stringify(summary)).toMatchObject({ exit_code: 0, failures: [], error: null });
    const listed = await symbolsListed(nights.box().url);
    // Requested symbols are on the lists, or left them since the last night.
    expect(summary.symbols.planned, `night ${n}`).toBeLessThanOrEqual(1.25 * listed);
    requests.push(summary.requests);
    rechecks.push(summary.rechecks!.requests);
    perSymbol.push((summary.requests - summary.rechecks!.requests) / summary.symbols.planned);
    // It waits for the symbol that is proven last: of few ticks, or with more than all others.
    expect(summary.watermark).toBeGreaterThanOrEqual(watermark);
    watermark = summary.watermark!;
  }
  const { days, datasets } = manifestOf(nights.output);
  const known = datasets.symbols.files[0]!.rows;
  const third = Math.floor(count / 3);
  const [early, late] = [mean(requests.slice(third, 2 * third)), mean(requests.slice(-third))];
  const files = Object.values(datasets).reduce((sum, dataset) => sum + dataset.files.length, 0);
  console.info(
    `${count} nights, seed ${seed}: ${known} symbols known, ${early.toFixed(0)} requests a night early and ${late.toFixed(0)} late, ` +
      `at most ${Math.max(...perSymbol.slice(1)).toFixed(2)} per planned symbol and ${Math.max(...rechecks)} for rechecks; ${seconds.at(1)!.toFixed(2)} s the second night and ` +
      `${seconds.at(-1)!.toFixed(2)} s the last; ${files} files, manifest ${megabytes(join(nights.output, 'manifest.json'))}, ` +
      `state ${megabytes(join(nights.output, '.oddslake/state.sqlite'))}`,
  );
  // The lists contain about as many markets late as early, and the number of requests is about the same.
  expect(late).toBeLessThan(1.5 * early);
  // The market lists, and the polls with the confirmed ends of symbols that were resolved, of which there are many with such
  // short lifetimes.
  expect(Math.max(...perSymbol.slice(1))).toBeLessThan(2.25);
  // What is drawn does not grow with the number of symbols or nights.
  expect(Math.max(...rechecks)).toBeLessThan(40);
  // Of the nights before the last three: a day is final a day after it ended.
  const settled = Object.entries(days).filter(
    ([day]) => firstNight <= Date.parse(day) && Date.parse(day) < firstNight + (count - 3) * dayMs,
  );
  const completeDays = settled.filter(([, day]) => day.state === 'complete').length;
  console.info(`${completeDays} of ${settled.length} days are complete`);
  expect(completeDays).toBeGreaterThanOrEqual(Math.floor(0.8 * settled.length));
  expect(findWrongWindows(nights.output, nights.box())).toEqual([]);
});

/** Symbols of the markets on the lists now. */
async function symbolsListed(url: string): Promise<number> {
  const headers = { authorization: 'Bearer sandbox-key' };
  const response = await fetch(`${url}/api/v1/markets?view=matched&limit=100000`, { headers });
  const { markets } = (await response.json()) as { markets: Listed[] };
  return markets.reduce((sum, market) => sum + (market.venues?.length ?? 1), 0);
}
