import { ApiError, fetchJson, isAbortError, toErrorMessage } from './api.ts';
import { createElement, renderError, renderLoading } from './dom.ts';
import { formatCount, formatDate, formatInteger } from './format.ts';

/** The parts of an item of /api/v1/historical/markets that the page reads. */
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
/** Maximum number of results that are shown. To find others, the user has to enter more words. */
const shownMax = 300;
const debounceMs = 220;
/** Maximum length of the parameter q; a symbol may be longer. */
const wordsMax = 200;
const textMax = 1000;

/** Renders a search field with its results. Calls `choose` with the selected symbol. */
export function createSearch(choose: (symbol: string) => void): { readonly root: HTMLElement; start(): void } {
  const input = createElement('input', {
    id: 'search',
    type: 'search',
    maxlength: textMax,
    autocomplete: 'off',
    spellcheck: 'false',
    placeholder: 'A symbol, or words from the question',
  });
  const list = createElement('ul', { class: 'results' });
  const status = createElement('div', { class: 'search-status', 'aria-live': 'polite' });
  const form = createElement(
    'form',
    { role: 'search' },
    createElement('label', { for: 'search' }, 'Find a symbol'),
    input,
  );
  let running = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;

  const find = async (cursor: string | null = null): Promise<void> => {
    running.abort();
    running = new AbortController();
    const text = input.value.trim();
    if (cursor === null) status.replaceChildren(renderLoading('Searching…'));
    try {
      const [page, exact] = await Promise.all([
        [...text].length > wordsMax
          ? { markets: [], total: 0, next_cursor: null }
          : fetchJson<MarketsResponse>(marketsPath, { q: text || null, limit: pageSize, cursor }, running.signal),
        cursor === null && text !== '' ? findExactSymbol(text, running.signal) : [],
      ]);
      if (cursor === null) list.replaceChildren();
      appendResults([...exact, ...page.markets], page);
    } catch (error) {
      if (!isAbortError(error)) status.replaceChildren(renderError(toErrorMessage(error), () => void find(cursor)));
    }
  };
  const appendResults = (markets: readonly Market[], { total, next_cursor }: MarketsResponse): void => {
    const shownSymbols = new Set([...list.children].map((item) => (item as HTMLElement).dataset.symbol));
    for (const market of markets) {
      if (market.symbol === null || shownSymbols.has(market.symbol)) continue;
      shownSymbols.add(market.symbol);
      list.append(renderResult(market, market.symbol, choose));
    }
    const more = createElement('button', { type: 'button', class: 'more' }, 'Show more');
    more.addEventListener('click', () => void find(next_cursor));
    status.replaceChildren(
      createElement(
        'p',
        { class: 'note' },
        list.children.length === 0
          ? input.value.trim() === ''
            ? 'The archive has no markets yet.'
            : 'No market matches.'
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
  return { root: createElement('div', { class: 'search' }, form, list, status), start: () => void find() };
}

/** Finds a market by its exact symbol, independently of the words of its question. */
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

/** Short description of a market's state. */
export function formatMarketState({ outcome, resolved_at, is_active }: Market): string {
  if (outcome !== null) return `resolved ${outcome === 1 ? 'yes' : outcome === 0 ? 'no' : String(outcome)}`;
  if (is_active === true) return 'active';
  return resolved_at !== null ? 'resolved' : is_active === false ? 'closed' : 'not listed';
}
