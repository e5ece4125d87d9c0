import { describe, expect, test } from 'vitest';
import {
  findNearestTrade,
  formatTradeMark,
  formatTradeMarks,
  marksMax,
  selectTradeMarks,
  type TradeMark,
} from '../../../src/server/web/client/trade-marks.ts';

const trade = (t: number, size: number, aggressor: string | null = 'buy'): TradeMark => ({
  t,
  price: 0.5,
  size,
  aggressor,
});

describe('the trades that a chart marks', () => {
  test('are all of them up to the maximum', () => {
    const trades = Array.from({ length: marksMax }, (_, i) => trade(i, 1));
    expect(selectTradeMarks(trades, false)).toEqual({ marks: trades, count: marksMax, isCut: false });
    expect(formatTradeMarks(selectTradeMarks(trades, false))).toBe(`${marksMax} trades, sized by quantity`);
  });

  test('are the largest of more, in order of time, with a note', () => {
    const trades = Array.from({ length: 2 * marksMax }, (_, i) => trade(i, i % 2 === 0 ? 5 : 1 + i / 10_000));
    const { marks } = selectTradeMarks(trades, false);
    expect(marks).toEqual(trades.filter((_, i) => i % 2 === 0));
    expect(formatTradeMarks(selectTradeMarks(trades, true))).toBe(
      `the ${marksMax} largest of the first ${2 * marksMax} trades, sized by quantity; the range has more: select a shorter one`,
    );
  });

  test('are read within the reach of the pointer only', () => {
    const marks = [trade(100, 1), trade(200, 2), trade(230, 3, null)];
    const times = marks.map(({ t }) => t);
    const at = (t: number) => findNearestTrade(marks, times, t, 20)?.size;
    expect([at(79), at(80), at(120), at(121), at(214), at(216), at(250), at(251)]).toEqual([
      undefined,
      1,
      1,
      undefined,
      2,
      3,
      3,
      undefined,
    ]);
    expect([formatTradeMark(trade(0, 1234.5)), formatTradeMark(trade(0, 2, null))]).toEqual([
      'buy 1,234.5 at 0.5',
      '2 at 0.5',
    ]);
  });
});
