import { formatCount, formatPlainNumber, shortenText } from '../../../base/format-quantity.ts';
import { fetchRows } from './api.ts';
import { renderCode } from './code-panel.ts';
import { html, renderLoaded, renderScrolledTable } from './dom.ts';
import { formatQuantity, formatTime } from './format.ts';
import type { TabContext } from './symbol-facts.ts';
import { selectTradeMarks, type Trade, type TradeMark, type TradeMarks } from './trade-marks.ts';
import type { TimeRange } from './view.ts';

/** Maximum number of trades that are loaded for a range, that are listed, and that are read for the marks of a chart. */
const loadedMax = 5000;
const listedMax = 100;
const markedMax = 20_000;

/** Reads the trades of a range. */
export async function fetchTradeMarks(symbol: string, range: TimeRange, signal: AbortSignal): Promise<TradeMarks> {
  const { rows, isCut } = await fetchRows<TradeMark>('trades', { symbol, ...range }, markedMax, signal);
  return selectTradeMarks(rows, isCut);
}

/** Renders the trades of the range: their number, volume and mean price, and the latest of them. */
export const renderTradesPanel = ({ symbol, range, view, signal }: TabContext): HTMLElement =>
  renderLoaded('Loading trades…', async () => {
    const { rows: trades, isCut } = await fetchRows<Trade>('trades', { symbol, ...range }, loadedMax, signal);
    const parameters = { ...(isCut && { limit: trades.length }) };
    return [
      html`<p class="note">${formatTotals(trades, isCut)}</p>`,
      trades.length > 0 && renderTrades(trades.slice(-listedMax).reverse()),
      trades.length > listedMax && html`<p class="note">The latest ${listedMax} of them are listed.</p>`,
      renderCode('these trades', { name: 'trades', symbols: [symbol], ...range, parameters }, view.code ?? 'duckdb'),
    ];
  });

function formatTotals(trades: readonly Trade[], isCut: boolean): string {
  if (trades.length === 0) return 'The archive has no trades in this range.';
  const volume = trades.reduce((sum, { size }) => sum + size, 0);
  const value = trades.reduce((sum, { size, price }) => sum + size * price, 0);
  const first = isCut ? 'The first ' : '';
  const mean = volume > 0 ? `, mean price weighted by size ${formatPlainNumber(value / volume)}` : '';
  const narrower = isCut ? '. The range has more: select a shorter one' : '';
  return `${first}${formatCount(trades.length, 'trade')}, volume ${formatQuantity(volume)}${mean}${narrower}.`;
}

const renderTrades = (trades: readonly Trade[]): HTMLElement =>
  renderScrolledTable(
    'Trades',
    ['Time (UTC)', 'Price', 'Size', 'Aggressor', 'Trade'],
    trades.map(({ t, price, size, aggressor, block, trade_id }) => [
      formatTime(t),
      formatPlainNumber(price),
      formatQuantity(size),
      `${aggressor ?? '–'}${block === true ? ', block' : ''}`,
      html`<span title=${trade_id}>${shortenText(trade_id, 24)}</span>`,
    ]),
    (column) => column >= 3,
  );
