import { type ObjectiveName, objectiveNames } from './engine/objectives.ts';
import { type Fault, finiteRange, JsonValidator, type NumberRange } from './strategy/json-validator.ts';
import {
  countPoints,
  parseFixedFees,
  parseStrategy,
  parseWholeContracts,
  pointsMax,
} from './strategy/parse-strategy.ts';
import { type Fees, type Strategy, strategyLimits } from './strategy/strategy.ts';

/** Request of a backtest, from POST /api/v1/research/backtest or `oddslake backtest run`. */
export interface BacktestSpec {
  readonly entry_executable: ExecutableSpec;
  readonly objective: ObjectiveName;
  /** Null: all symbols that match the filter. */
  readonly symbols: readonly string[] | null;
  readonly filter: SymbolFilter;
  /** Epoch milliseconds, half-open; null: the first or last tick. */
  readonly from: number | null;
  readonly to: number | null;
  /** Parameter values that override the defaults of the strategy. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Parameter values to try, in every combination; empty: one run. */
  readonly grid: Readonly<Record<string, readonly number[]>>;
  /** Share of the window, at its end, that is held out to evaluate the grid point chosen on the rest. */
  readonly held_out: number;
  /** Replace those of the strategy; null: as in the strategy. Without parameters. */
  readonly fees: Fees | null;
  readonly whole_contracts: boolean | null;
}

/** A built-in or saved strategy by name, or a strategy in the request. */
export interface ExecutableSpec {
  readonly name: string;
  /** Version of a saved strategy; null: the latest. */
  readonly version: number | null;
  readonly strategy: Strategy | null;
}

/** Selects symbols by their last known category and source; an empty list selects all. */
interface SymbolFilter {
  readonly categories: readonly string[];
  readonly sources: readonly string[];
}

const specLimits = { symbols: 10_000, names: 100, values: 1000, textLength: 1000 } as const;
const epochMsRange = { min: 0, max: Date.UTC(2200, 0, 1) };
const heldOutShareDefault = 0.3;

/** Parses a backtest request. Returns all faults of an invalid request. */
export function parseBacktestSpec(json: unknown): { spec: BacktestSpec } | { faults: readonly Fault[] } {
  const reader = new JsonValidator();
  const object = reader.object(json, '', {
    required: ['entry_executable', 'objective'],
    optional: ['symbols', 'filter', 'from', 'to', 'parameters', 'grid', 'held_out', 'fees', 'whole_contracts'],
  });
  const { symbols = null, filter = {}, from = null, to = null, parameters = {}, grid = {}, held_out } = object;
  const { fees = null, whole_contracts = null } = object;
  const spec = {
    entry_executable: parseExecutable(reader, object.entry_executable),
    objective: reader.oneOf(object.objective, 'objective', objectiveNames),
    symbols: symbols === null ? null : parseTexts(reader, symbols, 'symbols', { min: 1, max: specLimits.symbols }),
    filter: parseFilter(reader, filter),
    from: from === null ? null : reader.integer(from, 'from', epochMsRange),
    to: to === null ? null : reader.integer(to, 'to', epochMsRange),
    parameters: parseNumbers(reader, parameters, 'parameters', (value, at) => reader.number(value, at, finiteRange)),
    grid: parseGrid(reader, grid),
    held_out:
      held_out === undefined ? heldOutShareDefault : reader.number(held_out, 'held_out', { min: 0.05, max: 0.9 }),
    fees: fees === null ? null : parseFixedFees(reader, fees, 'fees'),
    whole_contracts: parseWholeContracts(reader, whole_contracts, 'whole_contracts'),
  };
  if (spec.from !== null && spec.to !== null && spec.from >= spec.to) reader.fault('to', 'must be after from');
  return reader.faults.length > 0 ? { faults: reader.faults } : { spec };
}

function parseExecutable(reader: JsonValidator, json: unknown): ExecutableSpec {
  const at = 'entry_executable';
  const {
    name,
    version = null,
    strategy = null,
  } = reader.object(json, at, {
    required: ['name'],
    optional: ['version', 'strategy'],
  });
  const read = strategy === null ? null : parseStrategy(strategy, `${at}.strategy`);
  if (read !== null && 'faults' in read) for (const { name, reason } of read.faults) reader.fault(name, reason);
  return {
    name: reader.text(name, `${at}.name`, 200),
    version: version === null ? null : reader.integer(version, `${at}.version`, { min: 1, max: 1e9 }),
    strategy: read !== null && 'strategy' in read ? read.strategy : null,
  };
}

function parseFilter(reader: JsonValidator, json: unknown): SymbolFilter {
  const { categories = [], sources = [] } = reader.object(json, 'filter', {
    required: [],
    optional: ['categories', 'sources'],
  });
  const size = { min: 0, max: specLimits.names };
  return {
    categories: parseTexts(reader, categories, 'filter.categories', size),
    sources: parseTexts(reader, sources, 'filter.sources', size),
  };
}

function parseTexts(reader: JsonValidator, json: unknown, at: string, size: NumberRange) {
  const read = reader.list(json, at, size).map((item, i) => reader.text(item, `${at}[${i}]`, specLimits.textLength));
  return [...new Set(read)];
}

/** Parses an object by parameter name. The names are checked later, against the strategy. */
function parseNumbers<T>(reader: JsonValidator, json: unknown, at: string, read: (value: unknown, at: string) => T) {
  const entries = Object.entries(reader.object(json, at));
  // Checked here, because the fault of unknown parameters lists all names.
  if (entries.length > strategyLimits.parameters) {
    reader.fault(at, `has ${entries.length} names, more than ${strategyLimits.parameters}`);
    return {};
  }
  return Object.fromEntries(entries.map(([name, value]) => [name, read(value, reader.path(at, name))]));
}

function parseGrid(reader: JsonValidator, json: unknown): Record<string, number[]> {
  const size = { min: 1, max: specLimits.values };
  const grid = parseNumbers(reader, json, 'grid', (values, at) => [
    ...new Set(reader.list(values, at, size).map((value, i) => reader.number(value, `${at}[${i}]`, finiteRange))),
  ]);
  const points = countPoints(grid);
  if (points > pointsMax) reader.fault('grid', `has ${points} points, more than ${pointsMax}`);
  return grid;
}
