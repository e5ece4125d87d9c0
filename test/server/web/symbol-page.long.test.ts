import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { day0, dayMs, hourMs, scratchFolder } from '../../archive/scratch.ts';
import { sharedServing } from '../serving.ts';
import { chartDrawn, needsBrowser, pixelColumn, soon, type Visit, visit, withBrowser } from './browser.ts';
import { leastContrast } from './contrast.ts';
import {
  conflicts,
  hostile,
  rich,
  richBooks,
  richGap,
  richTicks,
  richTrades,
  rules,
  sibling,
  symbolLake,
  twin,
} from './symbol-lake.ts';

// What a person does on the page of a symbol.

withBrowser();
const service = sharedServing({}, symbolLake.copyTo);
const lastTick = richTicks.at(-1)![0];

async function open(hash: string, options = {}): Promise<Visit> {
  const opened = await visit(service(), { hash, ...options });
  await chartDrawn(opened.page);
  return opened;
}

const readHash = async (page: Page): Promise<string> => String(await page.evaluate('location.hash'));

/** Moves the pointer to a time of the chart. */
async function pointAt(page: Page, t: number, range: { from: number; to: number }): Promise<void> {
  await page.waitForLoadState('networkidle');
  await page.locator('.u-over').first().scrollIntoViewIfNeeded();
  const box = (await page.locator('.u-over').first().boundingBox())!;
  await page.mouse.move(box.x + (box.width * (t - range.from)) / (range.to - range.from), box.y + 120);
}

describe('the page of a symbol', needsBrowser, () => {
  test('reads the chart at the pointer and with the keyboard', async () => {
    const range = { from: day0, to: day0 + 2 * dayMs };
    const { page } = await open(`#symbol=${rich}&from=2026-06-01&to=2026-06-03`);
    const reading = page.locator('.reading');
    await pointAt(page, richGap.from + hourMs, range);
    await expect.poll(() => reading.innerText(), soon).toMatch(/^2026-06-02 0[67]:.*\nGap: never asked/);
    await pointAt(page, day0 + 4 * hourMs, range);
    await expect.poll(() => reading.innerText(), soon).toMatch(/Price\s*0\.\d+.*\n.*Covered\s*confirmed, by poll/s);
    const slider = page.getByRole('slider', { name: /^Read values/ });
    await slider.focus();
    await slider.press('Home');
    await slider.press('ArrowRight');
    const [t, p] = richTicks[1]!;
    const text = `2026-06-01 00:05 UTC · Price ${p} · Covered confirmed, by poll`;
    expect(t).toBe(day0 + 300_000);
    await expect.poll(() => slider.getAttribute('aria-valuetext'), soon).toBe(text);
    await page.goto(`${service().url}/#symbol=${rich}&from=2026-06-01&to=2026-06-03&chart=candles`);
    await page.getByText('candles of 15m').waitFor();
    await pointAt(page, day0 + 4 * hourMs + 1, range);
    await expect.poll(() => reading.innerText(), soon).toMatch(/, 15m\nOpen.*High.*Low.*Close.*3 ticks/s);
  });

  test('shows ranges that end at the last tick, and both scales, each with its own URL', async () => {
    const { page } = await open(`#symbol=${rich}`);
    await page.getByRole('button', { name: '6 h', exact: true }).click();
    const sixHours = richTicks.filter(([t]) => t > lastTick - 6 * hourMs).length;
    await page.getByText(`${sixHours} ticks, no gap, `).waitFor();
    await page.getByRole('button', { name: 'Axis from 0 to 1' }).click();
    await expect.poll(() => readHash(page), soon).toBe(`#symbol=${rich}&span=6h&scale=unit`);
    await expect
      .poll(() => page.getByRole('button', { name: 'Axis from 0 to 1' }).getAttribute('aria-pressed'), soon)
      .toBe('true');
    await page.reload();
    await page.getByText(`${sixHours} ticks, no gap, `).waitFor();
    expect(await page.getByRole('button', { name: '6 h', exact: true }).getAttribute('aria-pressed')).toBe('true');
    // A span that is longer than the lifetime would be the same as all of it.
    expect(await page.getByRole('button', { name: '1 w', exact: true }).isDisabled()).toBe(true);
    await page.getByLabel('From (UTC)').fill('06/01/2026');
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    expect(await page.evaluate('document.querySelector("#range-from").validationMessage')).toContain(
      '2026-06-01 12:30',
    );
    await page.getByLabel('From (UTC)').fill('2026-06-02 12:00');
    await page.getByLabel('To (UTC)').fill('2026-06-02 13:00');
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.getByText('12 ticks, no gap, 2026-06-02 12:00 to 2026-06-02 13:00 UTC').waitFor();
  });

  test('zooms with the wheel and Ctrl about the pointer, and leaves the wheel to the page otherwise', async () => {
    const { page } = await open(`#symbol=${rich}&from=2026-06-01&to=2026-06-03`);
    await pointAt(page, day0 + 12 * hourMs, { from: day0, to: day0 + 2 * dayMs });
    await page.mouse.wheel(0, 10);
    await page.keyboard.down('Control');
    let range = [day0, day0 + 2 * dayMs];
    // A turn of the wheel while finer data is put in place is lost, so there may be more than four.
    while (range[1]! - range[0]! > 10 * hourMs) {
      const before = await readHash(page);
      await page.mouse.wheel(0, -200);
      await page.waitForTimeout(1000);
      await expect.poll(() => readHash(page), soon).not.toBe(before);
      const hash = new URLSearchParams((await readHash(page)).slice(1));
      range = ['from', 'to'].map((name) => Date.parse(hash.get(name)!));
    }
    await page.keyboard.up('Control');
    // The pointer's time keeps its place.
    expect((day0 + 12 * hourMs - range[0]!) / (range[1]! - range[0]!)).toBeCloseTo(0.25, 1);
  });

  test('draws the coverage with its evidence above the plot', async () => {
    const { page } = await open(`#symbol=${rich}`);
    await page.getByText('coverage: confirmed, stated').waitFor();
    await page.getByText('coverage: inferred').waitFor();
    const colors = await pixelColumn(page, (richGap.from + richGap.to) / 2, { from: day0, to: lastTick + 1 });
    expect(colors.size).toBeGreaterThan(1);
    const band = await page.evaluate(`(() => {
      const canvas = document.querySelector('figure canvas');
      const over = document.querySelector('figure .u-over').getBoundingClientRect();
      const box = canvas.getBoundingClientRect();
      const scale = canvas.width / box.width;
      const at = (share) => [...canvas.getContext('2d').getImageData(
        Math.round((over.left - box.left + over.width * share) * scale), Math.round((over.top - box.top - 8) * scale), 1, 1).data];
      return [${[day0 + hourMs, richGap.from + hourMs].map((t) => `at(${(t - day0) / (lastTick + 1 - day0)})`).join()}];
    })()`);
    const [proven, open_] = band as [number[], number[]];
    expect(proven[2]).toBeGreaterThan(proven[0]! + 30);
    expect(open_[0]).toBeGreaterThan(open_[2]! + 30);
  });

  test('shows the code in five languages, copies it, and it loads what the chart shows', async () => {
    const { page, context } = await open(`#symbol=${rich}&from=2026-06-02T04:00:00Z&to=2026-06-02T12:00:00Z`);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const code = page.locator('.code').first();
    for (const [name, part] of [
      ['DuckDB', 'import duckdb'],
      ['polars', 'pl.read_parquet'],
      ['pandas', 'pd.read_parquet'],
      ['R', 'read.csv'],
      ['curl', 'curl --fail'],
    ] as const) {
      await code.getByRole('button', { name, exact: true }).click();
      await code.getByText(part).waitFor();
    }
    expect(await readHash(page)).toContain('code=curl');
    await code.getByRole('button', { name: 'Copy' }).click();
    await code.getByText('Copied.').waitFor();
    const command = String(await page.evaluate('navigator.clipboard.readText()'));
    const folder = scratchFolder();
    const env = { ...process.env, ODDSLAKE_KEY: service().key };
    await promisify(execFile)('sh', ['-euc', command], { cwd: folder, env });
    const rows = readFileSync(join(folder, 'ticks.csv'), 'utf8').trim().split('\n').slice(1);
    const [from, to] = [day0 + dayMs + 4 * hourMs, day0 + dayMs + 12 * hourMs];
    const drawn = richTicks.filter(([t]) => from <= t && t < to);
    await page.getByText(`${drawn.length} ticks, 1 gap`).waitFor();
    const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);
    expect(rows.length).toBe(drawn.length);
    expect(sum(rows.map((row) => Number(row.split(',')[2])))).toBeCloseTo(sum(drawn.map(([, p]) => p)), 9);
  });

  test('shows the history and the rules of the market, and leads to related markets', async () => {
    const { page } = await open(`#symbol=${rich}`);
    const panel = page.locator('.market-panel');
    await panel.getByText('Resolved yes, reported').waitFor();
    await panel.getByText('No longer active').waitFor();
    await panel.getByText(rules.split('\n')[0]!).waitFor();
    expect(await panel.locator('.rules b').count()).toBe(0);
    await panel.getByRole('link', { name: twin, exact: true }).waitFor();
    await panel.getByRole('link', { name: sibling, exact: true }).click();
    await expect.poll(() => page.locator('article h3').textContent(), soon).toBe(sibling);
    await panel.getByRole('link', { name: rich, exact: true }).waitFor();
  });

  test('draws two symbols in one plot, found by words, and the gap of the first stays one', async () => {
    const { page } = await open(`#symbol=${rich}`);
    const field = page.getByLabel('Compare with', { exact: true });
    await field.fill('4.50');
    await expect.poll(() => page.locator('#compare-options option').count(), soon).toBe(1);
    await field.fill('NO-SUCH');
    await field.press('Enter');
    await page.getByText('NO-SUCH: The archive has no symbol with this name.').waitFor();
    await page.getByLabel('Compare with', { exact: true }).fill(sibling);
    await page.getByRole('button', { name: 'Add to the plot' }).click();
    await page.getByText(/^946 ticks, 1 gap/).waitFor();
    expect(await readHash(page)).toBe(`#symbol=${rich}&compare=${sibling}`);
    const range = { from: day0, to: lastTick + 1 };
    const at = (t: number) => pixelColumn(page, t, range);
    const [first, second] = ['29,102,128', '122,76,158'];
    const inGap = await at((richGap.from + richGap.to) / 2);
    expect([inGap.has(first), inGap.has(second)]).toEqual([false, true]);
    const [before, after] = [await at(day0 + 3 * hourMs), await at(day0 + 55 * hourMs)];
    expect([before.has(first), before.has(second), after.has(first), after.has(second)]).toEqual([
      true,
      true,
      true,
      false,
    ]);
    await page.locator('.code').first().getByText(`"symbol": ["${rich}", "${sibling}"]`).waitFor();
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByText(/^684 ticks, 1 gap/).waitFor();
  });

  test('shows the depth now, spread and depth over time, and trades; a symbol without them has no such tabs', async () => {
    const { page } = await open(`#symbol=${rich}`);
    await page.getByRole('button', { name: 'Order book' }).click();
    const panel = page.locator('.book-panel');
    const latest = richBooks.at(-1)!;
    const [bid, ask] = [latest.bids, latest.asks].map((side) => side.prices[0]!);
    await panel.getByText(`Bid ${bid} · ask ${ask} · spread ${Number((ask! - bid!).toFixed(10))}`).waitFor();
    const first = await panel.locator('.levels tbody tr').first().innerText();
    expect(first.split(/\s+/)).toEqual(
      [latest.bids, latest.asks].flatMap(({ prices, quantities }, i) => {
        const level = [String(quantities[0]), String(prices[0])];
        return i === 0 ? level : level.reverse();
      }),
    );
    await panel.getByRole('img', { name: /^Spread in the range: median 0.03/ }).waitFor();
    await panel.getByRole('img', { name: 'Quantity on both sides of 60 order books.' }).waitFor();
    await panel.getByText('/api/v1/historical/quotes?').waitFor();
    expect(await readHash(page)).toContain('tab=book');
    await page.getByRole('button', { name: 'Trades', exact: true }).click();
    await page.getByText(/^40 trades, volume 1,180, mean price/).waitFor();
    expect(await page.locator('.tab-body tbody tr').count()).toBe(40);
    await page.evaluate(`location.hash = 'symbol=${sibling}&tab=book'`);
    await page.getByText(/262 ticks/).waitFor();
    await page.waitForLoadState('networkidle');
    expect(await page.locator('.tabs button').allInnerTexts()).toEqual(['Market']);
  });

  test('marks the trades in the chart, at the pointer too, and removes the marks', async () => {
    const [from, to] = [day0, day0 + 6 * hourMs];
    const { page } = await open(`#symbol=${rich}&from=2026-06-01&to=2026-06-01T06:00:00Z`);
    /** Whether the column of a trade has a pixel that is rather green, or rather red. */
    const isMarked = async (i: number, color: 'green' | 'red'): Promise<boolean> =>
      [...(await pixelColumn(page, richTrades[i]!.t, { from, to }))].some((pixel) => {
        const [red, green, blue] = pixel.split(',').map(Number) as [number, number, number];
        return color === 'green' ? green > red + 15 && green > blue + 8 : red > green + 15 && red > blue + 15;
      });
    const areMarked = async () => [await isMarked(4, 'green'), await isMarked(3, 'red')];
    const toggle = page.getByRole('button', { name: 'Mark the trades in the chart' });
    await toggle.waitFor();
    expect(await areMarked()).toEqual([false, false]);
    await toggle.click();
    await page.locator('.keys').getByText('6 trades, sized by quantity').waitFor();
    expect(await page.locator('.keys .key-trade').count()).toBe(2);
    expect(await areMarked()).toEqual([true, true]);
    expect(await page.evaluate('document.activeElement.ariaLabel')).toBe('Mark the trades in the chart');
    await pointAt(page, richTrades[4]!.t, { from, to });
    await expect.poll(() => page.locator('.reading').innerText(), soon).toMatch(/Trade\s*buy 14 at 0\.44/);
    expect(await readHash(page)).toContain('marks=trades');
    await page.reload();
    await page.locator('.keys').getByText('6 trades').waitFor();
    await toggle.click();
    await expect.poll(() => page.locator('.keys').innerText(), soon).not.toMatch(/\d trades/);
    expect(await areMarked()).toEqual([false, false]);
  });

  test('lists the conflicts, and marks them in the chart', async () => {
    const { page } = await open(`#symbol=${rich}&from=2026-06-01&to=2026-06-01T06:00:00Z`);
    await page.locator('.keys').getByText('1 conflict').waitFor();
    const { t, kept, dropped } = conflicts[0]!;
    const colors = await pixelColumn(page, t, { from: day0, to: day0 + 6 * hourMs });
    expect(colors.has('156,47,31')).toBe(true);
    await page.getByRole('button', { name: 'Conflicts' }).click();
    await page.getByText('has precedence: 1 price.').waitFor();
    expect((await page.locator('.tab-body tbody tr').innerText()).split('\t').slice(0, 3)).toEqual([
      '2026-06-01 01:40',
      String(kept),
      String(dropped),
    ]);
  });

  test('names of symbols do no harm, on a phone and in the dark, and texts have enough contrast', async () => {
    const { page, complaints } = await visit(service(), { viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
    for (const symbol of hostile) {
      await page.evaluate(`location.hash = ${JSON.stringify(`symbol=${encodeURIComponent(symbol)}`)}`);
      await expect.poll(() => page.locator('article h3').textContent(), soon).toBe(symbol);
      await chartDrawn(page);
      await page.locator('.code pre').first().waitFor();
    }
    expect(await page.evaluate('globalThis.hit')).toBe(undefined);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    const [contrast, element] = (await page.evaluate(leastContrast)) as [number, string];
    expect(contrast, element).toBeGreaterThanOrEqual(4.5);
    expect(complaints).toEqual([]);
  });
});
