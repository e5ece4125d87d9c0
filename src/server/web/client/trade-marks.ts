import type { Static } from 'typebox';
import { formatCount, formatNumber, formatPlainNumber } from '../../../base/format-quantity.ts';
import type { HistoricalTradesResponse } from '../../../contract/historical-series.ts';
import { findLastAtMost } from './covered-windows.ts';
import { formatQuantity } from './format.ts';

export type Trade = Static<typeof HistoricalTradesResponse>['trades'][number];
/** A trade, as far as the chart shows it. */
export type TradeMark = Pick<Trade, 't' | 'price' | 'size' | 'aggressor'>;

/** The trades of a range that a chart marks. */
export interface TradeMarks {
  /** In order of time, at most `marksMax`. */
  readonly marks: readonly TradeMark[];
  /** Number of trades that were read. */
  readonly count: number;
  /** Whether the range has trades that were not read: those after the read ones. */
  readonly isCut: boolean;
}

export const noTradeMarks: TradeMarks = { marks: [], count: 0, isCut: false };

/** More marks would hide each other and the price. */
export const marksMax = 250;
/** Distance up to which the readout shows a trade, in CSS pixels. */
export const tradeReachPx = 5;

/** The largest trades, in order of time. Of equally large trades, the latest. */
export function selectTradeMarks(trades: readonly TradeMark[], isCut: boolean): TradeMarks {
  const marks =
    trades.length <= marksMax
      ? trades
      : [...trades]
          .sort((a, b) => b.size - a.size || b.t - a.t)
          .slice(0, marksMax)
          .sort((a, b) => a.t - b.t);
  return { marks, count: trades.length, isCut };
}

/** What the marks are, for the legend: 40 trades; the 500 largest of 1,693 trades. */
export function formatTradeMarks({ marks, count, isCut }: TradeMarks): string {
  const which = marks.length < count ? `the ${formatNumber(marks.length)} largest of ` : '';
  const more = isCut ? '; the range has more: select a shorter one' : '';
  return `${which}${isCut ? 'the first ' : ''}${formatCount(count, 'trade')}, sized by quantity${more}`;
}

/** A trade in the readout: buy 120 at 0.45 */
export const formatTradeMark = ({ aggressor, size, price }: TradeMark): string =>
  `${aggressor === null ? '' : `${aggressor} `}${formatQuantity(size)} at ${formatPlainNumber(price)}`;

/** Returns the trade nearest to a time, if it is at most `reachMs` away. `times` are those of the marks. */
export function findNearestTrade(
  marks: readonly TradeMark[],
  times: ArrayLike<number>,
  t: number,
  reachMs: number,
): TradeMark | undefined {
  const before = findLastAtMost(times, t);
  const near = [marks[before], marks[before + 1]].filter(
    (mark): mark is TradeMark => mark !== undefined && Math.abs(mark.t - t) <= reachMs,
  );
  return near.sort((a, b) => Math.abs(a.t - t) - Math.abs(b.t - t))[0];
}
