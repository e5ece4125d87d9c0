import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { renderBacktestPage } from '../../../src/report/backtest-page.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { createResult } from '../../report/made-result.ts';
import { expectSound, looks, needsBrowser, visitFile, withBrowser } from './browser.ts';
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
  test.each(looks)('renders at %i pixels, %s, without errors, clipping or low contrast', async (width, colorScheme) => {
    const { page, shown } = await expectSound(written(), width, colorScheme, 'svg');
    // The plots of equity, drawdown, grid and calibration in the variant for this width.
    expect(shown).toHaveLength(4);
    for (const plot of shown) expect(plot).toBeGreaterThan(width === 390 ? 300 : 280);
    expect(await page.locator('td', { hasText: rubbish[0]! }).first().textContent()).toBe(rubbish[0]);
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
