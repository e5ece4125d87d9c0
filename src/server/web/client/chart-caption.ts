import { evidenceMeanings } from '../../../base/evidence.ts';
import { formatCount, formatDuration, formatPlainNumber } from '../../../base/format-quantity.ts';
import type { ChartData } from './chart-data.ts';
import { html } from './dom.ts';
import { formatDate, formatTime } from './format.ts';
import { formatTradeMarks, type TradeMarks } from './trade-marks.ts';
import type { View } from './view.ts';

/** The visible caption of a chart. */
export function formatCaption(loaded: ChartData): string {
  const from = Math.floor(loaded.range.from / 1000) * 1000;
  const to = Math.ceil(loaded.range.to / 1000) * 1000;
  const what =
    loaded.kind === 'ticks'
      ? formatCount(sum(loaded.symbols.map(({ ticks }) => ticks.length)), 'tick')
      : `${formatCount(sum(loaded.symbols.map(({ candles }) => candles.length)), 'candle')} of ${loaded.interval.name}`;
  const count = loaded.symbols[0]!.gaps.length;
  const gaps = count === 0 ? 'no gap' : formatCount(count, 'gap');
  return `${what}, ${gaps}, ${formatTime(from)} to ${formatTime(to)} UTC (${formatDuration(to - from)}). `;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/** The description of a chart for screen readers. */
export function formatSummary(symbol: string, loaded: ChartData): string {
  const candles =
    loaded.kind === 'candles'
      ? loaded.symbols[0]!.candles
      : loaded.symbols[0]!.ticks.map(({ p }) => ({ open: p, high: p, low: p, close: p }));
  const [first, last] = [candles[0], candles.at(-1)];
  if (first === undefined || last === undefined)
    return `${symbol}: no ticks from ${formatDate(loaded.range.from)} to ${formatDate(loaded.range.to)}`;
  const lowest = candles.reduce((least, { low }) => Math.min(least, low), first.low);
  const highest = candles.reduce((most, { high }) => Math.max(most, high), first.high);
  const ends = `${formatPlainNumber(first.open)} at the start, ${formatPlainNumber(last.close)} at the end`;
  const other = loaded.symbols[1] === undefined ? '' : ` Compared with ${loaded.symbols[1].symbol}.`;
  return `Prices of ${symbol}: ${ends}, between ${formatPlainNumber(lowest)} and ${formatPlainNumber(highest)}. ${formatCaption(loaded)}${other}`;
}

/** How the band above a chart shows each kind of evidence: proven, declared, or provisional. */
const evidenceStyles = [
  { style: 'proven', names: ['confirmed', 'stated', 'repeated'] },
  { style: 'declared', names: ['declared'] },
  { style: 'inferred', names: ['inferred'] },
] as const;

const isKnownAggressor = (aggressor: string | null): boolean => aggressor === 'buy' || aggressor === 'sell';

/** How the chart shows trades by their aggressor. */
const tradeKeys = [
  { style: 'key-trade buy', text: 'buy', isOf: (aggressor: string | null) => aggressor === 'buy' },
  { style: 'key-trade sell', text: 'sell', isOf: (aggressor: string | null) => aggressor === 'sell' },
  { style: 'key-trade', text: 'aggressor unknown', isOf: (aggressor: string | null) => !isKnownAggressor(aggressor) },
];

/** Renders the legend: only what the chart shows. */
export function renderChartKey(
  loaded: ChartData,
  kind: View['chart'],
  conflicts: number,
  trades: TradeMarks,
): HTMLElement {
  const key = (style: string, text: string, title: string | null = null): HTMLElement =>
    html`<span title=${title}><i class=${style}></i>${text}</span>`;
  const isLine = loaded.kind === 'ticks' || kind === 'price';
  const evidence = new Set((loaded.coverage ?? []).map((window) => window.evidence));
  const isMarked = (one: (typeof tradeKeys)[number]) => trades.marks.some(({ aggressor }) => one.isOf(aggressor));
  return html`
    <span class="keys">
      ${
        loaded.symbols.length > 1 &&
        loaded.symbols.map(({ symbol }, i) => key(i === 0 ? 'key-line' : 'key-line key-second', symbol))
      }
      ${loaded.symbols[0]!.gaps.length > 0 && key('key-gap', 'gap: not covered')}
      ${isLine ? key('key-line', 'flat line: no trades') : key('key-quiet', 'blank: covered, no ticks')}
      ${evidenceStyles.map(({ style, names }) => {
        const present = names.filter((name) => evidence.has(name));
        const meaning = present.map((name) => `${name}: ${evidenceMeanings[name]}`).join('\n');
        return present.length > 0 && key(`key-evidence ${style}`, `coverage: ${present.join(', ')}`, meaning);
      })}
      ${conflicts > 0 && key('key-conflict', formatCount(conflicts, 'conflict'))}
      ${
        trades.count > 0 && [
          ...tradeKeys.filter(isMarked).map(({ style, text }) => key(style, text)),
          html`<span>${formatTradeMarks(trades)}</span>`,
        ]
      }
    </span>`;
}
