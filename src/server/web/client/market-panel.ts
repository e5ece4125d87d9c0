import { fetchApi, fetchJson, getServedAt, isAbortError, toErrorMessage } from './api.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { formatCount, formatTime } from './format.ts';
import { getView } from './navigation.ts';
import { formatMarketState, type Market, marketsPath } from './search.ts';
import type { SymbolMarket } from './symbol-facts.ts';
import { listMarketEvents, type MarketEvent } from './timeline.ts';
import { formatHash } from './view.ts';

/** Maximum number of related markets that are shown. */
const relatedMax = 40;

/** Renders the history of a market, its rules and its related markets. */
export function renderMarketPanel(market: SymbolMarket, signal: AbortSignal): HTMLElement {
  const rules = createElement('div', {});
  const related = createElement('div', { class: 'related' }, renderLoading('Loading related markets…'));
  if (market.rules_sha256 !== null) void showRules(rules, market, signal);
  void showRelated(related, market, signal);
  return createElement(
    'div',
    { class: 'market-panel' },
    createElement(
      'div',
      {},
      createElement('h4', { 'aria-level': 2 }, 'History'),
      renderTimeline(listMarketEvents(market, getServedAt())),
      rules,
    ),
    related,
  );
}

const sources: Readonly<Record<MarketEvent['from'], string>> = {
  schedule: 'as the venue states it',
  poll: 'poll that showed it first',
  tick: 'time of the tick',
};

const renderTimeline = (events: readonly MarketEvent[]): HTMLElement =>
  createElement(
    'ol',
    { class: 'timeline' },
    ...events.map(({ t, what, from }) =>
      createElement(
        'li',
        { class: from, title: sources[from] },
        createElement('time', { datetime: new Date(t).toISOString() }, formatTime(t - (t % 1000))),
        createElement('span', {}, what),
      ),
    ),
  );

/** Loads the text of the rules: only the formats with rows have it. */
async function showRules(target: HTMLElement, market: SymbolMarket, signal: AbortSignal): Promise<void> {
  const { symbol, canonical_id, last_seen } = market;
  const query = new URLSearchParams({
    symbol: symbol!,
    canonical_id,
    from: String(last_seen),
    to: String(last_seen + 1),
    limit: '10',
    format: 'ndjson',
  });
  try {
    const lines = (await (await fetchApi(`${marketsPath}?${query}`, signal)).text()).trim().split('\n');
    const rows = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as { rules?: string | null });
    const rules = rows.at(-1)?.rules ?? null;
    if (rules === null) return;
    target.replaceChildren(
      createElement(
        'details',
        { class: 'rules', open: rules.length < 600 },
        createElement('summary', {}, 'Rules'),
        createElement('p', { tabindex: 0 }, rules),
      ),
    );
  } catch (error) {
    if (!isAbortError(error)) target.replaceChildren(renderError(`The rules: ${toErrorMessage(error)}`));
  }
}

interface MarketsResponse {
  readonly markets: readonly Market[];
  readonly total: number;
}

async function showRelated(target: HTMLElement, market: SymbolMarket, signal: AbortSignal): Promise<void> {
  const { canonical_id, event, symbol } = market;
  const load = (query: Record<string, string>) =>
    fetchJson<MarketsResponse>(marketsPath, { ...query, limit: relatedMax + 1 }, signal);
  try {
    const [same, ofEvent] = await Promise.all([
      load({ canonical_id }),
      event === null ? { markets: [], total: 0 } : load({ event }),
    ]);
    const twins = same.markets.filter((one) => one.symbol !== symbol);
    const known = new Set([symbol, ...twins.map((one) => one.symbol)]);
    const siblings = ofEvent.markets.filter((one) => !known.has(one.symbol));
    target.replaceChildren(
      ...renderGroup('The same market on other venues', twins, twins.length),
      ...renderGroup(`Markets of its event${event === null ? '' : ` ${event}`}`, siblings, ofEvent.total - 1),
      ...(twins.length + siblings.length === 0
        ? [
            createElement('h4', { 'aria-level': 2 }, 'Related markets'),
            createElement('p', { class: 'note' }, 'The archive has none.'),
          ]
        : []),
    );
  } catch (error) {
    if (isAbortError(error)) return;
    target.replaceChildren(renderError(toErrorMessage(error), () => void showRelated(target, market, signal)));
  }
}

function renderGroup(title: string, markets: readonly Market[], total: number): HTMLElement[] {
  const listed = markets.filter((one) => one.symbol !== null).slice(0, relatedMax);
  if (listed.length === 0) return [];
  return [
    createElement('h4', { 'aria-level': 2 }, title),
    createElement('ul', {}, ...listed.map((one) => renderRelated(one, one.symbol!))),
    ...(total > listed.length
      ? [createElement('p', { class: 'note' }, `${formatCount(total - listed.length, 'other')} not shown.`)]
      : []),
  ];
}

function renderRelated(market: Market, symbol: string): HTMLElement {
  const view = getView();
  const hrefOf = (change: { symbol: string; compare?: string | undefined }) => formatHash({ ...view, ...change });
  return createElement(
    'li',
    {},
    createElement('a', { class: 'ticker', href: hrefOf({ symbol, compare: undefined }) }, symbol),
    createElement('span', {}, market.question ?? ''),
    createElement(
      'span',
      { class: 'note' },
      [market.source, formatMarketState(market)].filter(Boolean).join(' · '),
      ' · ',
      createElement(
        'a',
        { href: hrefOf({ symbol: view.symbol!, compare: symbol }), 'aria-label': `Compare with ${symbol}` },
        'compare',
      ),
    ),
  );
}
