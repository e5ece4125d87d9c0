import { fetchJson, isAbortError, toErrorMessage } from './api.ts';
import { renderCode } from './code-panel.ts';
import { createElement, renderError, renderLoading, renderScrolledTable } from './dom.ts';
import { formatCount, formatPrice, formatQuantity, formatTime, truncateText } from './format.ts';
import type { TabContext } from './symbol-facts.ts';
import { selectTradeMarks, type TradeMark, type TradeMarks } from './trade-marks.ts';
import type { TimeRange } from './view.ts';

interface Trade {
  readonly t: number;
  readonly trade_id: string;
  readonly price: number;
  readonly size: number;
  readonly aggressor: string | null;
  readonly block: boolean | null;
}

const path = '/api/v1/historical/trades';
/** Maximum number of trades that are loaded for a range, and that are listed. */
const loadedMax = 5000;
const listedMax = 100;

/** Whether the archive has trades of a symbol. */
export async function hasTrades(symbol: string, signal: AbortSignal): Promise<boolean> {
  const { count } = await fetchJson<{ count: number }>(path, { symbol, limit: 1 }, signal);
  return count > 0;
}

/** Number of trades that are read for the marks of a chart. */
const pageSize = 5000;
const pagesMax = 4;

/** Reads the trades of a range. */
export async function fetchTradeMarks(
  symbol: string,
  { from, to }: TimeRange,
  signal: AbortSignal,
): Promise<TradeMarks> {
  const trades: TradeMark[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pagesMax; page++) {
    const query = { symbol, from, to, limit: pageSize, cursor };
    const response: { trades: readonly TradeMark[]; next_cursor: string | null } = await fetchJson(path, query, signal);
    trades.push(...response.trades);
    cursor = response.next_cursor;
    if (cursor === null) break;
  }
  return selectTradeMarks(trades, cursor !== null);
}

/** Renders the trades of the range: their number, volume and mean price, and the latest of them. */
export function renderTradesPanel({ symbol, range, view, signal }: TabContext): HTMLElement {
  const root = createElement('div', {}, renderLoading('Loading trades…'));
  const load = async (): Promise<void> => {
    try {
      const query = { symbol, from: range.from, to: range.to, limit: loadedMax };
      const { trades, next_cursor } = await fetchJson<{ trades: readonly Trade[]; next_cursor: string | null }>(
        path,
        query,
        signal,
      );
      const isCut = next_cursor !== null;
      const selection = {
        ...{ name: 'trades', path, symbols: [symbol], from: range.from, to: range.to },
        ...(isCut && { parameters: { limit: trades.length } }),
      };
      root.replaceChildren(
        createElement('p', { class: 'note' }, formatTotals(trades, isCut)),
        trades.length === 0 ? '' : renderTrades(trades.slice(-listedMax).reverse()),
        trades.length > listedMax
          ? createElement('p', { class: 'note' }, `The latest ${listedMax} of them are listed.`)
          : '',
        renderCode('these trades', selection, view.code ?? 'duckdb'),
      );
    } catch (error) {
      if (!isAbortError(error)) root.replaceChildren(renderError(toErrorMessage(error), () => void load()));
    }
  };
  void load();
  return root;
}

function formatTotals(trades: readonly Trade[], isCut: boolean): string {
  if (trades.length === 0) return 'The archive has no trades in this range.';
  const volume = trades.reduce((sum, { size }) => sum + size, 0);
  const value = trades.reduce((sum, { size, price }) => sum + size * price, 0);
  const first = isCut ? 'The first ' : '';
  const mean = volume > 0 ? `, mean price weighted by size ${formatPrice(value / volume)}` : '';
  const narrower = isCut ? '. The range has more: select a shorter one' : '';
  return `${first}${formatCount(trades.length, 'trade')}, volume ${formatQuantity(volume)}${mean}${narrower}.`;
}

const renderTrades = (trades: readonly Trade[]): HTMLElement =>
  renderScrolledTable(
    'Trades',
    ['Time (UTC)', 'Price', 'Size', 'Aggressor', 'Trade'],
    trades.map(({ t, price, size, aggressor, block, trade_id }) => [
      formatTime(t),
      formatPrice(price),
      formatQuantity(size),
      `${aggressor ?? '–'}${block === true ? ', block' : ''}`,
      createElement('span', { title: trade_id }, truncateText(trade_id, 24)),
    ]),
    (column) => column >= 3,
  );
