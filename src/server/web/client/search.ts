import { formatCount, formatNumber } from '../../../base/format-quantity.ts';
import type { FoundSymbol, SymbolsResponse } from '../../../contract/symbols.ts';
import { fetchJson, getServedAt, isAbortError, toErrorMessage } from './api.ts';
import { html, renderError } from './dom.ts';
import { formatDate } from './format.ts';
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
import { formatEnd, type Market } from './timeline.ts';
import { formatHash } from './view.ts';

export const marketsPath = '/api/v1/historical/markets';

export const symbolsPath = '/api/v1/symbols';
const pageSize = 25;
/** Wait after a key stroke, in ms: shorter than the time between two of them. */
const debounceMs = 40;

/** The field of the served page, which may have text that was typed before this script ran; otherwise a new one. */
export const takeSearchField = (): HTMLInputElement =>
  (document.getElementById('search') as HTMLInputElement | null) ??
  html<HTMLInputElement>`
    <input id="search" type="search" maxlength=${wordsLengthMax} autocomplete="off" spellcheck="false"
      placeholder=${searchHint}>`;

const updateList = (change: Partial<ListView>, isReplacing = false): void =>
  updateView(
    { symbol: null, range: null, list: { ...listDefault, ...getView().list, page: 1, ...change } },
    isReplacing,
  );

/** The search with its filters and results. Calls `choose` with the selected symbol. */
export class SymbolSearch {
  readonly root: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly choose: (symbol: string) => void;
  private readonly venue = createFilter('venue', 'Venue', 'All venues');
  private readonly category = createFilter('category', 'Category', 'All categories');
  private readonly state = createFilter('state', 'State', 'Any state', Object.entries(listStates));
  private readonly sort = createFilter('sort', 'Sort', null, Object.entries(listSorts));
  private readonly clear = html`<button type="button" class="quiet" id="clear-search">Clear</button>`;
  private readonly status = html`<p class="note search-status" role="status"></p>`;
  private readonly message = html`<div></div>`;
  private readonly list = html`<ol class="results"></ol>`;
  private readonly pager = html`<nav class="pager" aria-label="Pages of symbols"></nav>`;
  private running = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private shownFor: string | null = null;
  /** The words of the view. The field may be ahead of them, and may have more blanks. */
  private committed: string | null = null;
  /** The first key stroke adds an entry to the history, and the following ones replace it. */
  private isEdited = false;

  constructor(input: HTMLInputElement, choose: (symbol: string) => void) {
    this.input = input;
    this.choose = choose;
    const { venue, category, state, sort, clear } = this;
    const form = html`
      <form role="search" class="search-form">
        <div class="search-field"><label for="search" class="unseen">Find a symbol</label>${input}</div>
        <div class="filters">${[venue.root, category.root, state.root, sort.root]}${clear}</div>
      </form>`;
    this.root = html`<div class="search">${form}${this.status}${this.message}${this.list}${this.pager}</div>`;
    input.addEventListener('input', () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.commit(), debounceMs);
    });
    input.addEventListener('blur', () => {
      this.isEdited = false;
    });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.commit();
      this.isEdited = false;
    });
    venue.onSelect((value) => updateList({ venue: value }));
    category.onSelect((value) => updateList({ category: value }));
    state.onSelect((value) => updateList({ state: value as ListState | null }));
    sort.onSelect((value) => updateList({ sort: value as ListView['sort'] }));
    clear.addEventListener('click', () => {
      updateList(listDefault);
      input.focus();
    });
    this.root.addEventListener('keydown', (event) => moveFocus(event, input, this.list));
  }

  show(wanted: ListView): void {
    const key = JSON.stringify(wanted);
    // What was typed before the list was there has precedence over the address.
    const early = this.committed === null ? this.input.value.trim() : '';
    if (wanted.words !== this.committed && early === '') this.input.value = wanted.words;
    this.committed = wanted.words;
    if (early !== '') this.commit();
    this.state.select(wanted.state);
    this.sort.select(wanted.sort);
    this.clear.hidden = key === JSON.stringify({ ...listDefault, page: wanted.page });
    if (key === this.shownFor) return;
    this.shownFor = key;
    void this.find(wanted);
  }

  private commit(): void {
    clearTimeout(this.timer);
    this.committed = this.input.value.trim();
    updateList({ words: this.committed }, this.isEdited);
    this.isEdited = true;
  }

  private async find(wanted: ListView): Promise<void> {
    const { list, message, status } = this;
    this.running.abort();
    this.running = new AbortController();
    list.setAttribute('aria-busy', 'true');
    try {
      const { words, venue: source, category, state, sort, page } = wanted;
      const query = { q: words.trim() || null, source, category, state, sort };
      const paging = { limit: pageSize, offset: (page - 1) * pageSize };
      const found = await fetchJson<SymbolsResponse>(symbolsPath, { ...query, ...paging }, this.running.signal);
      list.removeAttribute('aria-busy');
      message.replaceChildren();
      this.showResults(found, wanted);
    } catch (error) {
      if (isAbortError(error)) return;
      list.removeAttribute('aria-busy');
      this.shownFor = null;
      status.textContent = '';
      message.replaceChildren(renderError(toErrorMessage(error), () => void this.find(wanted)));
    }
  }

  private showResults(found: SymbolsResponse, wanted: ListView): void {
    const { venue, category } = this;
    venue.setOptions(toOptions(found.sources), wanted.venue);
    category.setOptions(toOptions(found.categories), wanted.category);
    venue.root.hidden = found.sources.length < 2 && wanted.venue === null;
    category.root.hidden = found.categories.length === 0 && wanted.category === null;
    this.status.textContent = formatStatus(found, wanted);
    this.list.replaceChildren(...found.symbols.map((symbol) => renderResult(symbol, wanted, this.choose)));
    renderPager(this.pager, wanted, Math.ceil(found.total / pageSize));
  }
}

const toOptions = (facets: SymbolsResponse['sources']): [string, string][] =>
  facets.map(({ name, symbols }) => [name, `${name} (${formatNumber(symbols)})`]);

/** A select with its label. Without a text for all, there is always a value. */
function createFilter(
  name: string,
  label: string,
  all: string | null,
  options: readonly (readonly [value: string, text: string])[] = [],
) {
  const id = `filter-${name}`;
  const select = html<HTMLSelectElement>`<select id=${id}></select>`;
  const renderOption = (value: string, text: string): HTMLElement => html`<option value=${value}>${text}</option>`;
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
    root: html`<div class="filter"><label for=${id}>${label}</label>${select}</div>`,
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
      : `${formatNumber(offset + 1)} to ${formatNumber(offset + symbols.length)} shown`;
  const rest = omitted === 0 ? '' : `; ${formatCount(omitted, 'market')} with few ticks not searched`;
  return `${formatCount(total, 'market')} found${total > symbols.length ? `, ${shown}` : ''}${rest}`;
}

function renderResult(found: FoundSymbol, list: ListView, choose: (symbol: string) => void): HTMLElement {
  const { symbol, source, question, category, ticks, first_tick, last_tick } = found;
  const span =
    first_tick === null || last_tick === null ? 'no ticks' : `${formatDate(first_tick)} to ${formatDate(last_tick)}`;
  const link = html`
    <a class="result" href=${formatHash({ ...getView(), list, symbol, range: null })}>
      <span class="result-name">
        ${
          question === null || question === symbol
            ? html`<span class="only-name">${symbol}</span>`
            : [html`<span class="question">${question}</span>`, html`<span class="ticker">${symbol}</span>`]
        }
      </span>
      <span class="note result-kind">${[source, category].filter(Boolean).join(' · ')}</span>
      <span class="result-state">
        <span class=${`badge ${found.state}`}>${formatState(found)}</span>
        <span class="note">${formatTimes(found)}</span>
      </span>
      <span class="result-ticks">
        <span>${formatCount(ticks, 'tick')}</span>
        <span class="note nowrap">${span}</span>
      </span>
    </a>`;
  link.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    choose(symbol);
  });
  return html`<li data-symbol=${symbol}>${link}</li>`;
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
  const link = (text: string, page: number, rel: string): HTMLElement => {
    if (page < 1 || page > pages) return html`<span class="pager-link" aria-disabled="true">${text}</span>`;
    const href = formatHash({ ...getView(), symbol: null, list: { ...list, page } });
    return html`<a class="pager-link" rel=${rel} href=${href}>${text}</a>`;
  };
  pager.replaceChildren(
    link('Previous', Math.min(list.page - 1, pages), 'prev'),
    html`<span class="note">Page ${formatNumber(list.page)} of ${formatNumber(pages)}</span>`,
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
