import { expect, test } from 'vitest';
import { renderBacktestPage } from '../../src/report/backtest-page.ts';
import { rubbish } from '../server/web/lake.ts';
import { createResult } from './made-result.ts';

const page = (making: Parameters<typeof createResult>[0]) => renderBacktestPage(createResult(making), '1.2.3');

test('shows the results and inputs of a backtest', () => {
  const text = page({});
  for (const expected of [
    '<h1>threshold</h1>',
    '+12.50',
    '1,234,567 ticks',
    '50.0 %',
    '<h2>Equity</h2>',
    '<h2>Drawdown</h2>',
    '<h2>Calibration</h2>',
    '<h2>Symbols</h2>',
    '<h2>Trades</h2>',
    'a'.repeat(64),
    'b'.repeat(64),
    'all of weather',
    'Written by oddslake 1.2.3',
  ])
    expect(text).toContain(expected);
  expect(text).not.toContain('<h2>Grid</h2>');
  expect(text).not.toContain('class="warning"');
  // Every plot for wide and for narrow pages, the calibration for both.
  expect(text.match(/<svg /g)).toHaveLength(2 * 2 + 1);
  expect(text.match(/<svg [^>]*aria-label="Drawdown, maximum \d+\.\d+ dollars"/g)).toHaveLength(2);
});

test('draws a heat map for two parameters and bars otherwise, and marks the best point', () => {
  const two = page({ grid: { buy_below: [0.1, 0.2, 0.3], sell_above: [0.5, 0.6] } });
  expect(two).toContain(
    '6 points; data from 2026-06-01T06:00:00Z is held out. The best point before that time is buy_below 0.1, sell_above 0.5',
  );
  expect(two.match(/<rect /g)).toHaveLength(2 * 6);
  expect(two.match(/<tr class="best"><td [^>]*>0\.1<\/td><td [^>]*>0\.5<\/td><td [^>]*>\+10\.00</g)).toHaveLength(1);
  const one = page({ grid: { buy_below: [0.1, 0.2, 0.3] } });
  expect(one.match(/<rect /g)).toHaveLength(2 * 3);
  const many = Array.from({ length: 200 }, (_, i) => i / 200);
  const long = page({ grid: { buy_below: many } });
  expect(long).toContain('<summary>170 more</summary>');
});

test('warns of missing coverage, and says that there were no trades', () => {
  expect(page({ gapShare: 0.25 })).toContain(
    '<p class="warning">25.0 % of the symbols&#39; lifetime in the window is not covered',
  );
  expect(page({ gapShare: 0.05 })).not.toContain('class="warning"');
  const idle = page({ trades: 0 });
  expect(idle).toContain('No trades: the conditions were never met.');
  expect(idle).not.toContain('<h2>Equity</h2>');
});

test('begins with what the result leaves out', () => {
  const note = 'Filled at tick prices, not bid and ask, without fees or spread.';
  expect(page({ note })).toContain(`<h1>threshold</h1>\n<p class="warning">${note}</p>\n`);
  expect(page({})).toContain('kalshi fees, slippage 0.01, whole contracts');
  expect(page({})).not.toContain('class="warning"');
});

test('escapes untrusted text in tables, plots and code', () => {
  const text = page({ symbols: rubbish });
  expect(text).not.toMatch(/<script>globalThis|<img src=x|<b>bold/);
  expect(text).toContain('&lt;script&gt;globalThis.hit = 1&lt;/script&gt;');
  const result = createResult();
  const named = { ...result.request, entry_executable: { ...result.request.entry_executable, name: rubbish[0]! } };
  const evil = renderBacktestPage({ ...result, request: { ...named, grid: {} } }, '</style><script>alert(1)</script>');
  expect(evil).not.toMatch(/<script/);
});

test('shows missing values without numbers', () => {
  const result = createResult();
  const { summary } = result;
  const none = { avg_pnl: null, sharpe: null, max_drawdown: null, win_rate: null, brier: null };
  const text = renderBacktestPage({ ...result, value: null, summary: { ...summary, ...none } }, '1');
  expect(text.replaceAll(/<pre>[^<]*<\/pre>/g, '')).not.toMatch(/NaN|null|undefined|Infinity/);
});
