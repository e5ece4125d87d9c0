import { ApiError, askJson, isAbort, sentenceOf } from './api.ts';
import { chart } from './chart.ts';
import { el, failed, waiting } from './dom.ts';
import { counted, dayText, grouped, lasting, priceText, timeText } from './format.ts';
import type { Life } from './intervals.ts';
import type { Candle } from './lines.ts';
import { type Loaded, load } from './load.ts';
import { go } from './navigation.ts';
import { rangeControls } from './range-controls.ts';
import { type Market, marketsPath, stateOf } from './search.ts';
import { sliceDownloads } from './slice-downloads.ts';
import type { Range, View } from './view.ts';

const dayMs = 86_400_000;

/** A symbol with its chart, which follows the view until another symbol is looked at. */
export function symbolView(symbol: string) {
  const heading = el('h3', { class: 'ticker', tabindex: -1 }, symbol);
  const about = el('div', { class: 'about' }, waiting('Looking the symbol up…'));
  const controls = el('div', {});
  const figure = el('figure', { 'aria-busy': 'true' });
  const below = el('div', {});
  const root = el('article', { class: 'panel symbol' }, heading, about, controls, figure, below);
  let under = new AbortController();
  let drawn: ReturnType<typeof chart> | null = null;
  let known: { life: Life; bounds: Range } | null = null;

  const show = async (view: View): Promise<void> => {
    under.abort();
    under = new AbortController();
    const { signal } = under;
    figure.setAttribute('aria-busy', 'true');
    try {
      if (known === null) {
        const market = await marketOf(symbol, signal);
        const life = await lifeOf(symbol, market, signal);
        about.replaceChildren(...(market === null ? [] : facts(market)));
        if (life === null) {
          figure.replaceChildren(el('p', { class: 'empty' }, 'The archive has no ticks of this symbol.'));
          return;
        }
        known = { life, bounds: { from: life.first, to: life.last + 1 } };
      }
      const { life, bounds } = known;
      const range = view.range ?? { from: Math.max(bounds.from, bounds.to - 7 * dayMs), to: bounds.to };
      replaceKeepingFocus(controls, rangeControls(view.chart, range, bounds));
      if (drawn === null) figure.replaceChildren(waiting('Loading prices…'));
      const loaded = await load(symbol, range, life, view.chart, signal);
      drawn?.destroy();
      drawn = chart(loaded, view.chart, summary(symbol, loaded), (marked) => go({ range: marked }));
      figure.replaceChildren(
        drawn.root,
        el('figcaption', {}, caption(loaded), key(loaded.kind === 'ticks' || view.chart === 'price')),
      );
      drawn.start();
      below.replaceChildren(sliceDownloads(symbol, range));
    } catch (error) {
      if (isAbort(error)) return;
      about.querySelector('.waiting')?.remove();
      drawn?.destroy();
      drawn = null;
      figure.replaceChildren(failed(sentenceOf(error), () => void show(view)));
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

async function marketOf(symbol: string, signal: AbortSignal): Promise<Market | null> {
  const asked = { symbol, limit: 1 };
  const { markets } = await askJson<{ markets: readonly Market[] }>(marketsPath, asked, signal).catch(
    (error: unknown) => {
      if (error instanceof ApiError && error.status === 404)
        throw new ApiError(404, 'The archive knows no symbol of this name.');
      throw error;
    },
  );
  return markets[0] ?? null;
}

/** First and last tick, the ones included that are not published yet; null where there are none. */
async function lifeOf(symbol: string, market: Market | null, signal: AbortSignal): Promise<Life | null> {
  const { ticks } = await askJson<{ ticks: readonly { t: number }[] }>('/api/v1/ticks', { symbol, limit: 1 }, signal);
  const latest = ticks.at(-1)?.t ?? market?.last_tick ?? null;
  if (latest === null) return null;
  const last = Math.max(latest, market?.last_tick ?? latest);
  const first = market?.first_tick ?? null;
  if (market !== null && first !== null) return { first, last, ticks: market.ticks };
  // Ticks that files brought have no market; a candle of their first day says when they begin, and how many there may be.
  const asked = { symbol, interval: '1d', limit: 1 };
  const { candles } = await askJson<{ candles: readonly Candle[] }>('/api/v1/historical/candles', asked, signal);
  const day = candles[0];
  if (day === undefined) return { first: Math.max(0, last - dayMs), last, ticks: 0 };
  return { first: day.t, last, ticks: Math.ceil((day.ticks * (last + 1 - day.t)) / dayMs) };
}

function facts(market: Market): Node[] {
  const { question, source, category, opens_at, closes_at, resolved_at, ticks, first_tick, last_tick } = market;
  const fact = (name: string, value: string | null): Node[] =>
    value === null ? [] : [el('div', {}, el('dt', {}, name), el('dd', {}, value))];
  const time = (t: number | null): string | null => (t === null ? null : timeText(t - (t % 1000)));
  return [
    question === null ? '' : el('p', { class: 'question' }, question),
    el(
      'dl',
      { class: 'facts' },
      ...fact('State', stateOf(market)),
      ...fact('Venue', source),
      ...fact('Category', category),
      ...fact('Ticks', grouped(ticks)),
      ...fact('Ticks from', time(first_tick)),
      ...fact('Ticks to', time(last_tick)),
      ...fact('Opens', time(opens_at)),
      ...fact('Closes', time(closes_at)),
      ...fact('Resolved', time(resolved_at)),
    ),
  ].filter((node) => node !== '') as Node[];
}

/** What is drawn, for those who see it. */
function caption(loaded: Loaded): string {
  const from = Math.floor(loaded.range.from / 1000) * 1000;
  const to = Math.ceil(loaded.range.to / 1000) * 1000;
  const what =
    loaded.kind === 'ticks'
      ? counted(loaded.ticks.length, 'tick')
      : `${counted(loaded.candles.length, 'candle')} of ${loaded.interval.name}`;
  const gaps = loaded.gaps.length === 0 ? 'no gap' : counted(loaded.gaps.length, 'gap');
  return `${what}, ${gaps}, ${timeText(from)} to ${timeText(to)} UTC (${lasting(to - from)}). `;
}

const key = (line: boolean): HTMLElement =>
  el(
    'span',
    { class: 'keys' },
    el('span', { class: 'nowrap' }, el('i', { class: 'key-gap' }), 'gap: nothing is known'),
    el(
      'span',
      { class: 'nowrap' },
      el('i', { class: line ? 'key-line' : 'key-quiet' }),
      line ? 'the line goes on: covered, even without a tick' : 'blank: covered, no tick',
    ),
  );

/** The same for those who do not: what the prices did. */
function summary(symbol: string, loaded: Loaded): string {
  const prices = loaded.kind === 'ticks' ? loaded.ticks.map(({ p }) => p) : loaded.candles.map(({ close }) => close);
  const [least, most] =
    loaded.kind === 'ticks' ? [prices, prices] : [loaded.candles.map((c) => c.low), loaded.candles.map((c) => c.high)];
  if (prices.length === 0)
    return `${symbol}: no ticks from ${dayText(loaded.range.from)} to ${dayText(loaded.range.to)}`;
  const low = least.reduce((a, b) => Math.min(a, b));
  const high = most.reduce((a, b) => Math.max(a, b));
  const ends = `${priceText(prices[0]!)} at first, ${priceText(prices.at(-1)!)} at last`;
  return `Prices of ${symbol}: ${ends}, between ${priceText(low)} and ${priceText(high)}. ${caption(loaded)}`;
}
