import { formatCount, formatPlainNumber } from '../../../base/format-quantity.ts';
import { ApiError, fetchJson, fetchRows } from './api.ts';
import { type BestPrices, type Book, computeDepths, computeSpread, cumulateDepth, toBestPrices } from './book-depth.ts';
import { renderCode } from './code-panel.ts';
import { html, renderLoaded, renderTableHead } from './dom.ts';
import { formatQuantity, formatTime } from './format.ts';
import { renderSmallChart } from './small-chart.ts';
import type { Selection } from './snippets.ts';
import type { TabContext } from './symbol-facts.ts';
import type { TimeRange } from './view.ts';

const levelsShownMax = 10;
const snapshotsMax = 5000;
const quotesMax = 20_000;

/** Formats a quantity with at most two decimals. */
const formatRounded = (quantity: number): string => formatQuantity(Number(quantity.toFixed(2)));

/** Renders the order book: the depth now, and spread and depth in the range. */
export function renderBookPanel({ symbol, range, view, signal }: TabContext): HTMLElement {
  const loadNow = async () => renderDepthNow(await fetchLatestBook(symbol, signal), signal);
  const loadPast = async () => {
    const [quotes, books] = await Promise.all([
      loadBestPrices(symbol, range, signal),
      fetchRows<Book>('orderbooks', { symbol, ...range }, snapshotsMax, signal),
    ]);
    const best = quotes ?? { prices: toBestPrices(books.rows), selection: null, note: '' };
    const selection: Selection = best.selection ?? { name: 'orderbooks', symbols: [symbol], ...range };
    const what = { quotes: 'these quotes', candles: 'these candles' }[selection.name] ?? 'these order books';
    const cut = books.isCut && `Only the first ${formatCount(books.rows.length, 'order book')} of the range are shown.`;
    return [
      renderSpread(best.prices, range, signal),
      books.rows.length > 0 && renderDepths(books.rows, range, signal),
      html`<p class="note">${[best.note, cut].filter(Boolean).join(' ')}</p>`,
      renderCode(what, selection, view.code ?? 'duckdb'),
    ];
  };
  return html`
    <div class="book-panel">
      ${renderLoaded('Loading the order book…', loadNow, 'book-now')}
      ${renderLoaded('Loading quotes…', loadPast, 'book-past')}
    </div>`;
}

async function fetchLatestBook(symbol: string, signal: AbortSignal): Promise<Book | null> {
  return await fetchJson<Book>('/api/v1/orderbook', { symbol }, signal).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  });
}

function renderDepthNow(book: Book | null, signal: AbortSignal): HTMLElement[] {
  if (book === null) return [html`<p class="empty">The archive has no order book of this symbol.</p>`];
  const { bids, asks, t } = book;
  const title = html`<h4 aria-level="2">Order book of <span class="nowrap">${formatTime(t)} UTC</span></h4>`;
  if (bids.length + asks.length === 0) return [title, html`<p class="empty">It is empty.</p>`];
  const { x, bids: below, asks: above } = cumulateDepth(book);
  const best = toBestPrices([book])[0]!;
  const spread = computeSpread(best);
  const [bid, ask] = [best.bid, best.ask].map((price) => (price === null ? 'none' : formatPlainNumber(price)));
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
      formatY: formatRounded,
      formatX: formatPlainNumber,
    },
    signal,
  );
  const offered = `Bid ${bid} · ask ${ask}${spread === null ? '' : ` · spread ${formatPlainNumber(spread)}`}`;
  return [title, html`<p class="note">${offered}</p>`, chart, renderLevels(book)];
}

function renderLevels({ bids, asks }: Book): HTMLElement {
  const longest = Math.max(bids.length, asks.length);
  const count = Math.min(levelsShownMax, longest);
  const rows = Array.from({ length: count }, (_, i) => {
    const [bid, ask] = [bids[i], asks[i]];
    return html`
      <tr>
        <td>${bid && formatRounded(bid.quantity)}</td>
        <td>${bid && formatPlainNumber(bid.price)}</td>
        <td>${ask && formatPlainNumber(ask.price)}</td>
        <td>${ask && formatRounded(ask.quantity)}</td>
      </tr>`;
  });
  return html`
    <div>
      <table class="levels">
        ${renderTableHead(['Bid quantity', 'Bid', 'Ask', 'Ask quantity'])}
        <tbody>${rows}</tbody>
      </table>
      ${longest > count && html`<p class="note">${formatCount(longest - count, 'more level')} in the archive.</p>`}
    </div>`;
}

/** Quotes of the range or, if there are too many, bid and ask of hourly candles; null if there are none. */
async function loadBestPrices(symbol: string, range: TimeRange, signal: AbortSignal) {
  const query = { symbol, ...range };
  const { rows, isCut } = await fetchRows<BestPrices>('quotes', query, quotesMax, signal);
  if (rows.length === 0) return null;
  const rest = { symbols: [symbol], ...range };
  if (!isCut)
    return { prices: rows, selection: { name: 'quotes', ...rest }, note: `${formatCount(rows.length, 'quote')}.` };
  const parameters = { interval: '1h' };
  const hourly = await fetchRows<BestPrices>('candles', { ...query, ...parameters }, quotesMax, signal);
  const note = 'The spread at the end of each hour: the range has too many quotes.';
  return { prices: hourly.rows, selection: { name: 'candles', ...rest, parameters }, note };
}

function renderSpread(prices: readonly BestPrices[], range: TimeRange, signal: AbortSignal): HTMLElement {
  if (prices.length === 0) return html`<p class="empty">The archive has no quotes and order books in this range.</p>`;
  const spreads = prices.map(computeSpread);
  const known = spreads.filter((spread) => spread !== null).sort((a, b) => a - b);
  const median = known[known.length >> 1];
  const label = median === undefined ? 'no spread: a side has no offer' : `median ${formatPlainNumber(median)}`;
  return renderSmallChart(
    {
      title: 'Spread',
      label: `Spread in the range: ${label}.`,
      x: prices.map(({ t }) => t),
      lines: [{ label, color: 'price', y: spreads }],
      xIs: 'time',
      range,
      formatY: formatPlainNumber,
    },
    signal,
  );
}

function renderDepths(books: readonly Book[], range: TimeRange, signal: AbortSignal): HTMLElement {
  const depths = computeDepths(books);
  return renderSmallChart(
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
      formatY: formatRounded,
    },
    signal,
  );
}
