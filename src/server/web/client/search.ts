import { fetchJson, getServedAt, isAbortError, toErrorMessage } from './api.ts';
import { createElement, renderError } from './dom.ts';
import { formatCount, formatDate, formatInteger } from './format.ts';
import {
  type ListState,
  type ListView,
  listDefault,
  listSorts,
  listStates,
  searchHint,
  wordsLengthMax,
} from './list-view.ts';
import { getView, updateView } from './navigation.ts';
import { formatEnd } from './timeline.ts';
import { formatHash } from './view.ts';

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

export const marketsPath = '/api/v1/historical/markets';

/** Since when and why a symbol is not collected. Times are epoch ms. */
interface NotCollected {
  readonly kind: 'excluded' | 'forgotten';
  /** Nothing is expected from then on; null: nothing was collected before. */
  readonly since: number | null;
  readonly reason: string | null;
  readonly decided_at: number;
}

/** The parts of an item of /api/v1/symbols that the page reads. */
export interface FoundSymbol {
  readonly symbol: string;
  readonly source: string | null;
  readonly question: string | null;
  readonly category: string | null;
  readonly state: Exclude<ListState, 'ending'>;
  readonly ends_at: number | null;
  readonly resolved_at: number | null;
  readonly outcome: number | null;
  readonly first_tick: number | null;
  readonly last_tick: number | null;
  readonly ticks: number;
  readonly not_collected: NotCollected | null;
}

interface Facet {
  readonly name: string;
  readonly symbols: number;
}

export interface SymbolsResponse {
  readonly symbols: readonly FoundSymbol[];
  readonly total: number;
  readonly offset: number;
  readonly sources: readonly Facet[];
  readonly categories: readonly Facet[];
  readonly omitted: number;
}

export const symbolsPath = '/api/v1/symbols';
const pageSize = 25;
/** Wait after a key stroke, in ms: shorter than the time between two of them. */
const debounceMs = 40;

interface Search {
  readonly root: HTMLElement;
  /** Shows the list of a view. */
  show(list: ListView): void;
}

/** The field of the served page, which may have text that was typed before this script ran; otherwise a new one. */
export const takeSearchField = (): HTMLInputElement =>
  (document.getElementById('search') as HTMLInputElement | null) ??
  createElement('input', {
    id: 'search',
    type: 'search',
    maxlength: wordsLengthMax,
    autocomplete: 'off',
    spellcheck: 'false',
    placeholder: searchHint,
  });

const renderSearchField = (input: HTMLInputElement): HTMLElement =>
  createElement(
    'div',
    { class: 'search-field' },
    createElement('label', { for: 'search', class: 'unseen' }, 'Find a symbol'),
    input,
  );

/** Renders the search with its filters and results. Calls `choose` with the selected symbol. */
export function createSearch(input: HTMLInputElement, choose: (symbol: string) => void): Search {
  const venue = createFilter('venue', 'Venue', 'All venues');
  const category = createFilter('category', 'Category', 'All categories');
  const state = createFilter('state', 'State', 'Any state', Object.entries(listStates));
  const sort = createFilter('sort', 'Sort', null, Object.entries(listSorts));
  const clear = createElement('button', { type: 'button', class: 'quiet', id: 'clear-search' }, 'Clear');
  const form = createElement(
    'form',
    { role: 'search', class: 'search-form' },
    renderSearchField(input),
    createElement('div', { class: 'filters' }, venue.root, category.root, state.root, sort.root, clear),
  );
  const status = createElement('p', { class: 'note search-status', role: 'status' });
  const message = createElement('div', {});
  const list = createElement('ol', { class: 'results' });
  const pager = createElement('nav', { class: 'pager', 'aria-label': 'Pages of symbols' });
  let running = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let shownFor: string | null = null;
  /** The words of the view. The field may be ahead of them, and may have more blanks. */
  let committed: string | null = null;

  const update = (change: Partial<ListView>, isReplacing = false): void =>
    updateView(
      { symbol: null, range: null, list: { ...listDefault, ...getView().list, page: 1, ...change } },
      isReplacing,
    );
  const find = async (wanted: ListView): Promise<void> => {
    running.abort();
    running = new AbortController();
    list.setAttribute('aria-busy', 'true');
    try {
      const { words, venue: source, category: named, state: inState, sort: by, page } = wanted;
      const parameters = { q: words.trim() || null, source, category: named, state: inState, sort: by };
      const paging = { limit: pageSize, offset: (page - 1) * pageSize };
      const found = await fetchJson<SymbolsResponse>(symbolsPath, { ...parameters, ...paging }, running.signal);
      list.removeAttribute('aria-busy');
      message.replaceChildren();
      showResults(found, wanted);
    } catch (error) {
      if (isAbortError(error)) return;
      list.removeAttribute('aria-busy');
      shownFor = null;
      status.textContent = '';
      message.replaceChildren(renderError(toErrorMessage(error), () => void find(wanted)));
    }
  };
  const showResults = (found: SymbolsResponse, wanted: ListView): void => {
    venue.setOptions(toOptions(found.sources), wanted.venue);
    category.setOptions(toOptions(found.categories), wanted.category);
    venue.root.hidden = found.sources.length < 2 && wanted.venue === null;
    category.root.hidden = found.categories.length === 0 && wanted.category === null;
    status.textContent = formatStatus(found, wanted);
    list.replaceChildren(...found.symbols.map((symbol) => renderResult(symbol, wanted, choose)));
    renderPager(pager, wanted, Math.ceil(found.total / pageSize));
  };
  // The first key stroke adds an entry to the history, and the following ones replace it.
  let isEdited = false;
  const commit = (): void => {
    clearTimeout(timer);
    committed = input.value.trim();
    update({ words: committed }, isEdited);
    isEdited = true;
  };
  const show = (wanted: ListView): void => {
    const key = JSON.stringify(wanted);
    // What was typed before the list was there has precedence over the address.
    const early = committed === null ? input.value.trim() : '';
    if (wanted.words !== committed && early === '') input.value = wanted.words;
    committed = wanted.words;
    if (early !== '') commit();
    state.select(wanted.state);
    sort.select(wanted.sort);
    clear.hidden = key === JSON.stringify({ ...listDefault, page: wanted.page });
    if (key === shownFor) return;
    shownFor = key;
    void find(wanted);
  };

  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(commit, debounceMs);
  });
  input.addEventListener('blur', () => {
    isEdited = false;
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    commit();
    isEdited = false;
  });
  venue.onSelect((value) => update({ venue: value }));
  category.onSelect((value) => update({ category: value }));
  state.onSelect((value) => update({ state: value as ListState | null }));
  sort.onSelect((value) => update({ sort: value as ListView['sort'] }));
  clear.addEventListener('click', () => {
    update(listDefault);
    input.focus();
  });
  const root = createElement('div', { class: 'search' }, form, status, message, list, pager);
  root.addEventListener('keydown', (event) => moveFocus(event, input, list));
  return { root, show };
}

const toOptions = (facets: readonly Facet[]): [string, string][] =>
  facets.map(({ name, symbols }) => [name, `${name} (${formatInteger(symbols)})`]);

/** A select with its label. Without a text for all, there is always a value. */
function createFilter(
  name: string,
  label: string,
  all: string | null,
  options: readonly (readonly [value: string, text: string])[] = [],
) {
  const id = `filter-${name}`;
  const select = createElement('select', { id });
  const renderOption = (value: string, text: string): HTMLElement => createElement('option', { value }, text);
  let shown = '';
  const setOptions = (next: readonly (readonly [string, string])[], value: string | null): void => {
    const known = value === null || next.some(([one]) => one === value) ? next : [...next, [value, value] as const];
    const text = JSON.stringify(known);
    if (text !== shown || shown === '')
      select.replaceChildren(
        ...(all === null ? [] : [renderOption('', all)]),
        ...known.map(([one, named]) => renderOption(one, named)),
      );
    shown = text;
    select.value = value ?? '';
  };
  setOptions(options, all === null ? (options[0]?.[0] ?? null) : null);
  return {
    root: createElement('div', { class: 'filter' }, createElement('label', { for: id }, label), select),
    setOptions,
    select(value: string | null): void {
      select.value = value ?? '';
    },
    onSelect(listener: (value: string | null) => void): void {
      select.addEventListener('change', () => listener(select.value || null));
    },
  };
}

function formatStatus(
  { total, symbols, offset, omitted }: SymbolsResponse,
  { words, venue, category, state }: ListView,
): string {
  const isFiltered = words !== '' || venue !== null || category !== null || state !== null;
  if (total === 0) return isFiltered ? 'No market matches.' : 'The archive has no markets yet.';
  const shown =
    symbols.length === 0
      ? 'none on this page'
      : `${formatInteger(offset + 1)} to ${formatInteger(offset + symbols.length)} shown`;
  const rest = omitted === 0 ? '' : `; ${formatCount(omitted, 'market')} with few ticks not searched`;
  return `${formatCount(total, 'market')} found${total > symbols.length ? `, ${shown}` : ''}${rest}`;
}

function renderResult(found: FoundSymbol, list: ListView, choose: (symbol: string) => void): HTMLElement {
  const { symbol, source, question, category, ticks, first_tick, last_tick } = found;
  const span =
    first_tick === null || last_tick === null ? 'no ticks' : `${formatDate(first_tick)} to ${formatDate(last_tick)}`;
  const link = createElement(
    'a',
    { class: 'result', href: formatHash({ ...getView(), list, symbol, range: null }) },
    createElement(
      'span',
      { class: 'result-name' },
      ...(question === null || question === symbol
        ? [createElement('span', { class: 'only-name' }, symbol)]
        : [createElement('span', { class: 'question' }, question), createElement('span', { class: 'ticker' }, symbol)]),
    ),
    createElement('span', { class: 'note result-kind' }, [source, category].filter(Boolean).join(' · ')),
    createElement(
      'span',
      { class: 'result-state' },
      createElement('span', { class: `badge ${found.state}` }, formatState(found)),
      createElement('span', { class: 'note' }, formatTimes(found)),
    ),
    createElement(
      'span',
      { class: 'result-ticks' },
      createElement('span', {}, formatCount(ticks, 'tick')),
      createElement('span', { class: 'note nowrap' }, span),
    ),
  );
  link.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    choose(symbol);
  });
  return createElement('li', { 'data-symbol': symbol }, link);
}

function formatState({ state, outcome }: FoundSymbol): string {
  if (state === 'resolved' && outcome !== null) return outcome === 1 ? 'Yes' : outcome === 0 ? 'No' : String(outcome);
  return listStates[state];
}

function formatTimes(found: FoundSymbol): string {
  const { state, not_collected: notCollected } = found;
  return notCollected !== null && state === notCollected.kind
    ? `since ${formatDate(notCollected.decided_at)}`
    : formatEnd(found, getServedAt());
}

function renderPager(pager: HTMLElement, list: ListView, pages: number): void {
  pager.hidden = pages <= 1;
  const link = (text: string, page: number, rel: string): HTMLElement =>
    page < 1 || page > pages
      ? createElement('span', { class: 'pager-link', 'aria-disabled': 'true' }, text)
      : createElement(
          'a',
          { class: 'pager-link', rel, href: formatHash({ ...getView(), symbol: null, list: { ...list, page } }) },
          text,
        );
  pager.replaceChildren(
    link('Previous', Math.min(list.page - 1, pages), 'prev'),
    createElement('span', { class: 'note' }, `Page ${formatInteger(list.page)} of ${formatInteger(pages)}`),
    link('Next', list.page + 1, 'next'),
  );
}

/** Moves the focus from the field to the results and between them, with the arrow keys. */
function moveFocus(event: KeyboardEvent, input: HTMLInputElement, list: HTMLElement): void {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
  const stops: HTMLElement[] = [input, ...list.querySelectorAll<HTMLElement>('a.result')];
  const at = stops.indexOf(event.target as HTMLElement);
  const next = stops[at + (event.key === 'ArrowDown' ? 1 : -1)];
  if (at < 0 || next === undefined) return;
  event.preventDefault();
  next.focus();
}

/** Short description of a market's state. */
export function formatMarketState({ outcome, resolved_at, is_active }: Market): string {
  if (outcome !== null) return `resolved ${outcome === 1 ? 'yes' : outcome === 0 ? 'no' : String(outcome)}`;
  if (is_active === true) return 'active';
  return resolved_at !== null ? 'resolved' : is_active === false ? 'closed' : 'not listed';
}
