import { ApiError, fetchJson, isAbortError, toErrorMessage } from './api.ts';
import { createChart } from './chart.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { renderSliceDownloads } from './download.ts';
import { formatCount, formatDate, formatDuration, formatInteger, formatPrice, formatTime } from './format.ts';
import { type Candle, scaleRange, shiftRange, type TickLifetime } from './lines.ts';
import { type ChartData, loadChartData } from './load.ts';
import { updateView } from './navigation.ts';
import { formatMarketState, type Market, marketsPath } from './search.ts';
import { parseTime, type TimeRange, type View } from './view.ts';

const dayMs = 86_400_000;

/** A symbol with its chart, which follows the view until another symbol is looked at. */
export function createSymbolView(symbol: string) {
  const heading = createElement('h3', { class: 'ticker', tabindex: -1 }, symbol);
  const about = createElement('div', { class: 'about' }, renderLoading('Looking the symbol up…'));
  const controls = createElement('div', {});
  const figure = createElement('figure', { 'aria-busy': 'true' });
  const below = createElement('div', {});
  const root = createElement('article', { class: 'panel symbol' }, heading, about, controls, figure, below);
  let under = new AbortController();
  let drawn: ReturnType<typeof createChart> | null = null;
  let known: { life: TickLifetime; bounds: TimeRange } | null = null;

  const show = async (view: View): Promise<void> => {
    under.abort();
    under = new AbortController();
    const { signal } = under;
    figure.setAttribute('aria-busy', 'true');
    try {
      if (known === null) {
        const market = await fetchMarket(symbol, signal);
        const life = await fetchTickLifetime(symbol, market, signal);
        about.replaceChildren(...(market === null ? [] : renderFacts(market)));
        if (life === null) {
          figure.replaceChildren(createElement('p', { class: 'empty' }, 'The archive has no ticks of this symbol.'));
          return;
        }
        known = { life, bounds: { from: life.first, to: life.last + 1 } };
      }
      const { life, bounds } = known;
      const range = view.range ?? { from: Math.max(bounds.from, bounds.to - 7 * dayMs), to: bounds.to };
      replaceKeepingFocus(controls, renderRangeControls(view.chart, range, bounds));
      if (drawn === null) figure.replaceChildren(renderLoading('Loading prices…'));
      const loaded = await loadChartData(symbol, range, life, view.chart, signal);
      drawn?.destroy();
      drawn = createChart(loaded, view.chart, formatSummary(symbol, loaded), (marked) => updateView({ range: marked }));
      figure.replaceChildren(
        drawn.root,
        createElement(
          'figcaption',
          {},
          formatCaption(loaded),
          renderChartKey(loaded.kind === 'ticks' || view.chart === 'price'),
        ),
      );
      drawn.start();
      below.replaceChildren(renderSliceDownloads(symbol, range));
    } catch (error) {
      if (isAbortError(error)) return;
      about.querySelector('.waiting')?.remove();
      drawn?.destroy();
      drawn = null;
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
      under.abort();
      drawn?.destroy();
    },
  };
}

/** Whoever zooms by the keyboard is left on the button that zooms. */
function replaceKeepingFocus(place: HTMLElement, next: HTMLElement): void {
  const all = (root: HTMLElement) => [...root.querySelectorAll<HTMLElement>('button, input')];
  const nameOf = (one: HTMLElement): string => one.id || one.getAttribute('aria-label') || one.textContent;
  const focused = all(place).find((one) => one === document.activeElement);
  place.replaceChildren(next);
  if (focused !== undefined)
    all(next)
      .find((one) => nameOf(one) === nameOf(focused))
      ?.focus();
}

async function fetchMarket(symbol: string, signal: AbortSignal): Promise<Market | null> {
  const asked = { symbol, limit: 1 };
  const { markets } = await fetchJson<{ markets: readonly Market[] }>(marketsPath, asked, signal).catch(
    (error: unknown) => {
      if (error instanceof ApiError && error.status === 404)
        throw new ApiError(404, 'The archive knows no symbol of this name.');
      throw error;
    },
  );
  return markets[0] ?? null;
}

/** First and last tick, the ones included that are not published yet; null where there are none. */
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
  // Ticks that files brought have no market; a candle of their first day says when they begin, and how many there may be.
  const asked = { symbol, interval: '1d', limit: 1 };
  const { candles } = await fetchJson<{ candles: readonly Candle[] }>('/api/v1/historical/candles', asked, signal);
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

/** What is drawn, for those who see it. */
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
    createElement('span', { class: 'nowrap' }, createElement('i', { class: 'key-gap' }), 'gap: nothing is known'),
    createElement(
      'span',
      { class: 'nowrap' },
      createElement('i', { class: line ? 'key-line' : 'key-quiet' }),
      line ? 'the line goes on: covered, even without a tick' : 'blank: covered, no tick',
    ),
  );

/** The same for those who do not: what the prices did. */
function formatSummary(symbol: string, loaded: ChartData): string {
  const prices = loaded.kind === 'ticks' ? loaded.ticks.map(({ p }) => p) : loaded.candles.map(({ close }) => close);
  const [least, most] =
    loaded.kind === 'ticks' ? [prices, prices] : [loaded.candles.map((c) => c.low), loaded.candles.map((c) => c.high)];
  if (prices.length === 0)
    return `${symbol}: no ticks from ${formatDate(loaded.range.from)} to ${formatDate(loaded.range.to)}`;
  const low = least.reduce((a, b) => Math.min(a, b));
  const high = most.reduce((a, b) => Math.max(a, b));
  const ends = `${formatPrice(prices[0]!)} at first, ${formatPrice(prices.at(-1)!)} at last`;
  return `Prices of ${symbol}: ${ends}, between ${formatPrice(low)} and ${formatPrice(high)}. ${formatCaption(loaded)}`;
}

const presets = [
  { label: '1 day', ms: dayMs },
  { label: '7 days', ms: 7 * dayMs },
  { label: '30 days', ms: 30 * dayMs },
  { label: 'All', ms: Number.POSITIVE_INFINITY },
] as const;

/** What is drawn and of which stretch of `bounds`: every way of choosing it works without a mouse, too. */
export function renderRangeControls(kind: View['chart'], range: TimeRange, bounds: TimeRange): HTMLElement {
  const button = (label: string, pressed: boolean | null, act: () => void, name: string | null = null): HTMLElement =>
    createElement(
      'button',
      { type: 'button', 'aria-pressed': pressed === null ? null : String(pressed), 'aria-label': name, onclick: act },
      label,
    );
  const group = (label: string, ...buttons: HTMLElement[]): HTMLElement =>
    createElement('div', { class: 'joined', role: 'group', 'aria-label': label }, ...buttons);
  const shown = (next: TimeRange) => () => updateView({ range: next });
  return createElement(
    'div',
    { class: 'controls' },
    group(
      'Drawn as',
      button('Price', kind === 'price', () => updateView({ chart: 'price' })),
      button('Candles', kind === 'candles', () => updateView({ chart: 'candles' })),
    ),
    group(
      'Stretch',
      // Of a life of four days 7 and 30 would be the same as all of it.
      ...presets
        .filter(({ ms }) => ms < bounds.to - bounds.from || ms === Number.POSITIVE_INFINITY)
        .map(({ label, ms }) => {
          const stretch = { from: Math.max(bounds.from, bounds.to - ms), to: bounds.to };
          const same = stretch.from === range.from && stretch.to === range.to;
          return button(label, same, shown(stretch));
        }),
    ),
    group(
      'Move and zoom',
      button('‹', null, shown(shiftRange(range, -0.5, bounds)), 'Earlier'),
      button('›', null, shown(shiftRange(range, 0.5, bounds)), 'Later'),
      button('+', null, shown(scaleRange(range, 0.5, bounds)), 'Zoom in'),
      button('−', null, shown(scaleRange(range, 2, bounds)), 'Zoom out'),
    ),
    renderExactRange(range),
  );
}

/** From and to as they are typed, in UTC. */
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
    const good = start !== null && end !== null && start < end;
    to.setCustomValidity(good ? '' : 'It has to end after it starts.');
    if (good) updateView({ range: { from: start, to: end } });
    else to.reportValidity();
  });
  to.addEventListener('input', () => to.setCustomValidity(''));
  from.addEventListener('input', () => to.setCustomValidity(''));
  return form;
}
