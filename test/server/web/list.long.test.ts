import { readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { recordVerification } from '../../../src/archive/integrity/daily-hash-share.ts';
import { verifyArchive } from '../../../src/archive/integrity/verify.ts';
import { recordSelections } from '../../../src/archive/journal/selection-store.ts';
import { answer, append, day0, hourMs, now, publishNow } from '../../archive/scratch.ts';
import { type Serving, serving, sharedServing } from '../serving.ts';
import { chartDrawn, looks, needsBrowser, soon, visit, withBrowser } from './browser.ts';
import { lakeOf, lakeWith, rain, rainLake, rubbish } from './lake.ts';

// What a person does on the catalogue page apart from charts: searching, days, datasets, signing in.

withBrowser();
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The findings of axe-core, each with the elements. */
async function listFindings(page: Page): Promise<readonly string[]> {
  // Injected by the debugger, which the content security policy does not concern.
  await page.evaluate(axe);
  return (await page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html.slice(0, 200)).join(' | ')))`)) as string[];
}

const names = Array.from({ length: 60 }, (_, i) => `KX-${String(i).padStart(2, '0')}`);
const open = { set: ['service.public_catalogue=auto'] };
const many = sharedServing(open, lakeOf([rain, ...names]).copyTo);
const empty = sharedServing();
const closed = sharedServing({}, rainLake.copyTo);
const found = (page: Page) => page.locator('.results li');
const hash = (page: Page) => page.evaluate('location.hash') as Promise<string>;

describe('the list of symbols', needsBrowser, () => {
  test('is searched as one types, filtered, sorted and paged, and each state has its URL', async () => {
    const { page, requested, complaints } = await visit(many(), { key: null });
    await page.getByText('61 markets found, 1 to 25 shown').waitFor();
    await page.getByRole('link', { name: 'Next' }).click();
    await page.getByText('61 markets found, 26 to 50 shown').waitFor();
    expect(await hash(page)).toBe('#page=2');
    // A new search begins on the first page. One entry of the history for all its key strokes.
    await page.getByRole('searchbox', { name: 'Find a symbol' }).pressSequentially('kx-5');
    await page.getByText('10 markets found').waitFor();
    expect(await hash(page)).toBe('#q=kx-5');
    await page.getByLabel('Sort').selectOption('Name');
    await expect.poll(() => hash(page), soon).toBe('#q=kx-5&sort=name');
    await page.getByLabel('State').selectOption('Resolved');
    await page.getByText('No market matches.').waitFor();
    await page.goBack();
    await expect.poll(() => found(page).first().innerText(), soon).toContain('KX-50');
    await page.goBack();
    await page.goBack();
    await page.getByText('26 to 50 shown').waitFor();
    expect(await page.getByRole('searchbox').inputValue()).toBe('');
    await page.goForward();
    await page.getByText('10 markets found').waitFor();
    expect(await page.getByRole('searchbox').inputValue()).toBe('kx-5');
    // The page of a symbol leads back to the same list.
    await found(page).first().getByRole('link').click();
    await page.getByRole('link', { name: '‹ All symbols' }).click();
    await page.getByText('10 markets found').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('61 markets found').waitFor();
    expect(await hash(page)).toBe('');
    expect(requested.filter((url) => /authorization|key/i.test(url))).toEqual([]);
    expect(complaints).toEqual([]);
  });

  test('keeps what is typed before its script and the list are there', async () => {
    const { page } = await visit(many(), { key: null });
    await found(page).first().waitFor();
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route('**/main.js', async (route) => released.then(() => route.continue()));
    await page.route('**/api/v1/export', (route) => setTimeout(() => void route.continue(), 150));
    await page.reload({ waitUntil: 'commit' });
    const field = page.getByRole('searchbox', { name: 'Find a symbol' });
    await field.pressSequentially('kx-');
    release();
    await page.getByText('Loading the archive').waitFor();
    await page.keyboard.type('41');
    await page.getByText('1 market found').waitFor();
    expect([await field.inputValue(), await hash(page)]).toEqual(['kx-41', '#q=kx-41']);
    expect(await page.evaluate('document.activeElement.id')).toBe('search');
  });

  test('is used by keyboard alone', async () => {
    const { page } = await visit(many(), { key: null });
    await found(page).first().waitFor();
    const focused = () =>
      page.evaluate('document.activeElement.textContent || document.activeElement.id') as Promise<string>;
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Skip to the archive');
    await page.keyboard.press('/');
    await expect.poll(focused, soon).toBe('search');
    await page.keyboard.type('kx-41');
    await expect.poll(() => found(page).count(), soon).toBe(1);
    await page.keyboard.press('ArrowDown');
    expect(await focused()).toContain('KX-41');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'KX-41' }).waitFor();
    await page.keyboard.press('/');
    await expect.poll(focused, soon).toBe('search');
    // The calendar is one stop, and arrows move within it.
    await page.getByRole('button', { name: /^2026-06-02: / }).focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Files of 2026-06-01' }).waitFor();
    const card = page.locator('details[data-dataset=ticks] summary');
    await card.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Sample rows' }).waitFor();
  });

  test('shows hostile names as they are', async () => {
    const service = await serving(
      await lakeWith(rubbish, { question: rubbish.join(' '), category: rubbish[1]! }),
      open,
    );
    const { page, complaints } = await visit(service, { key: null, viewport: { width: 390, height: 844 } });
    await expect.poll(() => found(page).count(), soon).toBe(rubbish.length);
    // A field has one line.
    for (const symbol of rubbish.filter((name) => !name.includes('\n'))) {
      await page.getByRole('searchbox').fill(symbol);
      await expect.poll(() => found(page).first().getAttribute('data-symbol'), soon).toBe(symbol);
    }
    expect(await page.evaluate('globalThis.hit')).toBeUndefined();
    // A name of 300 characters is not shortened.
    const long = rubbish.find((name) => name.startsWith('long'))!;
    await page.getByRole('searchbox').fill(long);
    await expect.poll(() => found(page).first().getAttribute('data-symbol'), soon).toBe(long);
    const ticker = found(page).first().locator('.ticker');
    expect(await ticker.evaluate((it) => it.scrollHeight - it.clientHeight <= 1 && it.clientHeight > 60)).toBe(true);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    expect(complaints).toEqual([]);
  });
});

test('a symbol that is not collected says so, since when, and what collects it again', needsBrowser, async () => {
  const archive = await lakeWith([rain, ...rubbish.filter((name) => !name.includes('\n')), '-dash']);
  const decided = day0 + 30 * hourMs;
  const decide = (kind: 'excluded' | 'forgotten', from: number, reason: string | null) => ({
    unselected: [{ kind, from, to: Number.POSITIVE_INFINITY, reason, decidedAt: decided }],
  });
  const [script, , quotes] = rubbish;
  const decisions = [
    [rain, decide('forgotten', day0 + 29 * hourMs, `too ${script}`)],
    [quotes!, decide('excluded', Number.NEGATIVE_INFINITY, null)],
    ['-dash', decide('forgotten', day0, null)],
  ] as const;
  recordSelections(archive.state.db, new Map(decisions));
  append(archive, answer(script!, [[day0 + 1, 0.5]]));
  await publishNow(archive);
  const service = await serving(archive, open);
  const { page, complaints } = await visit(service, { key: null, hash: '#sort=name' });
  const row = (symbol: string) => page.locator('.results li').filter({ hasText: symbol });
  await expect.poll(() => row(rain).innerText(), soon).toMatch(/Forgotten\s+since 2026-06-02/);
  expect(await row(quotes!).innerText()).toMatch(/Excluded\s+since 2026-06-02/);
  expect(await row('ducks').innerText()).toMatch(/\nActive\n/);
  await page.getByLabel('State').selectOption('Forgotten');
  await page.getByText('2 markets found').waitFor();
  await row(rain).getByRole('link').click();
  const note = page.locator('.not-collected');
  expect((await note.innerText()).replaceAll(/\s+/g, ' ')).toBe(
    `Forgotten since 2026-06-02 06:00 (too ${script}): nothing is expected from 2026-06-02 05:00 on, and the ticks before stay. To collect it again, run oddslake symbols watch '${rain}'`,
  );
  expect(await page.locator('.facts').innerText()).toMatch(/State\s+forgotten/);
  const show = async (symbol: string) => {
    await page.goto('about:blank');
    await page.goto(`${service.url}/#symbol=${encodeURIComponent(symbol)}`);
    return (await note.innerText()).replaceAll(/\s+/g, ' ');
  };
  expect(await show(quotes!)).toBe(
    `Excluded by the settings since 2026-06-02 06:00: nothing was collected before, and nothing is expected. To collect it again, change source.include or source.exclude, or run oddslake symbols watch '${quotes!.replaceAll("'", `'\\''`)}'`,
  );
  expect(await show('-dash')).toContain("run oddslake symbols watch -- '-dash'");
  expect(await listFindings(page)).toEqual([]);
  expect([await page.evaluate('globalThis.hit'), complaints]).toEqual([undefined, []]);
});

describe('days and datasets', needsBrowser, () => {
  test('a day is downloaded as one Parquet file, whose rows are those of its files', async () => {
    const { page } = await visit(many(), { key: null, hash: '#day=2026-06-01' });
    const files = many()
      .archive.readManifest()
      .datasets.ticks.files.filter(({ date }) => date === '2026-06-01');
    const rows = files.reduce((sum, file) => sum + file.rows, 0);
    await page.getByText(`${rows.toLocaleString('en-US')} rows: symbol, t, p`).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download ticks-2026-06-01.parquet', exact: true }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('ticks-2026-06-01.parquet');
    const { DuckDBInstance } = await import('@duckdb/node-api');
    const connection = await (await DuckDBInstance.create()).connect();
    const result = await connection.runAndReadAll(
      `SELECT count(*)::DOUBLE FROM read_parquet('${await download.path()}')`,
    );
    expect(result.getRows()).toEqual([[rows]]);
    connection.closeSync();
    await page.getByRole('button', { name: 'Copy the curl command for ticks-2026-06-01.parquet' }).click();
    const command = await page.locator('.day-download .curl').innerText();
    expect(command).toContain("--output 'ticks-2026-06-01.parquet'");
    // No key is needed, so that the command has none.
    expect(command).not.toContain('ODDSLAKE_KEY');
    const response = await fetch(/'(http[^']+)'/.exec(command)![1]!);
    expect(response.status).toBe(200);
    await response.body!.cancel();
  });

  test('the calendar has weekdays, numbers and a legend of every case', async () => {
    const { page } = await visit(many(), { key: null });
    const month = page.getByRole('group', { name: 'June 2026' });
    await month.waitFor();
    expect(await month.locator('.weekday').allInnerTexts()).toEqual(['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su']);
    // The service's clock stands on 2026-06-04: later days are not shown.
    expect(await month.locator('.day').allInnerTexts()).toEqual(['1', '2', '3', '4']);
    expect(await month.locator('.today').allInnerTexts()).toEqual(['4']);
    const legend = await page.getByRole('list', { name: 'Legend of the calendar' }).innerText();
    for (const text of [
      'complete',
      'exceptions',
      'provisional',
      'incomplete',
      'damaged',
      'empty',
      'before the first tick',
      'today',
    ])
      expect(legend).toContain(text);
  });

  test('a damaged day says so, with the remedy', async () => {
    const archive = await rainLake();
    const file = archive.readManifest().datasets.ticks.files.find(({ date }) => date === '2026-06-01')!;
    rmSync(join(archive.layout.root, file.path));
    recordVerification(archive, await verifyArchive(archive, null), 'run', now);
    const { page } = await visit(await serving(archive, open), { key: null, hash: '#day=2026-06-01' });
    await page.getByText('Files of this day are damaged').waitFor();
    await page.locator('#day-files').getByText('oddslake verify --repair').waitFor();
    await page.getByText(/^As published: 0 of 1 symbol covered/).waitFor();
    await page.getByRole('button', { name: /^2026-06-01: .*, damaged$/ }).waitFor();
    await page.getByRole('button', { name: '2026-06-02: ' }).click();
    await page.getByRole('heading', { name: 'Files of 2026-06-02' }).waitFor();
    expect(await page.getByText('Files of this day are damaged').count()).toBe(0);
  });

  test('a card has the schema of its dataset and, for readers, sample rows', async () => {
    const { page } = await visit(many(), { key: null });
    const card = page.locator('details[data-dataset=ticks]');
    await card.locator('summary').click();
    expect(await card.locator('.schema tbody tr').allInnerTexts()).toEqual([
      expect.stringMatching(/symbol\s+string\s+market ticker/),
      expect.stringMatching(/t\s+timestamp\(ms, UTC\)/),
      expect.stringMatching(/p\s+double/),
    ]);
    await expect.poll(() => card.locator('.sample tbody tr').count(), soon).toBe(5);
    expect(await card.locator('.sample tbody tr').first().innerText()).toMatch(/^KX\S+\s+2026-06-02 00:00\s+0\./);
  });
});

test('an address without a page leads back, and a program gets problem details', needsBrowser, async () => {
  const service = closed();
  const hash = '<script>globalThis.hit=1</script>?q=1';
  const { page } = await visit(service, { key: null, hash, viewport: { width: 390, height: 844 } });
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
  // On a narrow page the links are one line below the name, as on the other pages.
  const [brand, nav] = [(await page.locator('.brand').boundingBox())!, (await page.locator('nav').boundingBox())!];
  expect(nav.y).toBeGreaterThanOrEqual(brand.y + brand.height);
  expect(nav.height).toBeLessThan(40);
  expect(await listFindings(page)).toEqual([]);
  await page.getByRole('link', { name: 'catalogue of this archive' }).click();
  await page.getByLabel('Market data key').waitFor();
  const ask = async (path: string, accept: string) => {
    // The page is for people, so that the document of the API does not describe it.
    const response = await fetch(service.url + path, { headers: { accept } });
    await response.body?.cancel();
    return [response.status, response.headers.get('content-type')];
  };
  expect(await ask('/nothing', 'text/html,*/*;q=0.8')).toEqual([404, 'text/html; charset=utf-8']);
  for (const [path, accept] of [
    ['/nothing', '*/*'],
    ['/api/v1/nothing', 'text/html'],
    ['/api/v1/symbols', 'text/html'],
  ] as const)
    expect((await ask(path, accept))[1]).toMatch(/^application\/problem\+json/);
});

describe('signing in', needsBrowser, () => {
  test('a link signs in once; the key leaves the address, and the session ends with Sign out', async () => {
    const service = closed();
    const key = service.sessions.createOneTimeKey();
    const { page, requested } = await visit(service, { key: null, hash: `#sign-in=${key}` });
    await found(page).first().waitFor();
    expect(page.url()).toBe(`${service.url}/`);
    expect(requested.filter((url) => url.split('#')[0]!.includes(key))).toEqual([]);
    const credential = String(await page.evaluate("sessionStorage.getItem('oddslake.key')"));
    expect(credential).toMatch(/^ols_/);
    await page.reload();
    await found(page).first().waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Market data key').waitFor();
    expect(await found(page).count()).toBe(0);
    await expect
      .poll(
        async () =>
          (await service.ask('/api/v1/export', { headers: { authorization: `Bearer ${credential}` } })).status,
        soon,
      )
      .toBe(401);
    const again = await visit(service, { key: null, hash: `#sign-in=${key}` });
    await again.page.getByRole('alert').filter({ hasText: 'was used before' }).waitFor();
    expect(again.page.url()).toBe(`${service.url}/`);
  });

  test('an open catalogue shows neither form nor button', async () => {
    const { page } = await visit(await serving(await lakeWith([rain], { question: null }), open), { key: null });
    await found(page).first().waitFor();
    await page.getByText('Reading needs no key').waitFor();
    // A symbol without a question is named once.
    await found(page).first().waitFor();
    expect((await found(page).first().innerText()).split(rain)).toHaveLength(2);
    // The page of a symbol does not begin as the list, also before its script is there.
    await page.route('**/main.js', (route) => route.abort());
    await page.goto(`${page.url()}#symbol=${rain}`);
    await page.reload();
    expect(await page.getByRole('heading', { name: 'Contents of this archive' }).isVisible()).toBe(false);
    await page.unroute('**/main.js');
    await page.reload();
    expect(await page.getByLabel('Market data key').count()).toBe(0);
    expect(await page.getByRole('button', { name: 'Sign out' }).count()).toBe(0);
  });
});

/** Checks the API page with an operation opened. */
async function checkApiPage(page: Page, { url }: Serving, width: number): Promise<void> {
  await page.goto(`${url}/docs`);
  await page.locator('#operations-realtime-getTicks .opblock-summary-control').click();
  await page.getByRole('heading', { name: 'Parameters' }).waitFor();
  expect(await listFindings(page)).toEqual([]);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
}

describe('axe-core has no finding', needsBrowser, () => {
  test.each(looks)(
    'at %i pixels, %s: list, day, cards, sign-in, empty archive, API, problems',
    async (width, colorScheme) => {
      const options = { key: null, viewport: { width, height: 844 }, colorScheme };
      const full = many();
      const { page, complaints, requested } = await visit(full, { ...options, hash: '#day=2026-06-01' });
      await found(page).first().waitFor();
      await page.getByRole('heading', { name: 'Files of 2026-06-01' }).waitFor();
      await page.locator('details[data-dataset=ticks] summary').click();
      await page.getByRole('region', { name: 'Sample rows' }).waitFor();
      expect(await listFindings(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      await page.goto(`${full.url}/#symbol=${rain}`);
      await chartDrawn(page);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      expect(requested.filter((url) => !url.startsWith(`${full.url}/`))).toEqual([]);
      await page.goto(`${full.url}/docs/problems`);
      expect(await listFindings(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      // axe-core takes some seconds for the API page: each width and each scheme once.
      if ((width === 1280) === (colorScheme === 'light')) await checkApiPage(page, full, width);
      const unfilled = await visit(empty(), options);
      await unfilled.page.getByLabel('Market data key').waitFor();
      expect(await listFindings(unfilled.page)).toEqual([]);
      expect([...complaints, ...unfilled.complaints]).toEqual([]);
    },
  );
});
