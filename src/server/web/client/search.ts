import { ApiError, fetchJson, isAbortError, toErrorMessage } from './api.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { formatCount, formatDate, formatInteger } from './format.ts';

/** An item of /api/v1/historical/markets, as far as the page reads it. */
export interface Market {
  readonly symbol: string | null;
  readonly source: string | null;
  readonly question: string | null;
  readonly category: string | null;
  readonly is_active: boolean | null;
  readonly opens_at: number | null;
  readonly closes_at: number | null;
  readonly resolved_at: number | null;
  readonly outcome: number | null;
  readonly first_tick: number | null;
  readonly last_tick: number | null;
  readonly ticks: number;
}

interface MarketsResponse {
  readonly markets: readonly Market[];
  readonly total: number;
  readonly next_cursor: string | null;
}

export const marketsPath = '/api/v1/historical/markets';
const pageSize = 12;
/** Results shown at most: who gets there had better ask for more words. */
const shownMax = 300;
const debounceMs = 220;
/** Characters that the service takes as words; a ticker may be longer. */
const wordsMax = 200;
const textMax = 1000;

/** A search field and what it finds; `choose` is called with a symbol. */
export function createSearch(choose: (symbol: string) => void): { readonly root: HTMLElement; start(): void } {
  const input = createElement('input', {
    id: 'search',
    type: 'search',
    maxlength: textMax,
    autocomplete: 'off',
    spellcheck: 'false',
    placeholder: 'A ticker, or words of the question',
  });
  const list = createElement('ul', { class: 'results' });
  const told = createElement('div', { class: 'told', 'aria-live': 'polite' });
  const form = createElement(
    'form',
    { role: 'search' },
    createElement('label', { for: 'search' }, 'Find a symbol'),
    input,
  );
  let under = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;

  const find = async (cursor: string | null = null): Promise<void> => {
    under.abort();
    under = new AbortController();
    const text = input.value.trim();
    if (cursor === null) told.replaceChildren(renderLoading('Searching…'));
    try {
      const [found, exact] = await Promise.all([
        [...text].length > wordsMax
          ? { markets: [], total: 0, next_cursor: null }
          : fetchJson<MarketsResponse>(marketsPath, { q: text || null, limit: pageSize, cursor }, under.signal),
        cursor === null && text !== '' ? findExactSymbol(text, under.signal) : [],
      ]);
      if (cursor === null) list.replaceChildren();
      put([...exact, ...found.markets], found);
    } catch (error) {
      if (!isAbortError(error)) told.replaceChildren(renderError(toErrorMessage(error), () => void find(cursor)));
    }
  };
  const put = (markets: readonly Market[], { total, next_cursor }: MarketsResponse): void => {
    const there = new Set([...list.children].map((item) => (item as HTMLElement).dataset.symbol));
    for (const market of markets) {
      if (market.symbol === null || there.has(market.symbol)) continue;
      there.add(market.symbol);
      list.append(renderResult(market, market.symbol, choose));
    }
    const more = createElement('button', { type: 'button', class: 'more' }, 'Show more');
    more.addEventListener('click', () => void find(next_cursor));
    told.replaceChildren(
      createElement(
        'p',
        { class: 'note' },
        list.children.length === 0
          ? input.value.trim() === ''
            ? 'No market is known yet.'
            : 'Nothing in the archive fits.'
          : `${formatCount(Math.max(total, list.children.length), 'market')} found`,
      ),
      next_cursor === null || list.children.length >= shownMax ? '' : more,
    );
  };
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => void find(), debounceMs);
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    clearTimeout(timer);
    void find();
  });
  return { root: createElement('div', { class: 'search' }, form, list, told), start: () => void find() };
}

/** A ticker in full finds its market, whatever the words of its question. */
async function findExactSymbol(symbol: string, signal: AbortSignal): Promise<readonly Market[]> {
  try {
    return (await fetchJson<MarketsResponse>(marketsPath, { symbol, limit: 1 }, signal)).markets;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return [];
    throw error;
  }
}

function renderResult(market: Market, symbol: string, choose: (symbol: string) => void): HTMLElement {
  const { question, category, first_tick, last_tick, ticks } = market;
  const span = first_tick === null || last_tick === null ? '' : `${formatDate(first_tick)} to ${formatDate(last_tick)}`;
  const button = createElement(
    'button',
    { type: 'button', class: 'result' },
    createElement('span', { class: 'ticker' }, symbol),
    createElement('span', { class: 'question' }, question ?? ''),
    createElement('span', { class: 'note' }, [category, formatMarketState(market)].filter(Boolean).join(' · ')),
    createElement('span', { class: 'note' }, [`${formatInteger(ticks)} ticks`, span].filter(Boolean).join(' · ')),
  );
  button.addEventListener('click', () => choose(symbol));
  return createElement('li', { 'data-symbol': symbol }, button);
}

/** How a market stands, in a word or two. */
export function formatMarketState({ outcome, resolved_at, is_active }: Market): string {
  if (outcome !== null) return `resolved ${outcome === 1 ? 'yes' : outcome === 0 ? 'no' : String(outcome)}`;
  if (is_active === true) return 'active';
  return resolved_at !== null ? 'resolved' : is_active === false ? 'closed' : 'not listed';
}
