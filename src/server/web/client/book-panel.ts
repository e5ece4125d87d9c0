import { ApiError, fetchJson, isAbortError, toErrorMessage } from './api.ts';
import { type BestPrices, type Book, computeDepths, computeSpread, cumulateDepth, toBestPrices } from './book-depth.ts';
import { renderCode } from './code-panel.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { formatCount, formatInteger, formatPrice, formatTime } from './format.ts';
import { renderSmallChart } from './small-chart.ts';
import type { Selection } from './snippets.ts';
import type { TabContext } from './symbol-facts.ts';
import type { TimeRange } from './view.ts';

const levelsShownMax = 10;
const snapshotsMax = 5000;
const quotesMax = 20_000;
const pageSize = 10_000;
const pagesMax = 10;

/** Formats a quantity with at most two decimals. */
const formatQuantity = (quantity: number): string => {
  const [whole, fraction] = String(Number(quantity.toFixed(2))).split('.');
  return `${formatInteger(Number(whole))}${fraction === undefined ? '' : `.${fraction}`}`;
};

/** Whether the archive has an order book or quotes of a symbol. */
export async function hasOrderBook(symbol: string, signal: AbortSignal): Promise<boolean> {
  const query = { symbol, limit: 1 };
  const counts = await Promise.all(
    ['orderbooks', 'quotes'].map((name) =>
      fetchJson<{ count: number }>(`/api/v1/historical/${name}`, query, signal).then(
        ({ count }) => count,
        (error: unknown) => {
          if (isAbortError(error)) throw error;
          return 0;
        },
      ),
    ),
  );
  return counts.some((count) => count > 0);
}

/** Renders the order book: the depth now, and spread and depth in the range. */
export function renderBookPanel({ symbol, range, view, signal }: TabContext): HTMLElement {
  const now = createElement('div', { class: 'book-now' }, renderLoading('Loading the order book…'));
  const past = createElement('div', { class: 'book-past' }, renderLoading('Loading quotes…'));
  const fill = async (target: HTMLElement, load: () => Promise<Node[]>): Promise<void> => {
    try {
      target.replaceChildren(...(await load()));
    } catch (error) {
      if (!isAbortError(error))
        target.replaceChildren(renderError(toErrorMessage(error), () => void fill(target, load)));
    }
  };
  void fill(now, async () => renderDepthNow(await fetchLatestBook(symbol, signal), signal));
  void fill(past, async () => {
    const [quotes, books] = await Promise.all([
      loadBestPrices(symbol, range, signal),
      loadPages<Book>('orderbooks', symbol, range, snapshotsMax, signal),
    ]);
    const best = quotes ?? { prices: toBestPrices(books.rows), selection: null, note: '' };
    const selection = best.selection ?? toSelection('orderbooks', symbol, range);
    const what = { quotes: 'these quotes', candles: 'these candles' }[selection.name] ?? 'these order books';
    return [
      ...renderSpread(best.prices, range, signal),
      ...renderDepths(books.rows, range, signal),
      createElement(
        'p',
        { class: 'note' },
        [
          best.note,
          books.isCut ? `Only the first ${formatCount(books.rows.length, 'order book')} of the range are shown.` : '',
        ]
          .filter(Boolean)
          .join(' '),
      ),
      renderCode(what, selection, view.code ?? 'duckdb'),
    ];
  });
  return createElement('div', { class: 'book-panel' }, now, past);
}

async function fetchLatestBook(symbol: string, signal: AbortSignal): Promise<Book | null> {
  return await fetchJson<Book>('/api/v1/orderbook', { symbol }, signal).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  });
}

function renderDepthNow(book: Book | null, signal: AbortSignal): Node[] {
  if (book === null) return [createElement('p', { class: 'empty' }, 'The archive has no order book of this symbol.')];
  const { bids, asks, t } = book;
  const title = createElement(
    'h4',
    { 'aria-level': 2 },
    'Order book of ',
    createElement('span', { class: 'nowrap' }, `${formatTime(t)} UTC`),
  );
  if (bids.length + asks.length === 0) return [title, createElement('p', { class: 'empty' }, 'It is empty.')];
  const { x, bids: below, asks: above } = cumulateDepth(book);
  const best = toBestPrices([book])[0]!;
  const spread = computeSpread(best);
  const [bid, ask] = [best.bid, best.ask].map((price) => (price === null ? 'none' : formatPrice(price)));
  const room = (x.at(-1)! - x[0]!) * 0.04 || 0.01;
  const chart = renderSmallChart(
    {
      title: 'Depth',
      label: `Depth: bid ${bid}, ask ${ask}; the table has the levels.`,
      x,
      lines: [
        { label: 'bids', color: 'up', y: below, isFilled: true, step: 'before' },
        { label: 'asks', color: 'down', y: above, isFilled: true },
      ],
      xIs: 'price',
      range: { from: x[0]! - room, to: x.at(-1)! + room },
      formatY: formatQuantity,
      formatX: formatPrice,
    },
    signal,
  );
  return [
    title,
    createElement(
      'p',
      { class: 'note' },
      `Bid ${bid} · ask ${ask}${spread === null ? '' : ` · spread ${formatPrice(spread)}`}`,
    ),
    chart,
    renderLevels(book),
  ];
}

function renderLevels({ bids, asks }: Book): HTMLElement {
  const count = Math.min(levelsShownMax, Math.max(bids.length, asks.length));
  const cell = (text: string): HTMLElement => createElement('td', {}, text);
  const rows = Array.from({ length: count }, (_, i) => {
    const [bid, ask] = [bids[i], asks[i]];
    return createElement(
      'tr',
      {},
      cell(bid === undefined ? '' : formatQuantity(bid.quantity)),
      cell(bid === undefined ? '' : formatPrice(bid.price)),
      cell(ask === undefined ? '' : formatPrice(ask.price)),
      cell(ask === undefined ? '' : formatQuantity(ask.quantity)),
    );
  });
  const heads = ['Bid quantity', 'Bid', 'Ask', 'Ask quantity'];
  const more = Math.max(bids.length, asks.length) - count;
  return createElement(
    'div',
    {},
    createElement(
      'table',
      { class: 'levels' },
      createElement(
        'thead',
        {},
        createElement('tr', {}, ...heads.map((text) => createElement('th', { scope: 'col' }, text))),
      ),
      createElement('tbody', {}, ...rows),
    ),
    more > 0 ? createElement('p', { class: 'note' }, `${formatCount(more, 'more level')} in the archive.`) : null,
  );
}

const toSelection = (name: string, symbol: string, { from, to }: TimeRange): Selection => ({
  name,
  path: `/api/v1/historical/${name}`,
  symbols: [symbol],
  from,
  to,
});

/** Quotes of the range or, if there are too many, bid and ask of hourly candles; null if there are none. */
async function loadBestPrices(symbol: string, range: TimeRange, signal: AbortSignal) {
  const { rows, isCut } = await loadPages<BestPrices>('quotes', symbol, range, quotesMax, signal);
  if (rows.length === 0) return null;
  if (!isCut)
    return {
      prices: rows,
      selection: toSelection('quotes', symbol, range),
      note: `${formatCount(rows.length, 'quote')}.`,
    };
  const hourly = await loadPages<BestPrices>('candles', symbol, range, quotesMax, signal, { interval: '1h' });
  const selection = { ...toSelection('candles', symbol, range), parameters: { interval: '1h' } };
  return { prices: hourly.rows, selection, note: 'The spread at the end of each hour: the range has too many quotes.' };
}

/** Loads the first rows of a range. `isCut` is true if there are more. */
async function loadPages<Row>(
  name: 'quotes' | 'orderbooks' | 'candles',
  symbol: string,
  { from, to }: TimeRange,
  rowsMax: number,
  signal: AbortSignal,
  parameters: Readonly<Record<string, string>> = {},
): Promise<{ rows: Row[]; isCut: boolean }> {
  const rows: Row[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pagesMax && rows.length < rowsMax; page++) {
    const query = { ...parameters, symbol, from, to, limit: Math.min(pageSize, rowsMax - rows.length), cursor };
    const response: Record<string, unknown> = await fetchJson(`/api/v1/historical/${name}`, query, signal);
    rows.push(...(response[name] as Row[]));
    cursor = response.next_cursor as string | null;
    if (cursor === null) return { rows, isCut: false };
  }
  return { rows, isCut: true };
}

function renderSpread(prices: readonly BestPrices[], range: TimeRange, signal: AbortSignal): Node[] {
  if (prices.length === 0)
    return [createElement('p', { class: 'empty' }, 'The archive has no quotes and order books in this range.')];
  const spreads = prices.map(computeSpread);
  const known = spreads.filter((spread) => spread !== null).sort((a, b) => a - b);
  const median = known[known.length >> 1];
  const label = median === undefined ? 'no spread: a side has no offer' : `median ${formatPrice(median)}`;
  return [
    renderSmallChart(
      {
        title: 'Spread',
        label: `Spread in the range: ${label}.`,
        x: prices.map(({ t }) => t),
        lines: [{ label, color: 'price', y: spreads }],
        xIs: 'time',
        range,
        formatY: formatPrice,
      },
      signal,
    ),
  ];
}

function renderDepths(books: readonly Book[], range: TimeRange, signal: AbortSignal): Node[] {
  if (books.length === 0) return [];
  const depths = computeDepths(books);
  return [
    renderSmallChart(
      {
        title: 'Depth over time',
        label: `Quantity on both sides of ${formatCount(books.length, 'order book')}.`,
        x: depths.map(({ t }) => t),
        lines: [
          { label: 'bids', color: 'up', y: depths.map(({ bids }) => bids) },
          { label: 'asks', color: 'down', y: depths.map(({ asks }) => asks) },
        ],
        xIs: 'time',
        range,
        formatY: formatQuantity,
      },
      signal,
    ),
  ];
}
