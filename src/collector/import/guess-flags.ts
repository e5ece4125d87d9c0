import type { ColumnFilter, ColumnRename } from '../../archive/query/read-rows.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { utcZone } from '../../base/time-zone.ts';
import {
  fits,
  kindNames,
  noPricePattern,
  normalizeName,
  numberPattern,
  priceRoles,
  type Role,
  roleMeanings,
} from './column-roles.ts';
import {
  type FileSample,
  formatColumnsFlag,
  type GivenFlags,
  guessColumns,
  guessDatasets,
  openColumns,
  present,
  quoteRoles,
} from './guess-columns.ts';
import { parseLevels, readBookRow } from './import-books.ts';
import { readQuoteRows } from './import-quotes.ts';
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
import { readTradeRows } from './import-trades.ts';
import { looksLikeCents } from './price-range.ts';
import { createTradeIds } from './trade-ids.ts';

// What the columns of a file may mean, and the flags with which its rows can be read. A guess is printed and never used.

interface FlagGuess {
  /** Flags to add to those given; a `--columns` among them replaces the one given. */
  readonly flags: readonly string[];
  /** What the columns look like, one clause each. */
  readonly clauses: readonly string[];
  /** Rows of the sample that match the filters, and how many of them can be read with the flags. */
  readonly rows: number;
  readonly readable: number;
}

/** Guesses how to read the rows of a sample. Null if it does not know a column for each role, or nothing to add. */
export function guessFlags(sample: FileSample, given: GivenFlags): FlagGuess | null {
  const guess = guessRows(sample, given);
  return guess === null || guess.flags.length === 0 ? null : guess;
}

interface RowGuess extends FlagGuess {
  readonly columns: ReadonlyMap<Role, string>;
}

/** The same; `flags` is empty if there is nothing to add. */
function guessRows(sample: FileSample, given: GivenFlags): RowGuess | null {
  const columnOf = openColumns(sample);
  const datasets = guessDatasets(sample, given, columnOf);
  const found = guessColumns(sample.names, given, datasets, columnOf);
  if (found === null) return null;
  const { columns, guessed } = found;
  const own = [...columns.values()];
  const isWhole = findWholeRows(sample, columns, datasets, columnOf);
  const kinds = given.filters.length > 0 ? [] : guessFilters(sample, own, isWhole, columnOf);
  const example =
    given.filters.length > 0 || !guessed.has('symbol') ? null : findMixedKinds(sample, own, kinds, isWhole, columnOf);
  const filters = given.filters.length > 0 ? given.filters : [...kinds, ...(example === null ? [] : [example.filter])];
  const isChosen = chooseRows(sample, filters, columnOf);
  const chosen = (role: Role): (string | null)[] =>
    columns.has(role) ? columnOf(columns.get(role)!).filter((_, i) => isChosen[i]) : [];
  if (guessed.has('t') && hasRepeatedDays(chosen('symbol'), chosen('t'))) return null;
  const times = guessTimeRules(present(chosen('t')), given.rows);
  const prices = guessPriceRules(listPrices(datasets, chosen), given.rows);
  const rules = { ...given.rows, ...times.rules, ...prices.rules };
  const price = [...columns.keys()].find((role) => priceRoles.includes(role));
  const clauses = [...columns]
    .map(([role, name]) => {
      const details = role === 't' ? times.clauses : role === price ? prices.clauses : [];
      if (!guessed.has(role) && details.length === 0) return null;
      return `${name} looks like ${roleMeanings[role]}${details.length > 0 ? ` (${details.join(', ')})` : ''}`;
    })
    .filter((clause) => clause !== null);
  const newFilters = given.filters.length > 0 ? [] : filters;
  for (const { column, value } of kinds) clauses.push(`${column} is ${value} in the rows that have them`);
  if (example !== null)
    clauses.push(
      `rows of one symbol differ in ${example.filter.column} (${example.values.join(', ')}), and their prices may be different things: --where selects one, ${example.filter.value} is only an example`,
    );
  clauses.push(
    ...describeNoPrices(sample.names, guessed),
    ...describeQuotes(sample, given, datasets, columns),
    ...describeTrades(sample, given, datasets),
  );
  const flags = [
    ...(given.datasets === null && !datasets.includes('ticks') && guessed.size > 0
      ? [`--dataset ${datasets.join(',')}`]
      : []),
    ...(guessed.size === 0 ? [] : [formatColumnsFlag([...columns])]),
    ...newFilters.map(({ column, value }) => `--where ${quoteShellWord(`${column}=${value}`)}`),
    ...times.flags,
    ...prices.flags,
  ].filter((flag) => flag !== '');
  const rows = isChosen.filter(Boolean).length;
  return { columns, flags, clauses, rows, readable: countReadable(datasets, columns, rules, chosen) };
}

/**
 * The flags with which a file of ticks also feeds quotes, or a file of quotes also ticks. Null if it has no columns for both.
 * @param sample with the names of the file
 */
export function guessBothFlags(sample: FileSample, { renames }: Pick<GivenFlags, 'renames'>): string[] | null {
  const columnOf = openColumns(sample);
  const found = guessColumns(sample.names, { renames }, ['ticks', 'quotes'], columnOf);
  if (found === null) return null;
  const { columns } = found;
  const isUsable = (role: Role): boolean => columns.has(role) && fits[role](present(columnOf(columns.get(role)!)));
  if (!isUsable('p') || !(isUsable('bid') || isUsable('ask'))) return null;
  return ['--dataset ticks,quotes', formatColumnsFlag([...columns])].filter((flag) => flag !== '');
}

/** What shows that a file of ticks holds trades, and how to import them. */
export interface TradesGuess {
  /** Columns that ticks do not have, at least two. */
  readonly columns: readonly string[];
  /** Flags to add to those given; a `--columns` among them replaces the one given. */
  readonly flags: readonly string[];
}

/**
 * Finds the columns of trades in a file of ticks: besides the price a size, and an identifier or a side. Null without them.
 * @param sample with the names of the file
 */
export function guessTrades(sample: FileSample, given: GivenFlags): TradesGuess | null {
  const renames = given.renames.map(([name, own]): ColumnRename => [name === 'p' ? 'price' : name, own]);
  const guess = guessRows(sample, { ...given, datasets: ['trades'], renames });
  if (guess === null || guess.readable === 0 || !showTrades(guess.columns)) return null;
  const price = given.renames.find(([name]) => name === 'p')?.[1];
  const columnsFlag = formatColumnsFlag([...guess.columns]);
  // A flag is needed to replace `--columns p=price`, even if all columns have the names of trades.
  const replacing =
    columnsFlag === '' && price !== undefined ? `--columns price=${quoteShellWord(price)}` : columnsFlag;
  return {
    columns: (['trade_id', 'size', 'aggressor'] as const)
      .map((role) => guess.columns.get(role))
      .filter((own) => own !== undefined),
    flags: ['--dataset trades', replacing, ...guess.flags.filter((flag) => !flag.startsWith('--columns '))].filter(
      (flag) => flag !== '',
    ),
  };
}

/** Whether columns beside the price show that rows are trades. The number of a row beside a volume does not. */
function showTrades(columns: ReadonlyMap<Role, string>): boolean {
  if (columns.has('aggressor')) return true;
  const [id, size] = [columns.get('trade_id'), columns.get('size')!];
  if (id === undefined) return false;
  return !(/^(uu)?id$/.test(normalizeName(id)) && /^(volume|amount)$/.test(normalizeName(size)));
}

/** The clause `trade_id, size and side look like trades: …`. @param paths of the files, in parentheses; empty for none */
export const formatTradesGuess = ({ columns, flags }: TradesGuess, paths = ''): string =>
  `${columns.slice(0, -1).join(', ')} and ${columns.at(-1)} look like trades${paths}: ${flags.join(' ')} imports them; without it, prices are stored as ticks`;

/** A clause about trades in a file of which the flags would import ticks only. */
function describeTrades(sample: FileSample, given: GivenFlags, datasets: readonly ImportDataset[]): string[] {
  if (given.datasets !== null || !datasets.includes('ticks')) return [];
  const trades = guessTrades(sample, given);
  if (trades === null) return [];
  return [formatTradesGuess(trades)];
}

/** A clause about prices of NO beside a guessed bid or ask, which is that of YES. */
function describeNoPrices(names: readonly string[], guessed: ReadonlySet<Role>): string[] {
  const ofNo = names.filter((name) => noPricePattern.test(name) && /(bid|ask)/i.test(name));
  if (ofNo.length === 0 || !(guessed.has('bid') || guessed.has('ask'))) return [];
  return [`${ofNo.join(', ')}: prices of NO, which quotes of YES do not contain`];
}

/** A clause about quotes in a file of ticks. How to import them is said when its ticks can be read. */
function describeQuotes(
  sample: FileSample,
  given: GivenFlags,
  datasets: readonly ImportDataset[],
  columns: ReadonlyMap<Role, string>,
): string[] {
  if (given.datasets !== null || !datasets.includes('ticks')) return [];
  const both = guessBothFlags(sample, { renames: [...given.renames, ...columns] });
  return both === null ? [] : ['there are quotes too: --dry-run with these flags says how to import them'];
}

/** Prices, or the prices of all levels. */
function listPrices(datasets: readonly ImportDataset[], chosen: (role: Role) => (string | null)[]): string[] {
  if (!datasets.includes('orderbooks'))
    return present([...chosen('p'), ...chosen('price'), ...chosen('bid'), ...chosen('ask')]);
  return [...chosen('bids'), ...chosen('asks')].flatMap(
    (text) => (text === null ? null : parseLevels(text))?.map(({ price }) => String(price)) ?? [],
  );
}

/** Whether each row of the sample has a value for each role that it needs. A quote needs a bid or an ask. */
function findWholeRows(
  { rows }: FileSample,
  columns: ReadonlyMap<Role, string>,
  datasets: readonly ImportDataset[],
  columnOf: (name: string) => (string | null)[],
): boolean[] {
  const isOptional = (role: Role): boolean =>
    optionalTradeRoles.includes(role) ||
    (datasets.includes('quotes') && (quoteRoles.includes(role) || role === 'p') && role !== 'symbol' && role !== 't');
  const values = [...columns].map(([role, name]) => ({ role, of: columnOf(name) }));
  const needed = values.filter(({ role }) => !isOptional(role));
  const oneOf = values.filter(({ role }) => isOptional(role) && priceRoles.includes(role));
  const has = (i: number) => (column: { readonly of: readonly (string | null)[] }) => (column.of[i] ?? '') !== '';
  return rows.map((_, i) => needed.every(has(i)) && (oneOf.length === 0 || oneOf.some(has(i))));
}

const optionalTradeRoles: readonly Role[] = ['trade_id', 'aggressor', 'tx_hash'];

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
  isWhole: readonly boolean[],
  columnOf: (name: string) => (string | null)[],
): ColumnFilter[] {
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
  isWhole: readonly boolean[],
  columnOf: (name: string) => (string | null)[],
): { readonly filter: ColumnFilter; readonly values: readonly string[] } | null {
  const isChosen = chooseRows(sample, filters, columnOf);
  const symbols = columnOf(own[0]!);
  const candidates = sample.names.filter((name) => kindNames.includes(normalizeName(name)) && !/[=,]/.test(name));
  for (const name of candidates) {
    if (own.includes(name)) continue;
    const kindsOf = new Map<string, Set<string>>();
    for (const [i, kind] of columnOf(name).entries()) {
      if (!isChosen[i] || !isWhole[i] || kind === null || kind === '') continue;
      const symbol = symbols[i]!;
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
  datasets: readonly ImportDataset[],
  columns: ReadonlyMap<Role, string>,
  rules: TickRowRules,
  chosen: (role: Role) => (string | null)[],
): number {
  const values = new Map([...columns.keys()].map((role) => [role, chosen(role)] as const));
  const symbols = values.get('symbol')!;
  const ids = createTradeIds();
  let readable = 0;
  let isRead = false;
  const sink = {
    accept: () => {
      isRead = true;
    },
    reject: () => {},
  };
  for (const [i, symbol] of symbols.entries()) {
    isRead = false;
    const cell = (role: Role): string | null => values.get(role)?.[i] ?? null;
    if (datasets.includes('orderbooks')) {
      const row = { symbol, t: cell('t'), bids: cell('bids'), asks: cell('asks') };
      isRead = !('reason' in readBookRow(row, rules, Number.POSITIVE_INFINITY));
    } else {
      const row = { symbol: [symbol], t: [cell('t')], p: [cell('p')], isLocalTime: false };
      const quote = {
        bid: [cell('bid')],
        ask: [cell('ask')],
        bid_size: [cell('bid_size')],
        ask_size: [cell('ask_size')],
      };
      const ticks = datasets.includes('ticks') ? sink : null;
      if (datasets.includes('quotes'))
        readQuoteRows({ ...row, ...quote }, rules, Number.POSITIVE_INFINITY, { quotes: sink, ticks });
      else if (datasets.includes('trades')) {
        const names = ['price', 'size', 'trade_id', 'aggressor', 'tx_hash'] as const;
        const trade = Object.fromEntries(names.map((name) => [name, [cell(name)]]));
        readTradeRows({ ...row, ...trade }, rules, Number.POSITIVE_INFINITY, sink, ids);
      } else readRows(row, rules, sink);
    }
    if (isRead) readable++;
  }
  return readable;
}
