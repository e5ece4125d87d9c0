import { formatCount } from '../../../base/format-quantity.ts';
import { fetchApi, fetchJson, getServedAt } from './api.ts';
import { fillElement, html, renderLoaded } from './dom.ts';
import { formatTime } from './format.ts';
import { getView } from './navigation.ts';
import { formatMarketState, marketsPath } from './search.ts';
import { listMarketEvents, type Market, type MarketEvent } from './timeline.ts';
import { formatHash } from './view.ts';

/** Maximum number of related markets that are shown. */
const relatedMax = 40;

/** Renders the history of a market, its rules and its related markets. */
export function renderMarketPanel(market: Market, signal: AbortSignal): HTMLElement {
  const rules = html`<div></div>`;
  if (market.rules_sha256 !== null) void fillElement(rules, () => loadRules(market, signal));
  return html`
    <div class="market-panel">
      <div>
        <h4 aria-level="2">History</h4>
        ${renderTimeline(listMarketEvents(market, getServedAt()))}
        ${rules}
      </div>
      ${renderLoaded('Loading related markets…', () => loadRelated(market, signal), 'related')}
    </div>`;
}

const sources: Readonly<Record<MarketEvent['from'], string>> = {
  schedule: 'as the venue states it',
  poll: 'poll that showed it first',
  tick: 'time of the tick',
};

const renderTimeline = (events: readonly MarketEvent[]): HTMLElement => html`
  <ol class="timeline">
    ${events.map(
      ({ t, what, from }) => html`
        <li class=${from} title=${sources[from]}>
          <time datetime=${new Date(t).toISOString()}>${formatTime(t - (t % 1000))}</time>
          <span>${what}</span>
        </li>`,
    )}
  </ol>`;

/** Loads the text of the rules: only the formats with rows have it. */
async function loadRules(market: Market, signal: AbortSignal): Promise<HTMLElement | null> {
  const { symbol, canonical_id, last_seen } = market;
  const query = new URLSearchParams({
    symbol: symbol!,
    canonical_id,
    from: String(last_seen),
    to: String(last_seen + 1),
    limit: '10',
    format: 'ndjson',
  });
  const lines = (await (await fetchApi(`${marketsPath}?${query}`, signal)).text()).trim().split('\n');
  const rows = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as { rules?: string | null });
  const rules = rows.at(-1)?.rules ?? null;
  if (rules === null) return null;
  return html`
    <details class="rules" open=${rules.length < 600}>
      <summary>Rules</summary>
      <p tabindex="0">${rules}</p>
    </details>`;
}

interface MarketsResponse {
  readonly markets: readonly Market[];
  readonly total: number;
}

async function loadRelated(market: Market, signal: AbortSignal): Promise<HTMLElement[]> {
  const { canonical_id, event, symbol } = market;
  const load = (query: Record<string, string>) =>
    fetchJson<MarketsResponse>(marketsPath, { ...query, limit: relatedMax + 1 }, signal);
  const [same, ofEvent] = await Promise.all([
    load({ canonical_id }),
    event === null ? { markets: [], total: 0 } : load({ event }),
  ]);
  const twins = same.markets.filter((one) => one.symbol !== symbol);
  const known = new Set([symbol, ...twins.map((one) => one.symbol)]);
  const siblings = ofEvent.markets.filter((one) => !known.has(one.symbol));
  if (twins.length + siblings.length === 0)
    return [html`<h4 aria-level="2">Related markets</h4>`, html`<p class="note">The archive has none.</p>`];
  return [
    ...renderGroup('The same market on other venues', twins, twins.length),
    ...renderGroup(`Markets of its event${event === null ? '' : ` ${event}`}`, siblings, ofEvent.total - 1),
  ];
}

function renderGroup(title: string, markets: readonly Market[], total: number): HTMLElement[] {
  const listed = markets.filter((one) => one.symbol !== null).slice(0, relatedMax);
  if (listed.length === 0) return [];
  const more = total - listed.length;
  return [
    html`<h4 aria-level="2">${title}</h4>`,
    html`<ul>${listed.map((one) => renderRelated(one, one.symbol!))}</ul>`,
    ...(more > 0 ? [html`<p class="note">${formatCount(more, 'other')} not shown.</p>`] : []),
  ];
}

function renderRelated(market: Market, symbol: string): HTMLElement {
  const view = getView();
  const compareHash = formatHash({ ...view, symbol: view.symbol!, compare: symbol });
  return html`
    <li>
      <a class="ticker" href=${formatHash({ ...view, symbol, compare: undefined })}>${symbol}</a>
      <span>${market.question}</span>
      <span class="note">
        ${[market.source, formatMarketState(market)].filter(Boolean).join(' · ')} · <a href=${compareHash} aria-label=${`Compare with ${symbol}`}>compare</a>
      </span>
    </li>`;
}
