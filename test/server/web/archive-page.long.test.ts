import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { renderArchiveReport } from '../../../src/report/archive-page.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { createReportData, createReportDataWithProblems } from '../../report/made-gathered.ts';
import { expectSound, looks, needsBrowser, visitFile, withBrowser } from './browser.ts';
import { rubbish } from './lake.ts';

withBrowser();

function written(gathered = createReportDataWithProblems(rubbish)): string {
  const file = join(scratchFolder(), 'report.html');
  writeFileSync(file, renderArchiveReport(gathered, '1.2.3', String));
  return file;
}

describe('the report on an archive', needsBrowser, () => {
  test.each(looks)('renders at %i pixels, %s, without errors, clipping or low contrast', async (width, colorScheme) => {
    const { page, shown } = await expectSound(written(), width, colorScheme, 'svg:not(.spark)');
    // The plots of ticks, bytes, coverage, lag, lateness, conflicts, requests and growth in the variant for this width.
    expect(shown).toHaveLength(8);
    for (const plot of shown) expect(plot).toBeGreaterThan(width === 390 ? 300 : 900);
    expect(await page.locator('td bdi', { hasText: rubbish[0]! }).first().textContent()).toBe(rubbish[0]);
    expect(await page.locator('svg.spark:visible').count()).toBeGreaterThan(0);
  });

  test('has text alternatives for runs and plots', async () => {
    const { page } = await visitFile(written(createReportData()));
    const runs = page.getByRole('list', { name: /^Outcome of the last 14 runs/ }).getByRole('listitem');
    expect(await runs.last().textContent()).toContain('2026-11-22 03:00 nightly: done');
    await page
      .getByRole('img', { name: /^Ticks per UTC day of their timestamps: 140,091 in total/ })
      .first()
      .waitFor();
    await page.getByText('Days as a table').click();
    expect(await page.getByRole('region', { name: 'Days as a table' }).getByRole('row').count()).toBe(15);
  });

  test('prints black on white', async () => {
    const { page } = await visitFile(written(), { viewport: { width: 390, height: 900 }, colorScheme: 'dark' });
    await page.emulateMedia({ media: 'print' });
    expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(0, 0, 0)');
    expect(await page.locator('.narrow:visible').count()).toBe(0);
    const panel = await page.evaluate(`getComputedStyle(document.querySelector('.health')).backgroundColor`);
    expect(panel).toBe('rgb(255, 255, 255)');
  });
});
