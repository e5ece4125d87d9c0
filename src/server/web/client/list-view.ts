/** The list of symbols as the URL describes it. */
export interface ListView {
  /** Words of the search; empty: all symbols. */
  readonly words: string;
  readonly venue: string | null;
  readonly category: string | null;
  readonly state: ListState | null;
  readonly sort: ListSort;
  /** From 1. */
  readonly page: number;
}

/** States to select, with their labels. */
export const listStates = {
  active: 'Active',
  ending: 'Resolving within 7 days',
  excluded: 'Excluded',
  forgotten: 'Forgotten',
  closed: 'Closed',
  resolved: 'Resolved',
  unlisted: 'Not listed',
} as const;
export type ListState = keyof typeof listStates;

/** Sorts, with their labels. The first one is the default. */
export const listSorts = {
  ticks: 'Most ticks',
  newest: 'Newest',
  ending: 'Resolving soonest',
  name: 'Name',
} as const;
type ListSort = keyof typeof listSorts;

export const listDefault: ListView = { words: '', venue: null, category: null, state: null, sort: 'ticks', page: 1 };

/** Maximum length of the words, as of the service. */
export const wordsLengthMax = 1000;
/** Placeholder of the search field. */
export const searchHint = 'A symbol, or words from the question';
const pageMax = 1_000_000;

/** Parses the list in the fragment of a URL; invalid values are ignored. Undefined if it is the default. */
export function parseListView(parameters: URLSearchParams): ListView | undefined {
  const state = parameters.get('state') ?? '';
  const sort = parameters.get('sort') ?? '';
  const page = Number(/^[1-9]\d{0,6}$/.exec(parameters.get('page') ?? '')?.[0] ?? 1);
  const list: ListView = {
    words: (parameters.get('q') ?? '').slice(0, wordsLengthMax),
    venue: parameters.get('venue') || null,
    category: parameters.get('category') || null,
    state: Object.hasOwn(listStates, state) ? (state as ListState) : null,
    sort: Object.hasOwn(listSorts, sort) ? (sort as ListSort) : listDefault.sort,
    page: Math.min(page, pageMax),
  };
  return JSON.stringify(list) === JSON.stringify(listDefault) ? undefined : list;
}

/** Adds the list to the parameters of a fragment; default values are omitted. */
export function appendListView(parameters: URLSearchParams, list: ListView): void {
  for (const [name, value] of Object.entries(list))
    if (value !== listDefault[name as keyof ListView]) parameters.set(name === 'words' ? 'q' : name, String(value));
}
