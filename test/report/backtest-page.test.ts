import { expect, test } from 'vitest';
import { renderBacktestPage } from '../../src/report/backtest-page.ts';
import { rubbish } from '../server/web/lake.ts';
import { madeResult } from './made-result.ts';

const page = (making: Parameters<typeof madeResult>[0]) => renderBacktestPage(madeResult(making), '1.2.3');

test('says what a backtest came to, and what it rests on', () => {
  const text = page({});
  for (const told of [
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
    expect(text).toContain(told);
  expect(text).not.toContain('<h2>Grid</h2>');
  expect(text).not.toContain('class="warning"');
  // Every plot once for wide and once for narrow pages, the calibration once for both.
  expect(text.match(/<svg /g)).toHaveLength(2 * 2 + 1);
  expect(text.match(/<svg [^>]*aria-label="Drawdown, \d+\.\d+ dollars at its deepest"/g)).toHaveLength(2);
});

test('two parameters of a grid are a field, others are bars, and the best point is marked', () => {
  const two = page({ grid: { buy_below: [0.1, 0.2, 0.3], sell_above: [0.5, 0.6] } });
  expect(two).toContain(
    '6 points, held out from 2026-06-01T06:00:00Z on. The best before it is buy_below 0.1, sell_above 0.5',
  );
  expect(two.match(/<rect /g)).toHaveLength(2 * 6);
  expect(
    two.match(/<tr class="best"><td class="">0\.1<\/td><td class="">0\.5<\/td><td class="">\+10\.00</g),
  ).toHaveLength(1);
  const one = page({ grid: { buy_below: [0.1, 0.2, 0.3] } });
  expect(one.match(/<rect /g)).toHaveLength(2 * 3);
  const many = Array.from({ length: 200 }, (_, i) => i / 200);
  const long = page({ grid: { buy_below: many } });
  expect(long).toContain('<summary>170 more</summary>');
});

test('warns where coverage lacks much, and says that nothing was traded', () => {
  expect(page({ lacking: 0.25 })).toContain('<p class="warning">Nothing was heard of 25.0 % of the symbols&#39; time');
  expect(page({ lacking: 0.05 })).not.toContain('class="warning"');
  const idle = page({ trades: 0 });
  expect(idle).toContain('No trade: nothing met its conditions.');
  expect(idle).not.toContain('<h2>Equity</h2>');
});

test('texts from outside are text, in tables, plots and code', () => {
  const text = page({ symbols: rubbish });
  expect(text).not.toMatch(/<script>globalThis|<img src=x|<b>bold/);
  expect(text).toContain('&lt;script&gt;globalThis.hit = 1&lt;/script&gt;');
  const result = madeResult();
  const named = { ...result.asked, entry_executable: { ...result.asked.entry_executable, name: rubbish[0]! } };
  const evil = renderBacktestPage({ ...result, asked: { ...named, grid: {} } }, '</style><script>alert(1)</script>');
  expect(evil).not.toMatch(/<script/);
});

test('a value that nobody has is no number', () => {
  const result = madeResult();
  const { summary } = result;
  const none = { avg_pnl: null, sharpe: null, max_drawdown: null, win_rate: null, brier: null };
  const text = renderBacktestPage({ ...result, value: null, summary: { ...summary, ...none } }, '1');
  expect(text.replaceAll(/<pre>[^<]*<\/pre>/g, '')).not.toMatch(/NaN|null|undefined|Infinity/);
});
