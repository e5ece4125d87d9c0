import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';
import { expect, test } from 'vitest';
import { formatPlainNumber } from '../../src/base/format-quantity.ts';
import { formatBacktest, formatSparkline } from '../../src/cli/format-backtest.ts';
import { plainStyle } from '../../src/cli/terminal-style.ts';
import {
  formatAmount,
  formatDecimals,
  formatDollars,
  formatParameters,
  formatShare,
} from '../../src/report/backtest-figures.ts';
import { createResult } from '../report/made-result.ts';
import { rubbish } from '../server/web/lake.ts';

const away = plainStyle;

test('prints a summary and tables of a backtest', () => {
  const text = formatBacktest(createResult({ grid: { buy_below: [0.1, 0.2] }, gapShare: 0.25 }), away);
  expect(text).toBe(
    `  strategy   threshold
             contracts 1, fee_per_contract 0, slippage 0, buy_below 0.1, sell_above 0.5
  window     2026-06-01T06:00:00Z … 2026-06-03T06:00:00Z, held out
  total_pnl  +12.50 dollars
  symbols    200 tested, 100 traded, 1,234,567 ticks
  trades     60 of 60 contracts, 50.0 % won, fees 0.00
  costs      kalshi fees, slippage 0.01, whole contracts; 60 fills at tick prices, 60 from order books, 60 at quotes
  pnl        +12.50 in total, +0.0125 per trade
  risk       drawdown 3.5000, sharpe 1.23, brier 0.1234
  equity     ▁▁▂▂▃▃▄▄▄▄▄▃▃▃▂▂▂▂▂▂▂▃▃▄▄▅▆▆▇█████████▇▇▇▆▆▆▆▇▇█
  coverage   25.00 % of the symbols' lifetime is not covered
  archive    generation 7, 12 files read
  manifest   ${'a'.repeat(64)}
  files      ${'b'.repeat(64)}
  warning    25.0 % of the symbols' lifetime in the window is not covered: prices may be missing

Grid by total_pnl, best first
buy_below  In sample  Trades  Held out  Held-out trades
─────────  ─────────  ──────  ────────  ───────────────
      0.1     +10.00     100     +5.00               50
      0.2      +9.00     101     +4.00               51
2 points

Best and worst symbols by pnl
Symbol      P&L  Trades  Contracts    Fees  Outcome  Ticks
──────  ───────  ──────  ─────────  ──────  ───────  ─────
SYM-0   +5.0000       2          2  0.0000        0  1,000
SYM-1   +4.9000       2          2  0.0000        1  1,001
SYM-2   +4.8000       2          2  0.0000        0  1,002
SYM-3   +4.7000       2          2  0.0000        1  1,003
SYM-4   +4.6000       2          2  0.0000        0  1,004
SYM-95  -4.5000       2          2  0.0000        1  1,095
SYM-96  -4.6000       2          2  0.0000        0  1,096
SYM-97  -4.7000       2          2  0.0000        1  1,097
SYM-98  -4.8000       2          2  0.0000        0  1,098
SYM-99  -4.9000       2          2  0.0000        1  1,099
10 of 100 symbols with a trade

Calibration: prices against outcomes
Price       Ticks  Mean price  Share of yes   Off by   Brier
─────────  ──────  ──────────  ────────────  ───────  ──────
`.concat(text.slice(text.indexOf('0.0 – 0.1'))),
  );
  expect(text).toMatch(/^0\.0 – 0\.1 +10,000 +0\.0500 +0\.0000 +-0\.0500 +0\.1000$/m);
  expect(text.trimEnd().split('\n').at(-1)).toBe('54,000 ticks of symbols that settled in the window');
});

test('begins with what the result leaves out', () => {
  const note = 'Filled at tick prices, not bid and ask, without fees or spread.';
  const [first, second] = formatBacktest(createResult({ note }), away).split('\n');
  expect([first, second]).toEqual([`  note       ${note}`, '  strategy   threshold']);
});

test.each([80, 120])('fits a terminal of %i columns with any symbol names', (width) => {
  const making = { grid: { buy_below: [0.1, 0.2], sell_above: [0.5, 0.6] }, symbols: rubbish.slice(1), lacking: 0.25 };
  const text = formatBacktest(createResult(making), { ...plainStyle, width, hasColour: true });
  const [esc, bell] = ['\u001b', '\u0007'];
  const result = createResult();
  const named = {
    ...result.request,
    entry_executable: { ...result.request.entry_executable, name: `mine${esc}[2J${bell}` },
  };
  expect(formatBacktest({ ...result, request: named }, { ...plainStyle, width, hasColour: false })).toMatch(
    /^ {2}strategy +mine\\u001b\[2J\\u0007$/m,
  );
  for (const line of stripVTControlCharacters(text).split('\n'))
    expect(stringWidth(line), line).toBeLessThanOrEqual(width);
  expect(text).toContain(`${esc}[1m+12.50 dollars${esc}[22m`);
  expect(stripVTControlCharacters(text)).not.toMatch(new RegExp(`[${esc}${bell}]`));
  expect(text).toContain('two\\nlines');
});

test('scales a sparkline from minimum to maximum', () => {
  expect(formatSparkline([0, 1, 2, 3, 4, 5, 6, 7], 8)).toBe('▁▂▃▄▅▆▇█');
  expect(formatSparkline([3, 3, 3], 8)).toBe('▁▁▁');
  expect(formatSparkline([], 8)).toBe('');
  const long = formatSparkline([...Array.from({ length: 999 }, () => 0), 1], 10);
  expect([long.length, long.at(-1), long.at(0)]).toEqual([10, '█', '▁']);
});

test('formats numbers with as many digits as needed', () => {
  expect([
    formatDollars(1234.5),
    formatDollars(-0.031_25),
    formatDollars(0),
    formatDollars(null),
    formatDollars(-1e-9),
  ]).toEqual(['+1,234.50', '-0.0313', '0.00', '–', '0.0000']);
  expect([formatAmount(-12), formatAmount(0.5), formatShare(0.125), formatShare(null)]).toEqual([
    '12.00',
    '0.5000',
    '12.5 %',
    '–',
  ]);
  expect([
    formatDecimals(-0.001, 2),
    formatDecimals(-1234.567, 2),
    formatDecimals(5, 0),
    formatDecimals(1e16, 2),
  ]).toEqual(['0.00', '-1,234.57', '5', '1.000e+16']);
  expect([formatPlainNumber(0.1 + 0.2), formatPlainNumber(3)]).toEqual(['0.3', '3']);
  expect(formatParameters({ window_ms: 5_400_000, other_ms: 1500, x: 0.25 })).toBe(
    'window_ms 90m, other_ms 1500ms, x 0.25',
  );
});
