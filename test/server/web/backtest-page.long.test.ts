import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { renderBacktestPage } from '../../../src/report/backtest-page.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { createResult } from '../../report/made-result.ts';
import { needsBrowser, visitFile, withBrowser } from './browser.ts';
import { leastContrast } from './contrast.ts';
import { rubbish } from './lake.ts';

withBrowser();

/** A page with all its parts. */
function written(): string {
  const file = join(scratchFolder(), 'page.html');
  const grid = { buy_below: [0.1, 0.2, 0.3], sell_above: [0.5, 0.6] };
  writeFileSync(file, renderBacktestPage(createResult({ grid, symbols: rubbish, gapShare: 0.2 }), '1.2.3'));
  return file;
}

describe('the page of a backtest', needsBrowser, () => {
  test.each([
    [1280, 'light'],
    [1280, 'dark'],
    [390, 'light'],
    [390, 'dark'],
  ] as const)('renders at %i pixels, %s, without errors, clipping or low contrast', async (width, colorScheme) => {
    const file = written();
    const { page, complaints, requested } = await visitFile(file, { viewport: { width, height: 900 }, colorScheme });
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
    // The plots of equity, drawdown, grid and calibration in the variant for this width.
    const shown = await page.evaluate(
      `[...document.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect().width).filter((w) => w > 0)`,
    );
    expect(shown).toHaveLength(4);
    for (const plot of shown as number[]) expect(plot).toBeGreaterThan(width === 390 ? 300 : 280);
    const [contrast, of] = (await page.evaluate(leastContrast)) as [number, string];
    expect(contrast, of).toBeGreaterThan(4.5);
    const paper = await page.evaluate('getComputedStyle(document.body).backgroundColor');
    expect(paper).toBe(colorScheme === 'dark' ? 'rgb(20, 25, 27)' : 'rgb(252, 252, 251)');
    expect(await page.locator('td', { hasText: rubbish[0]! }).first().textContent()).toBe(rubbish[0]);
    expect(await page.evaluate('globalThis.hit')).toBeUndefined();
    expect([complaints, requested]).toEqual([[], [`file://${file}`]]);
  });

  test('prints black on white in the wide layout', async () => {
    const { page } = await visitFile(written(), { viewport: { width: 390, height: 900 }, colorScheme: 'dark' });
    await page.emulateMedia({ media: 'print' });
    expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(0, 0, 0)');
    expect(await page.locator('.narrow:visible').count()).toBe(0);
    expect(await page.locator('.wide:visible').count()).toBe(3);
  });

  test('its content security policy blocks injected scripts', async () => {
    const file = written();
    const { page, complaints } = await visitFile(file);
    await page.evaluate(`(() => {
      const script = document.createElement('script');
      script.textContent = 'globalThis.hit = 9';
      document.body.append(script);
    })()`);
    expect(await page.evaluate('globalThis.hit')).toBeUndefined();
    expect(complaints.join()).toContain('Content Security Policy');
  });
});
