import { formatNumber } from '../../../base/format-quantity.ts';
import { dayMs } from '../../../base/window.ts';
import type { FoundSymbol, SymbolsResponse } from '../../../contract/symbols.ts';
import { ApiError, fetchJson, getServedAt } from './api.ts';
import { quoteShell } from './archive-file.ts';
import { html } from './dom.ts';
import { formatTime } from './format.ts';
import type { Candle, TickLifetime } from './lines.ts';
import { formatMarketState, marketsPath, symbolsPath } from './search.ts';
import { type Market, nameClose, nameOpening } from './timeline.ts';
import type { TimeRange, View } from './view.ts';

/** What a tab is rendered from. */
export interface TabContext {
  readonly symbol: string;
  readonly market: Market | null;
  readonly range: TimeRange;
  readonly view: View;
  readonly signal: AbortSignal;
}

/** The market of a symbol; null if no market list names it. @throws ApiError if the archive has no such symbol */
export async function fetchMarket(symbol: string, signal: AbortSignal): Promise<Market | null> {
  const query = { symbol, limit: 10 };
  const { markets } = await fetchJson<{ markets: readonly Market[] }>(marketsPath, query, signal).catch(
    (error: unknown) => {
      if (error instanceof ApiError && error.status === 404)
        throw new ApiError(404, 'The archive has no symbol with this name.');
      throw error;
    },
  );
  // If a match across venues is uncertain, a symbol has several markets: the most certain one is shown.
  return [...markets].sort((a, b) => (b.confidence ?? 0) - (a.confidence ?? 0))[0] ?? null;
}

/** What the search says of a symbol; null if it does not hold it. */
export async function fetchFoundSymbol(symbol: string, signal: AbortSignal): Promise<FoundSymbol | null> {
  // A symbol with exactly this name comes first.
  const { symbols } = await fetchJson<SymbolsResponse>(symbolsPath, { q: symbol, limit: 1 }, signal);
  return symbols.find((found) => found.symbol === symbol) ?? null;
}

/** First and last tick, including unpublished ticks; null if there are none. */
export async function fetchTickLifetime(
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

/** A longer question may have to be scrolled, with the keyboard too. */
const questionShownMax = 120;

/**
 * Renders that a symbol is not collected: since when, what that means, and what collects it again. A market that has ended
 * is not collected again.
 */
export function renderNotCollected({ symbol, state, not_collected }: FoundSymbol): HTMLElement | null {
  if (not_collected === null) return null;
  const { kind, since, reason, decided_at } = not_collected;
  const time = (t: number): string => formatTime(t - (t % 1000));
  const meaning =
    since === null
      ? 'nothing was collected before, and nothing is expected.'
      : `nothing is expected from ${time(since)} on, and the ticks before stay.`;
  const because = reason === null ? '' : ` (${reason})`;
  const command = `oddslake symbols watch ${symbol.startsWith('-') ? '-- ' : ''}${quoteShell(symbol)}`;
  const isForgotten = kind === 'forgotten';
  const how = isForgotten ? '' : 'change source.include or source.exclude, or ';
  return html`
    <p class="not-collected">
      ${isForgotten ? 'Forgotten' : 'Excluded by the settings'} since ${time(decided_at)}${because}: ${meaning}
      ${state === kind && [` To collect it again, ${how}run `, html`<code>${command}</code>`]}
    </p>`;
}

/**
 * Renders the question and the facts of a market.
 * @param found what the search says of its symbol
 */
export function renderFacts(market: Market, found: FoundSymbol | null): HTMLElement[] {
  const { question, source, category, opens_at, closes_at, resolved_at, ticks, first_tick, last_tick } = market;
  const nowMs = getServedAt();
  const fact = (name: string, value: string | null) =>
    value !== null && html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  const time = (t: number | null): string | null => (t === null ? null : formatTime(t - (t % 1000)));
  const state = found !== null && found.state === found.not_collected?.kind ? found.state : formatMarketState(market);
  const facts = html`
    <dl class="facts">
      ${fact('State', state)}
      ${fact('Venue', source)}
      ${fact('Category', category)}
      ${fact('Ticks', formatNumber(ticks))}
      ${fact('Ticks from', time(first_tick))}
      ${fact('Ticks to', time(last_tick))}
      ${fact(nameOpening(opens_at, nowMs), time(opens_at))}
      ${fact(nameClose(closes_at, market.is_active, nowMs), time(closes_at))}
      ${fact('Resolved', time(resolved_at))}
    </dl>`;
  if (question === null) return [facts];
  return [html`<p class="question" tabindex=${question.length > questionShownMax && 0}>${question}</p>`, facts];
}
