import type { ColumnFilter, ColumnRename } from '../../archive/query/read-rows.ts';
import { isSymbolName } from '../../base/symbol-name.ts';
import { utcZone } from '../../base/time-zone.ts';
import { quoteShellWord } from '../run/suggest-action.ts';
import { parseLevels, readBookRow } from './import-books.ts';
import {
  type EpochUnit,
  findTimeUnit,
  type ImportDataset,
  isWithoutZone,
  parsePriceScale,
  parseTimeText,
  readRows,
  type TickRowRules,
} from './import-rows.ts';
import { looksLikeCents } from './price-range.ts';
import { findMissingColumns } from './row-columns.ts';

// What the columns of a file may mean, and the flags with which its rows can be read. A guess is printed and never used.

/** The first rows of a file as text: `rows[i][c]` is the value of column `names[c]`. */
export interface FileSample {
  readonly names: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/** The flags of the command that say how rows are read. */
export interface GivenFlags {
  readonly dataset: ImportDataset | null;
  /** Columns that have a different name in the file. */
  readonly renames: readonly ColumnRename[];
  /** Only rows that match all of these are imported. */
  readonly filters: readonly ColumnFilter[];
  readonly rows: TickRowRules;
}

export interface FlagGuess {
  /** Flags to add to those given; a `--columns` among them replaces the one given. */
  readonly flags: readonly string[];
  /** What the columns look like, one clause each. */
  readonly clauses: readonly string[];
  /** Rows of the sample that match the filters, and how many of them can be read with the flags. */
  readonly rows: number;
  readonly readable: number;
}

type Role = 'symbol' | 't' | 'p' | 'bids' | 'asks';

/** The columns that may be guessed. Columns of levels are not. */
const rolesOf: Readonly<Record<ImportDataset, readonly Role[]>> = {
  ticks: ['symbol', 't', 'p'],
  orderbooks: ['symbol', 't', 'bids', 'asks'],
  markets: [],
};

/**
 * Names that feeds use for a role, most likely first: in lower case, without punctuation, the last part of a path. A token
 * comes before its market: the tokens of a market have different prices.
 */
const roleNames: Readonly<Record<Role, readonly string[]>> = {
  symbol:
    'symbol ticker marketticker tokenid assetid clobtokenid asset token instrument contract market marketid slug marketslug conditionid security sym'.split(
      ' ',
    ),
  t: 't timestamp ts time datetime tsms timestampms createdtime createdat eventtime tradetime exchangetime recordedat receivedat observedat epoch unixtime date'.split(
    ' ',
  ),
  p: 'p price lastprice lasttradeprice last yesprice tradeprice px mid midprice close probability prob value cents pricedollars lastpricedollars yespricedollars'.split(
    ' ',
  ),
  bids: 'bids bid buys buy'.split(' '),
  asks: 'asks ask offers offer sells sell'.split(' '),
};

const roleMeanings: Readonly<Record<Role, string>> = {
  symbol: 'the symbol',
  t: 'the time',
  p: 'the price',
  bids: 'the bids',
  asks: 'the asks',
};

/** Names of columns that tell rows of one symbol apart whose prices are not the same thing. */
const kindNames = 'outcome outcomename outcomeindex side eventtype type event msgtype messagetype channel kind'.split(
  ' ',
);

/** Names of times at which no price was observed. */
const otherTimePattern = /clos|expir|settl|resol|end|start|open|launch|first|until/;

/** Names, or parts of paths, of prices of something else. */
const otherPricePattern = /(^|[/_])(no|bid|ask)([/_]|$)/i;

/** Share of a column's values that must fit a role. The others may be of another kind of row, or damaged. */
const fitShareMin = 0.8;

/** Guesses how to read the rows of a sample. Null if it does not know a column for each role, or nothing to add. */
export function guessFlags(sample: FileSample, given: GivenFlags): FlagGuess | null {
  const columnOf = (name: string): (string | null)[] => {
    const c = sample.names.indexOf(name);
    return sample.rows.map((row) => row[c] ?? null);
  };
  const dataset = guessDataset(sample, given, columnOf);
  const found = guessColumns(sample.names, given, dataset, columnOf);
  if (found === null) return null;
  const { columns, guessed } = found;
  const own = [...columns.values()];
  const kinds = given.filters.length > 0 ? [] : guessFilters(sample, own, columnOf);
  const example =
    given.filters.length > 0 || !guessed.has('symbol') ? null : findMixedKinds(sample, own, kinds, columnOf);
  const filters = given.filters.length > 0 ? given.filters : [...kinds, ...(example === null ? [] : [example.filter])];
  const isChosen = chooseRows(sample, filters, columnOf);
  const chosen = (role: Role): (string | null)[] =>
    columns.has(role) ? columnOf(columns.get(role)!).filter((_, i) => isChosen[i]) : [];
  if (guessed.has('t') && hasRepeatedDays(chosen('symbol'), chosen('t'))) return null;
  const times = guessTimeRules(present(chosen('t')), given.rows);
  const prices = guessPriceRules(listPrices(dataset, chosen), given.rows);
  const rules = { ...given.rows, ...times.rules, ...prices.rules };
  const clauses = [...columns]
    .filter(([role]) => guessed.has(role) || (role === 't' ? times : prices).clauses.length > 0)
    .filter(([role]) => guessed.has(role) || role === 't' || role === (dataset === 'ticks' ? 'p' : 'bids'))
    .map(([role, own]) => {
      const details = role === 't' ? times.clauses : role === 'p' || role === 'bids' ? prices.clauses : [];
      return `${own} looks like ${roleMeanings[role]}${details.length > 0 ? ` (${details.join(', ')})` : ''}`;
    });
  const newFilters = given.filters.length > 0 ? [] : filters;
  for (const { column, value } of kinds) clauses.push(`${column} is ${value} in the rows that have them`);
  if (example !== null)
    clauses.push(
      `rows of one symbol differ in ${example.filter.column} (${example.values.join(', ')}), and their prices may be different things: --where selects one, ${example.filter.value} is only an example`,
    );
  const flags = [
    ...(given.dataset === null && dataset === 'orderbooks' && guessed.size > 0 ? ['--dataset orderbooks'] : []),
    ...(guessed.size === 0 ? [] : [formatColumnsFlag([...columns])]),
    ...newFilters.map(({ column, value }) => `--where ${quoteShellWord(`${column}=${value}`)}`),
    ...times.flags,
    ...prices.flags,
  ];
  if (flags.length === 0) return null;
  const rows = isChosen.filter(Boolean).length;
  return { flags, clauses, rows, readable: countReadable(dataset, columns, rules, chosen) };
}

/** Prices, or the prices of all levels. */
function listPrices(dataset: ImportDataset, chosen: (role: Role) => (string | null)[]): string[] {
  if (dataset === 'ticks') return present(chosen('p'));
  return [...chosen('bids'), ...chosen('asks')].flatMap(
    (text) => (text === null ? null : parseLevels(text))?.map(({ price }) => String(price)) ?? [],
  );
}

const present = (values: readonly (string | null)[]): string[] =>
  values.filter((value): value is string => value !== null && value.trim() !== '');

function guessDataset(
  { names }: FileSample,
  { dataset, renames }: GivenFlags,
  columnOf: (name: string) => (string | null)[],
): ImportDataset {
  if (dataset !== null) return dataset;
  const given = new Set(renames.map(([name]) => name));
  if (given.has('p')) return 'ticks';
  if (given.has('bids') || given.has('asks')) return 'orderbooks';
  const has = (role: Role): boolean =>
    names.some((name) => roleNames[role].includes(normalizeName(name)) && fits[role](present(columnOf(name))));
  return !has('p') && (has('bids') || has('asks')) ? 'orderbooks' : 'ticks';
}

/** Finds a column for each role. Null if there is none for one of them. `guessed`: the roles whose column is a guess. */
function guessColumns(
  names: readonly string[],
  { renames }: GivenFlags,
  dataset: ImportDataset,
  columnOf: (name: string) => (string | null)[],
): { readonly columns: ReadonlyMap<Role, string>; readonly guessed: ReadonlySet<Role> } | null {
  if (dataset === 'markets') return null;
  const columns = new Map<Role, string>();
  const guessed = new Set<Role>();
  const taken = new Set<string>();
  const roles = rolesOf[dataset];
  for (const role of roles) {
    const known = renames.find(([name]) => name === role)?.[1] ?? names.find((name) => name === role);
    if (known === undefined) continue;
    columns.set(role, known);
    taken.add(known);
  }
  for (const role of roles) {
    if (columns.has(role)) continue;
    const free = names.filter((name) => !taken.has(name) && !/[=,]/.test(name));
    const fitting = free.filter((name) => fits[role](present(columnOf(name))));
    const rank = (name: string): number => roleNames[role].indexOf(normalizeName(name));
    // The bid of a candle is not its price.
    const isOther = (name: string): number => Number(role === 'p' && otherPricePattern.test(name));
    const [named] = fitting
      .filter((name) => rank(name) >= 0)
      .sort((a, b) => isOther(a) - isOther(b) || rank(a) - rank(b));
    // Without a known name, a column is only guessed if no other one fits.
    const only = role === 'symbol' || role === 't' ? onlyOne(fitting) : undefined;
    const own = named ?? (only !== undefined && role === 't' && !canBeObserved(only) ? undefined : only);
    if (own === undefined) continue;
    columns.set(role, own);
    guessed.add(role);
    taken.add(own);
  }
  return findMissingColumns([...columns.keys()], dataset).length > 0 ? null : { columns, guessed };
}

const canBeObserved = (name: string): boolean => !otherTimePattern.test(normalizeName(name));

const onlyOne = <T>(values: readonly T[]): T | undefined => (values.length === 1 ? values[0] : undefined);

const normalizeName = (name: string): string =>
  name
    .slice(name.lastIndexOf('/') + 1)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '');

const fitsMost = (values: readonly string[], isFitting: (value: string) => boolean): boolean =>
  values.length > 0 && values.filter(isFitting).length >= fitShareMin * values.length;

const numberPattern = /^[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?$/i;

const isTime = (text: string): boolean =>
  numberPattern.test(text.trim())
    ? findTimeUnit(Number(text.replace(',', '.'))) !== null
    : typeof parseTimeText(text, { zone: utcZone, unit: 'ms', truncates: true }) === 'number';

const fits: Readonly<Record<Role, (values: readonly string[]) => boolean>> = {
  symbol: (values) => fitsMost(values, (text) => isSymbolName(text) && !isTime(text) && !/^[[{]/.test(text)),
  t: (values) => fitsMost(values, isTime),
  p: (values) => fitsMost(values, (text) => numberPattern.test(text.trim()) && !isTime(text)),
  bids: (values) => fitsMost(values, (text) => parseLevels(text) !== null),
  asks: (values) => fitsMost(values, (text) => parseLevels(text) !== null),
};

/** Whether times are days, several of one symbol the same: then the time of day is elsewhere. */
function hasRepeatedDays(symbols: readonly (string | null)[], times: readonly (string | null)[]): boolean {
  const days = times.map((t, i) => (t !== null && dayPattern.test(t) ? `${t} ${symbols[i]}` : null));
  const present = days.filter((day) => day !== null);
  return new Set(present).size < present.length;
}

const dayPattern = /^\d{4}-\d\d-\d\d(?:[T ]00:00:00(?:\.0+)?)?$/;

interface RuleGuess {
  readonly rules: Partial<TickRowRules>;
  readonly flags: readonly string[];
  /** What the values look like. */
  readonly clauses: readonly string[];
}

const unitNames: Readonly<Record<EpochUnit, string>> = {
  s: 'in seconds',
  ms: 'in milliseconds',
  us: 'in microseconds',
  ns: 'in nanoseconds',
};

/** The rules with which times can be read, as far as they differ from those given. */
function guessTimeRules(values: readonly string[], given: TickRowRules): RuleGuess {
  const rules: { unit?: TickRowRules['unit']; truncates?: boolean; zone?: TickRowRules['zone'] } = {};
  const flags: string[] = [];
  const clauses: string[] = [];
  const numbers = values.filter((text) => numberPattern.test(text.trim())).map((text) => text.replace(',', '.'));
  const units = new Set(numbers.map((text) => findTimeUnit(Number(text))).filter((unit) => unit !== null));
  const [unit] = units;
  const needed = units.size > 1 ? 'auto' : unit;
  if (needed !== undefined && needed !== given.unit && given.unit !== 'auto') {
    rules.unit = needed;
    flags.push(`--time-unit ${needed}`);
    clauses.push(needed === 'auto' ? [...units].map((one) => unitNames[one]).join(' and ') : unitNames[needed]);
  }
  if (given.zone === null && values.some(isWithoutZone)) {
    rules.zone = utcZone;
    flags.push('--tz UTC');
    clauses.push('without a time zone: --tz names it, UTC is only an example');
  }
  const read = { zone: utcZone, unit: rules.unit ?? given.unit, truncates: false };
  const isTooFine = (text: string): boolean => {
    const t = parseTimeText(text, read);
    return typeof t !== 'number' && t.reason.includes('--truncate-time');
  };
  if (!given.truncates && [...numbers, ...values].some(isTooFine)) {
    rules.truncates = true;
    flags.push('--truncate-time');
    clauses.push('finer than a millisecond');
  }
  return { rules, flags, clauses };
}

/** The rules with which prices can be read, as far as they differ from those given. */
function guessPriceRules(values: readonly string[], given: TickRowRules): RuleGuess {
  const hasComma = values.some((text) => text.includes(',')) && !values.some((text) => text.includes('.'));
  // The comma of 1,000 may separate thousands.
  const isThousands =
    values.some((text) => /^[1-9]\d{0,2}(,\d{3})+$/.test(text.trim())) &&
    !values.some((text) => /^0?,/.test(text.trim()));
  const isComma = hasComma && !isThousands && !given.hasDecimalComma;
  const isCents =
    given.priceScale === null && looksLikeCents(values.map((text) => Number(text.replace(',', '.').trim())));
  return {
    rules: {
      ...(isComma ? { hasDecimalComma: true } : {}),
      ...(isCents ? { priceScale: parsePriceScale('0.01')! } : {}),
    },
    flags: [...(isComma ? ['--decimal-comma'] : []), ...(isCents ? ['--price-scale 0.01'] : [])],
    clauses: [...(isComma ? ['with a decimal comma'] : []), ...(isCents ? ['in cents'] : [])],
  };
}

/** Maximum number of different values of a column that tells kinds of rows apart. */
const kindsMax = 20;

/**
 * Finds the filter that selects the rows with all columns, if other rows lack some: a recorded connection also has its own
 * messages.
 */
function guessFilters(
  { names, rows }: FileSample,
  columns: readonly string[],
  columnOf: (name: string) => (string | null)[],
): ColumnFilter[] {
  const values = columns.map(columnOf);
  const isWhole = rows.map((_, i) => values.every((column) => (column[i] ?? '') !== ''));
  const whole = isWhole.filter(Boolean).length;
  if (whole === 0 || rows.length - whole <= 0.01 * rows.length) return [];
  for (const name of names) {
    if (columns.includes(name) || /[=,]/.test(name)) continue;
    const column = columnOf(name);
    const kinds = new Set(column);
    const ofWhole = new Set(column.filter((_, i) => isWhole[i]));
    const [kind] = ofWhole;
    if (kinds.size > kindsMax || ofWhole.size !== 1 || kind === null || kind === undefined) continue;
    if (column.every((value, i) => value !== kind || isWhole[i])) return [{ column: name, value: kind }];
  }
  return [];
}

/**
 * Finds a column by whose values the rows of one symbol are of several kinds, such as two outcomes, with a filter that selects
 * YES, or trades, or the first kind. Null if there is none. `own`: the columns with a role, the symbol first.
 */
function findMixedKinds(
  sample: FileSample,
  own: readonly string[],
  filters: readonly ColumnFilter[],
  columnOf: (name: string) => (string | null)[],
): { readonly filter: ColumnFilter; readonly values: readonly string[] } | null {
  const isChosen = chooseRows(sample, filters, columnOf);
  const values = own.map(columnOf);
  const isWhole = (i: number): boolean => isChosen[i]! && values.every((column) => (column[i] ?? '') !== '');
  const candidates = sample.names.filter((name) => kindNames.includes(normalizeName(name)) && !/[=,]/.test(name));
  for (const name of candidates) {
    if (own.includes(name)) continue;
    const kindsOf = new Map<string, Set<string>>();
    for (const [i, kind] of columnOf(name).entries()) {
      if (!isWhole(i) || kind === null || kind === '') continue;
      const symbol = values[0]![i]!;
      kindsOf.set(symbol, (kindsOf.get(symbol) ?? new Set()).add(kind));
    }
    if (![...kindsOf.values()].some((kinds) => kinds.size > 1)) continue;
    const kinds = [...new Set([...kindsOf.values()].flatMap((of) => [...of]))].slice(0, kindsShown);
    // Trades of both directions have prices of one kind.
    if (kinds.every((kind) => /^(buy|sell|b|s)$/i.test(kind))) continue;
    return {
      filter: { column: name, value: kinds.find((kind) => /^yes$|trade|ticker/i.test(kind)) ?? kinds[0]! },
      values: kinds,
    };
  }
  return null;
}

const kindsShown = 5;

function chooseRows(
  { rows }: FileSample,
  filters: readonly ColumnFilter[],
  columnOf: (name: string) => (string | null)[],
): boolean[] {
  const columns = filters.map(({ column, value }) => ({ values: columnOf(column), value }));
  return rows.map((_, i) => columns.every(({ values, value }) => values[i] === value));
}

/** The number of rows of the sample that can be read. */
function countReadable(
  dataset: ImportDataset,
  columns: ReadonlyMap<Role, string>,
  rules: TickRowRules,
  chosen: (role: Role) => (string | null)[],
): number {
  let readable = 0;
  const [symbol, t] = [chosen('symbol'), chosen('t')];
  if (dataset === 'ticks') {
    readRows({ symbol, t, p: chosen('p'), isLocalTime: false }, rules, {
      accept: () => void readable++,
      reject: () => {},
    });
    return readable;
  }
  const [bids, asks] = [chosen('bids'), chosen('asks')];
  for (let i = 0; i < symbol.length; i++) {
    const row = {
      symbol: symbol[i] ?? null,
      t: t[i] ?? null,
      bids: columns.has('bids') ? (bids[i] ?? null) : null,
      asks: columns.has('asks') ? (asks[i] ?? null) : null,
    };
    if (!('reason' in readBookRow(row, rules, Number.POSITIVE_INFINITY))) readable++;
  }
  return readable;
}

const formatColumnsFlag = (columns: readonly (readonly [Role, string])[]): string => {
  const pairs = columns.filter(([role, own]) => own !== role).map(([role, own]) => `${role}=${own}`);
  return `--columns ${quoteShellWord(pairs.join(','))}`;
};
