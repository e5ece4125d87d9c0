import { ApiError, fetchJson, isAbortError, toErrorMessage } from './api.ts';
import { createChart } from './chart.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { renderSliceDownloads } from './download.ts';
import { dayMs, formatCount, formatDate, formatDuration, formatInteger, formatPrice, formatTime } from './format.ts';
import { type Candle, scaleRange, shiftRange, type TickLifetime } from './lines.ts';
import { type ChartData, loadChartData } from './load.ts';
import { updateView } from './navigation.ts';
import { formatMarketState, type Market, marketsPath } from './search.ts';
import { parseTime, type TimeRange, type View } from './view.ts';

/** Renders a symbol with its chart, and updates the chart when the view changes. */
export function createSymbolView(symbol: string) {
  const heading = createElement('h3', { class: 'ticker', tabindex: -1 }, symbol);
  const about = createElement('div', { class: 'about' }, renderLoading('Loading the symbol…'));
  const controls = createElement('div', {});
  const figure = createElement('figure', { 'aria-busy': 'true' });
  const below = createElement('div', {});
  const root = createElement('article', { class: 'panel symbol' }, heading, about, controls, figure, below);
  let running = new AbortController();
  let chart: ReturnType<typeof createChart> | null = null;
  let loadedSymbol: { life: TickLifetime; bounds: TimeRange } | null = null;

  const show = async (view: View): Promise<void> => {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    figure.setAttribute('aria-busy', 'true');
    try {
      if (loadedSymbol === null) {
        const market = await fetchMarket(symbol, signal);
        const lifetime = await fetchTickLifetime(symbol, market, signal);
        about.replaceChildren(...(market === null ? [] : renderFacts(market)));
        if (lifetime === null) {
          figure.replaceChildren(createElement('p', { class: 'empty' }, 'The archive has no ticks for this symbol.'));
          return;
        }
        loadedSymbol = { life: lifetime, bounds: { from: lifetime.first, to: lifetime.last + 1 } };
      }
      const { life: lifetime, bounds } = loadedSymbol;
      const range = view.range ?? { from: Math.max(bounds.from, bounds.to - 7 * dayMs), to: bounds.to };
      replaceKeepingFocus(controls, renderRangeControls(view.chart, range, bounds));
      if (chart === null) figure.replaceChildren(renderLoading('Loading prices…'));
      const loaded = await loadChartData(symbol, range, lifetime, view.chart, signal);
      chart?.destroy();
      chart = createChart(loaded, view.chart, formatSummary(symbol, loaded), (marked) => updateView({ range: marked }));
      figure.replaceChildren(
        chart.root,
        createElement(
          'figcaption',
          {},
          formatCaption(loaded),
          renderChartKey(loaded.kind === 'ticks' || view.chart === 'price'),
        ),
      );
      chart.start();
      below.replaceChildren(renderSliceDownloads(symbol, range));
    } catch (error) {
      if (isAbortError(error)) return;
      about.querySelector('.waiting')?.remove();
      chart?.destroy();
      chart = null;
      figure.replaceChildren(renderError(toErrorMessage(error), () => void show(view)));
    } finally {
      if (!signal.aborted) figure.removeAttribute('aria-busy');
    }
  };
  return {
    root,
    heading,
    show,
    destroy(): void {
      running.abort();
      chart?.destroy();
    },
  };
}

/** Replaces the controls. Keeps the focus on the same control, for keyboard users. */
function replaceKeepingFocus(container: HTMLElement, next: HTMLElement): void {
  const all = (root: HTMLElement) => [...root.querySelectorAll<HTMLElement>('button, input')];
  const nameOf = (one: HTMLElement): string => one.id || one.getAttribute('aria-label') || one.textContent;
  const focused = all(container).find((one) => one === document.activeElement);
  container.replaceChildren(next);
  if (focused !== undefined)
    all(next)
      .find((one) => nameOf(one) === nameOf(focused))
      ?.focus();
}

async function fetchMarket(symbol: string, signal: AbortSignal): Promise<Market | null> {
  const query = { symbol, limit: 1 };
  const { markets } = await fetchJson<{ markets: readonly Market[] }>(marketsPath, query, signal).catch(
    (error: unknown) => {
      if (error instanceof ApiError && error.status === 404)
        throw new ApiError(404, 'The archive has no symbol with this name.');
      throw error;
    },
  );
  return markets[0] ?? null;
}

/** First and last tick, including unpublished ticks; null if there are none. */
async function fetchTickLifetime(
  symbol: string,
  market: Market | null,
  signal: AbortSignal,
): Promise<TickLifetime | null> {
  const { ticks } = await fetchJson<{ ticks: readonly { t: number }[] }>('/api/v1/ticks', { symbol, limit: 1 }, signal);
  const latest = ticks.at(-1)?.t ?? market?.last_tick ?? null;
  if (latest === null) return null;
  const last = Math.max(latest, market?.last_tick ?? latest);
  const first = market?.first_tick ?? null;
  if (market !== null && first !== null) return { first, last, ticks: market.ticks };
  // An imported symbol may have no market. Its first daily candle then gives the start, and an estimate of the number of ticks.
  const query = { symbol, interval: '1d', limit: 1 };
  const { candles } = await fetchJson<{ candles: readonly Candle[] }>('/api/v1/historical/candles', query, signal);
  const day = candles[0];
  if (day === undefined) return { first: Math.max(0, last - dayMs), last, ticks: 0 };
  return { first: day.t, last, ticks: Math.ceil((day.ticks * (last + 1 - day.t)) / dayMs) };
}

function renderFacts(market: Market): Node[] {
  const { question, source, category, opens_at, closes_at, resolved_at, ticks, first_tick, last_tick } = market;
  const fact = (name: string, value: string | null): Node[] =>
    value === null ? [] : [createElement('div', {}, createElement('dt', {}, name), createElement('dd', {}, value))];
  const time = (t: number | null): string | null => (t === null ? null : formatTime(t - (t % 1000)));
  return [
    question === null ? '' : createElement('p', { class: 'question' }, question),
    createElement(
      'dl',
      { class: 'facts' },
      ...fact('State', formatMarketState(market)),
      ...fact('Venue', source),
      ...fact('Category', category),
      ...fact('Ticks', formatInteger(ticks)),
      ...fact('Ticks from', time(first_tick)),
      ...fact('Ticks to', time(last_tick)),
      ...fact('Opens', time(opens_at)),
      ...fact('Closes', time(closes_at)),
      ...fact('Resolved', time(resolved_at)),
    ),
  ].filter((node) => node !== '') as Node[];
}

/** The visible caption of the chart. */
function formatCaption(loaded: ChartData): string {
  const from = Math.floor(loaded.range.from / 1000) * 1000;
  const to = Math.ceil(loaded.range.to / 1000) * 1000;
  const what =
    loaded.kind === 'ticks'
      ? formatCount(loaded.ticks.length, 'tick')
      : `${formatCount(loaded.candles.length, 'candle')} of ${loaded.interval.name}`;
  const gaps = loaded.gaps.length === 0 ? 'no gap' : formatCount(loaded.gaps.length, 'gap');
  return `${what}, ${gaps}, ${formatTime(from)} to ${formatTime(to)} UTC (${formatDuration(to - from)}). `;
}

const renderChartKey = (line: boolean): HTMLElement =>
  createElement(
    'span',
    { class: 'keys' },
    createElement('span', { class: 'nowrap' }, createElement('i', { class: 'key-gap' }), 'gap: not covered'),
    createElement(
      'span',
      { class: 'nowrap' },
      createElement('i', { class: line ? 'key-line' : 'key-quiet' }),
      line ? 'line: covered, even without ticks' : 'blank: covered, no ticks',
    ),
  );

/** The description of the chart for screen readers. */
function formatSummary(symbol: string, loaded: ChartData): string {
  const prices = loaded.kind === 'ticks' ? loaded.ticks.map(({ p }) => p) : loaded.candles.map(({ close }) => close);
  const [lows, highs] =
    loaded.kind === 'ticks' ? [prices, prices] : [loaded.candles.map((c) => c.low), loaded.candles.map((c) => c.high)];
  if (prices.length === 0)
    return `${symbol}: no ticks from ${formatDate(loaded.range.from)} to ${formatDate(loaded.range.to)}`;
  const low = lows.reduce((a, b) => Math.min(a, b));
  const high = highs.reduce((a, b) => Math.max(a, b));
  const ends = `${formatPrice(prices[0]!)} at the start, ${formatPrice(prices.at(-1)!)} at the end`;
  return `Prices of ${symbol}: ${ends}, between ${formatPrice(low)} and ${formatPrice(high)}. ${formatCaption(loaded)}`;
}

const presets = [
  { label: '1 day', ms: dayMs },
  { label: '7 days', ms: 7 * dayMs },
  { label: '30 days', ms: 30 * dayMs },
  { label: 'All', ms: Number.POSITIVE_INFINITY },
] as const;

/** Controls of the chart type and range. All of them can be used with the keyboard. */
export function renderRangeControls(kind: View['chart'], range: TimeRange, bounds: TimeRange): HTMLElement {
  const button = (label: string, pressed: boolean | null, act: () => void, name: string | null = null): HTMLElement =>
    createElement(
      'button',
      { type: 'button', 'aria-pressed': pressed === null ? null : String(pressed), 'aria-label': name, onclick: act },
      label,
    );
  const group = (label: string, ...buttons: HTMLElement[]): HTMLElement =>
    createElement('div', { class: 'joined', role: 'group', 'aria-label': label }, ...buttons);
  const showRange = (next: TimeRange) => () => updateView({ range: next });
  return createElement(
    'div',
    { class: 'controls' },
    group(
      'Chart type',
      button('Price', kind === 'price', () => updateView({ chart: 'price' })),
      button('Candles', kind === 'candles', () => updateView({ chart: 'candles' })),
    ),
    group(
      'Range',
      // A preset longer than the lifetime would be the same as All.
      ...presets
        .filter(({ ms }) => ms < bounds.to - bounds.from || ms === Number.POSITIVE_INFINITY)
        .map(({ label, ms }) => {
          const presetRange = { from: Math.max(bounds.from, bounds.to - ms), to: bounds.to };
          const same = presetRange.from === range.from && presetRange.to === range.to;
          return button(label, same, showRange(presetRange));
        }),
    ),
    group(
      'Move and zoom',
      button('‹', null, showRange(shiftRange(range, -0.5, bounds)), 'Earlier'),
      button('›', null, showRange(shiftRange(range, 0.5, bounds)), 'Later'),
      button('+', null, showRange(scaleRange(range, 0.5, bounds)), 'Zoom in'),
      button('−', null, showRange(scaleRange(range, 2, bounds)), 'Zoom out'),
    ),
    renderExactRange(range),
  );
}

/** Inputs for the exact range, in UTC. */
function renderExactRange(range: TimeRange): HTMLElement {
  const field = (id: string, label: string, t: number): [HTMLElement, HTMLInputElement] => {
    const value = new Date(t).toISOString().slice(0, 19);
    const input = createElement('input', { id, type: 'datetime-local', step: 1, required: true, value });
    return [createElement('label', { for: id }, label), input];
  };
  const [fromLabel, from] = field('range-from', 'From (UTC)', range.from);
  const [toLabel, to] = field('range-to', 'To (UTC)', Math.ceil(range.to / 1000) * 1000);
  const form = createElement(
    'form',
    { class: 'exact' },
    createElement('span', {}, fromLabel, from),
    createElement('span', {}, toLabel, to),
    createElement('button', { type: 'submit' }, 'Show'),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const [start, end] = [parseTime(`${from.value}Z`), parseTime(`${to.value}Z`)];
    const isValid = start !== null && end !== null && start < end;
    to.setCustomValidity(isValid ? '' : 'The end must be after the start.');
    if (isValid) updateView({ range: { from: start, to: end } });
    else to.reportValidity();
  });
  to.addEventListener('input', () => to.setCustomValidity(''));
  from.addEventListener('input', () => to.setCustomValidity(''));
  return form;
}
