import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { day0, dayMs, opened } from '../../archive/scratch.ts';
import { serving, sharedServing } from '../serving.ts';
import { chartDrawn, needsBrowser, pixelColumn, soon, visit, withBrowser } from './browser.ts';
import { gap, question, quiet, rain, rainLake } from './lake.ts';

withBrowser();
const service = sharedServing({}, rainLake.copyTo);
const hash = `#symbol=${rain}&from=2026-06-01&to=2026-06-02`;
const range = { from: day0, to: day0 + dayMs };

describe('the catalogue page', needsBrowser, () => {
  test('shows only the totals of the manifest without a key', async () => {
    const { page, requested, complaints } = await visit(service(), { key: null });
    await page.getByLabel('Market data key').waitFor();
    const { datasets, generation } = service().archive.readManifest();
    const all = Object.values(datasets).flatMap((dataset) => dataset.files);
    const files = all.filter(({ rows }) => rows > 0);
    const sum = (of: readonly number[]) => of.reduce((a, b) => a + b).toLocaleString('en-US');
    const printed = await page.locator('#totals').innerText();
    expect(printed).toContain(`Ticks\n${sum(datasets.ticks.files.map(({ rows }) => rows))}\n`);
    expect(printed).toContain('Symbols\n1\n');
    expect(printed).toContain(`${sum(all.map(({ bytes }) => bytes))} bytes`);
    expect(printed).toContain(`Datasets\n6\n${files.length} files`);
    expect(printed).toContain(`Generation\n${generation}\n`);
    expect(printed).toContain('2026-06-01 to 2026-06-02');
    // Nothing was collected on the day after these, which has ended too.
    expect(printed).toContain('Days complete\n0 of 3\n');
    expect(requested.filter((url) => url.includes('/api/'))).toEqual([]);
    expect(await page.content()).not.toContain(rain);
    expect(complaints).toEqual([]);
  });

  test('stores the key for this tab, reports a wrong one, and forgets it on request', async () => {
    const { page, context } = await visit(service(), { key: null });
    const field = page.getByLabel('Market data key');
    const enter = async (key: string) => {
      await field.fill(key);
      await page.getByRole('button', { name: 'Sign in' }).click();
    };
    await enter('olk_wrong_wrong');
    await page.getByRole('alert').filter({ hasText: 'does not accept this key' }).waitFor();
    await enter(service().key);
    await page.getByRole('heading', { name: 'Coverage by day' }).waitFor();
    expect(page.url()).not.toContain(service().key);
    expect(await page.evaluate('[localStorage.length, sessionStorage.length]')).toEqual([0, 1]);
    expect(await context.cookies()).toEqual([]);
    // What was requested before is not shown after signing out.
    await page.route('**/api/v1/export', async (route) => {
      const response = await route.fetch();
      await page.getByLabel('Market data key').waitFor();
      await route.fulfill({ response });
    });
    await page.reload();
    const loaded = page.waitForEvent('requestfinished', (request) => request.url().endsWith('/api/v1/export'));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await field.waitFor();
    await loaded;
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 200))');
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
    expect(await page.content()).not.toContain(rain);
    expect(await page.getByRole('heading', { name: 'Coverage by day' }).count()).toBe(0);
  });

  test('shows the selected symbol, with links and the back button', async () => {
    const { page } = await visit(service());
    await page.locator('.results li').filter({ hasText: rain }).getByRole('link').click();
    await chartDrawn(page);
    expect(await page.evaluate('location.hash')).toBe(`#symbol=${rain}`);
    expect(await page.locator('article').innerText()).toContain(question);
    await page.getByRole('button', { name: 'Candles' }).click();
    await page.getByText(/candles of 15m/).waitFor();
    const shared = await page.evaluate('location.hash');
    await page.goBack();
    await page.getByText(/^\d+ ticks, 2 gaps/).waitFor();
    await page.goBack();
    await expect.poll(() => page.locator('article').count(), soon).toBe(0);
    const other = await visit(service(), { hash: String(shared) });
    await other.page.getByText(/candles of 15m/).waitFor();
  });

  test('hatches a gap and breaks the line there, but not in covered time without ticks', async () => {
    const { page } = await visit(service(), { hash });
    await chartDrawn(page);
    await page.getByText('204 ticks, 1 gap, ').waitFor();
    const middle = ({ from, to }: typeof gap) => (from + to) / 2;
    const inside = await pixelColumn(page, middle(gap), range);
    const still = await pixelColumn(page, middle(quiet), range);
    const price = '29,102,128';
    expect([inside.has(price), still.has(price)]).toEqual([false, true]);
    const isAmber = (colour: string): boolean => {
      const [red, , blue] = colour.split(',').map(Number);
      return red! > blue! + 30;
    };
    expect([[...inside].some(isAmber), [...still].some(isAmber)]).toEqual([true, false]);
    await page.goto(`${service().url}/${hash}&chart=candles`);
    await page.getByText('68 candles of 15m, 1 gap, ').waitFor();
  });

  test('loads finer data for a selected range, and by keyboard', async () => {
    const { page, requested } = await visit(service(), { hash: `#symbol=${rain}&chart=candles` });
    await page.getByText('candles of 15m').waitFor();
    await chartDrawn(page);
    // The calendar below arrives later and moves the chart; a drag that begins before misses it.
    await page.waitForLoadState('networkidle');
    await page.locator('.u-over').scrollIntoViewIfNeeded();
    await vi.waitFor(async () => {
      const box = (await page.locator('.u-over').boundingBox())!;
      await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.3, box.y + 50, { steps: 3 });
      await page.mouse.up();
      await page.getByText('candles of 1m').waitFor({ timeout: 5000 });
    }, soon);
    expect(requested.some((url) => url.includes('interval=1m'))).toBe(true);
    const zoomed = String(await page.evaluate('location.hash'));
    expect(zoomed).toMatch(/from=2026-06-01T1\d:.*&to=2026-06-01T1\d:/);
    await page.getByRole('button', { name: 'Zoom out' }).press('Enter');
    await expect.poll(() => page.evaluate('location.hash'), soon).not.toBe(zoomed);
    await expect.poll(() => page.evaluate('document.activeElement.ariaLabel'), soon).toBe('Zoom out');
    await page.getByLabel('From (UTC)').fill('2026-06-01T12:00:00');
    await page.getByLabel('To (UTC)').fill('2026-06-01T13:00:00');
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.getByText('2026-06-01 12:00 to 2026-06-01 13:00 UTC (1 h)').waitFor();
  });

  test('selects a day by keyboard and downloads its files as listed in the manifest', async () => {
    const { archive } = service();
    const { page } = await visit(service());
    const last = page.getByRole('button', { name: /^2026-06-02: 0 of 1 symbol covered, incomplete$/ });
    await last.focus();
    await last.press('ArrowLeft');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Files of 2026-06-01' }).waitFor();
    const { reason, next_action: action } = archive.readManifest().days['2026-06-01']!;
    await page.getByText(`Not complete: ${reason}.`).waitFor();
    const [, command] = /^the next night .*: (oddslake backfill .*)$/.exec(action!)!;
    expect(await page.locator('#day-files code').first().innerText()).toBe(command);
    const file = archive.readManifest().datasets.ticks.files[0]!;
    const name = file.path.replace('/date=', '-').replace('/', '-');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: `Download ${name}` }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(name);
    const bytes = readFileSync(await download.path());
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(file.sha256);
    await page.getByText('SHA-256 verified').waitFor();
    await page.getByRole('button', { name: `Copy the curl command for ${name}` }).click();
    const line = await page.locator('.curl:visible').innerText();
    expect(line).toContain(`/api/v1/export/files/ticks/2026-06-01/${name.slice(-15)}`);
    expect(line).toContain('$ODDSLAKE_KEY');
  });

  test('shows errors in their place, with a button to try again', async () => {
    const { page, context } = await visit(service(), { hash: '#symbol=UNKNOWN' });
    await page.getByText('The archive has no symbol with this name.').waitFor();
    await context.setOffline(true);
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.locator('figure').getByText('Cannot reach the service').waitFor();
    await context.setOffline(false);
    await page.locator('figure').getByRole('button', { name: 'Try again' }).click();
    await chartDrawn(page);
    for (const [status, sentence] of [
      [429, 'Too many requests with this key. Try again in 7 s.'],
      [503, 'The service is unavailable at the moment. Busy.'],
    ] as const) {
      const answer = { status, headers: { 'retry-after': '7' }, json: { detail: 'Busy.' } };
      await page.route('**/historical/candles?*', (route) => route.fulfill(answer));
      await page.evaluate(`location.hash = ${JSON.stringify(`${hash}&chart=candles&n=${status}`)}`);
      await page.locator('figure').getByText(sentence).waitFor();
      await page.unroute('**/historical/candles?*');
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await chartDrawn(page);
    }
  });

  test('with a restricted key, shows what the key does not permit in its place, and keeps the key', async () => {
    const permissions = { scopes: ['read'], datasets: ['markets'] };
    const { key } = await service().workspace.createKey(
      { name: 'n', expiresAt: null, requestsPerMinute: 1_000_000, ...permissions },
      day0,
    );
    const { page } = await visit(service(), { key, hash: `${hash}&day=2026-06-01` });
    await page
      .locator('figure')
      .getByText('This key does not permit this. The key does not permit the dataset')
      .waitFor();
    const download = page.getByRole('button', { name: 'Download ticks-2026-06-01-part' }).first();
    await download.click();
    await page.getByText('This key does not permit this. The key does not have the scope export').waitFor();
    expect(await page.evaluate("sessionStorage.getItem('oddslake.key')")).toBe(key);
  });

  test('says that the archive is empty and what fills it', async () => {
    const { page, complaints } = await visit(await serving(opened()));
    await page.getByRole('heading', { name: 'Nothing is published yet' }).waitFor();
    await page.getByText('oddslake nightly').waitFor();
    await expect.poll(() => page.getByText('Loading').count(), soon).toBe(0);
    expect(await page.getByRole('searchbox').count()).toBe(0);
    expect(complaints).toEqual([]);
  });
});
