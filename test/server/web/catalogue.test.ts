import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { serving } from '../serving.ts';
import { chartDrawn, needsBrowser, visit, withBrowser } from './browser.ts';
import { lakeWith, question, rain } from './lake.ts';

// One visit to the catalogue page; further tests are in catalogue.long.test.ts.

withBrowser();

test('a visitor enters a key, finds a symbol, sees its chart and downloads a file', needsBrowser, async () => {
  const archive = await lakeWith();
  const service = await serving(archive);
  const { page, complaints, asked } = await visit(service, { key: null });
  await page.getByLabel('Market data key').fill(service.key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('searchbox', { name: 'Find a symbol' }).fill(rain);
  await page.getByText('1 market found').waitFor();
  await page.locator('.results li').filter({ hasText: rain }).getByRole('link').click();
  await chartDrawn(page);
  expect(await page.evaluate('location.hash')).toBe(`#symbol=${rain}&q=${rain}`);
  expect(await page.locator('article').innerText()).toContain(question);
  const commands = await page.locator('.slice code.curl').allTextContents();
  expect(commands.map((command) => command.includes('csv_safe=true'))).toEqual([true, false]);
  await page.getByRole('link', { name: '‹ All symbols' }).click();
  await page.getByRole('button', { name: /^2026-06-01: / }).click();
  const file = archive.readManifest().datasets.ticks.files[0]!;
  const name = file.path.replace('/date=', '-').replace('/', '-');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: `Download ${name}` }).click(),
  ]);
  const bytes = readFileSync(await download.path());
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(file.sha256);
  expect(complaints).toEqual([]);
  expect(asked.filter((url) => !url.startsWith(`${service.url}/`) && !url.startsWith('blob:'))).toEqual([]);
});
