import { countPoints, pointsMax } from './bind-parameters.ts';
import { type ObjectiveName, objectiveNames } from './objectives.ts';
import { readStrategy } from './parse-strategy.ts';
import { type Strategy, strategyLimits } from './strategy.ts';
import { type Fault, Reader } from './validator.ts';

/** What a research backtest is asked for: POST /api/v1/research/backtest, and `oddslake backtest run`. */
export interface BacktestAsked {
  readonly entry_executable: ExecutableAsked;
  readonly objective: ObjectiveName;
  /** Null: all that the filter leaves. */
  readonly symbols: readonly string[] | null;
  readonly filter: SymbolFilter;
  /** Epoch milliseconds, half-open; null: as far as there are ticks. */
  readonly from: number | null;
  readonly to: number | null;
  /** Values of the strategy's parameters that are not their defaults. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Values to be tried of some parameters, in every combination; none: one run. */
  readonly grid: Readonly<Record<string, readonly number[]>>;
  /** The share of the span, its end, that a grid is judged on and not chosen by. */
  readonly held_out: number;
}

/** A strategy by its name: one that everybody has, or one of the user's; or one that comes with the request. */
export interface ExecutableAsked {
  readonly name: string;
  /** Of a user's strategy; null: the latest. */
  readonly version: number | null;
  readonly strategy: Strategy | null;
}

/** Only symbols of one of these categories, and of one of these sources, as they were last known; none named: all. */
export interface SymbolFilter {
  readonly categories: readonly string[];
  readonly sources: readonly string[];
}

export const askedLimits = { symbols: 10_000, names: 100, values: 1000, textLength: 1000 } as const;
/** No tick is later than the year 2100. */
const epochMs = { least: 0, most: Date.UTC(2200, 0, 1) };
const anyNumber = { least: -Number.MAX_VALUE, most: Number.MAX_VALUE };
const heldOutDefault = 0.3;

/** Reads a request for a backtest; all that is wrong with it, or what is asked. */
export function readAsked(json: unknown): { asked: BacktestAsked } | { faults: readonly Fault[] } {
  const reader = new Reader();
  const object = reader.object(json, '', {
    required: ['entry_executable', 'objective'],
    optional: ['symbols', 'filter', 'from', 'to', 'parameters', 'grid', 'held_out'],
  });
  const { symbols = null, filter = {}, from = null, to = null, parameters = {}, grid = {}, held_out } = object;
  const asked = {
    entry_executable: executableIn(reader, object.entry_executable),
    objective: reader.oneOf(object.objective, 'objective', objectiveNames),
    symbols: symbols === null ? null : texts(reader, symbols, 'symbols', { least: 1, most: askedLimits.symbols }),
    filter: filterIn(reader, filter),
    from: from === null ? null : wholeIn(reader, from, 'from', epochMs),
    to: to === null ? null : wholeIn(reader, to, 'to', epochMs),
    parameters: numbersIn(reader, parameters, 'parameters', (value, at) => reader.number(value, at, anyNumber)),
    grid: gridIn(reader, grid),
    held_out: held_out === undefined ? heldOutDefault : reader.number(held_out, 'held_out', { least: 0.05, most: 0.9 }),
  };
  if (asked.from !== null && asked.to !== null && asked.from >= asked.to) reader.fault('to', 'must be after from');
  return reader.faults.length > 0 ? { faults: reader.faults } : { asked };
}

function executableIn(reader: Reader, json: unknown): ExecutableAsked {
  const at = 'entry_executable';
  const {
    name,
    version = null,
    strategy = null,
  } = reader.object(json, at, {
    required: ['name'],
    optional: ['version', 'strategy'],
  });
  const read = strategy === null ? null : readStrategy(strategy, `${at}.strategy`);
  if (read !== null && 'faults' in read) for (const { name, reason } of read.faults) reader.fault(name, reason);
  return {
    name: reader.text(name, `${at}.name`, 200),
    version: version === null ? null : wholeIn(reader, version, `${at}.version`, { least: 1, most: 1e9 }),
    strategy: read !== null && 'strategy' in read ? read.strategy : null,
  };
}

function filterIn(reader: Reader, json: unknown): SymbolFilter {
  const { categories = [], sources = [] } = reader.object(json, 'filter', {
    required: [],
    optional: ['categories', 'sources'],
  });
  const size = { least: 0, most: askedLimits.names };
  return {
    categories: texts(reader, categories, 'filter.categories', size),
    sources: texts(reader, sources, 'filter.sources', size),
  };
}

function texts(reader: Reader, json: unknown, at: string, size: { readonly least: number; readonly most: number }) {
  const read = reader.list(json, at, size).map((one, i) => reader.text(one, `${at}[${i}]`, askedLimits.textLength));
  return [...new Set(read)];
}

function wholeIn(reader: Reader, json: unknown, at: string, range: { readonly least: number; readonly most: number }) {
  const value = reader.number(json, at, range);
  if (!Number.isInteger(value)) reader.fault(at, 'must be a whole number');
  return value;
}

/** An object of names; what they may be is judged by the strategy. */
function numbersIn<T>(reader: Reader, json: unknown, at: string, read: (value: unknown, at: string) => T) {
  const entries = Object.entries(reader.object(json, at));
  // More than a strategy can have; the message of that would name each.
  if (entries.length > strategyLimits.parameters) {
    reader.fault(at, `has ${entries.length} names, more than ${strategyLimits.parameters}`);
    return {};
  }
  return Object.fromEntries(entries.map(([name, value]) => [name, read(value, reader.path(at, name))]));
}

function gridIn(reader: Reader, json: unknown): Record<string, number[]> {
  const size = { least: 1, most: askedLimits.values };
  const grid = numbersIn(reader, json, 'grid', (values, at) => [
    ...new Set(reader.list(values, at, size).map((value, i) => reader.number(value, `${at}[${i}]`, anyNumber))),
  ]);
  const points = countPoints(grid);
  if (points > pointsMax) reader.fault('grid', `has ${points} points, more than ${pointsMax}`);
  return grid;
}
