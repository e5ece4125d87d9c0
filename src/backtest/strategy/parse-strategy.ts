import { type Fault, finiteRange, JsonValidator, type NumberRange } from './json-validator.ts';
import {
  boundNames,
  type CategoryTest,
  type Condition,
  type ContractFees,
  contractsMax,
  type Fees,
  feeLimits,
  feeSchedules,
  kalshiLiquidities,
  kalshiRoundings,
  type Measure,
  measureNames,
  type NumberTest,
  type Operand,
  positionMeasures,
  type Quantity,
  type Rule,
  type Size,
  type Strategy,
  strategyLimits,
  windowedMeasures,
  windowMsMax,
} from './strategy.ts';

const noFees: ContractFees = { per_contract: 0, of_notional: 0, of_variance: 0 };

const shareRange: NumberRange = { min: 0, max: 1 };
const sizeRange: NumberRange = { min: 1e-6, max: contractsMax };
const countRange: NumberRange = { min: 1, max: 1e6 };
const multiplierRange: NumberRange = { min: 0, max: feeLimits.multiplier };
const exponentRange: NumberRange = { min: 1, max: feeLimits.exponent };
const windowRange: NumberRange = { min: 1, max: windowMsMax };

/** Parses a strategy from JSON. Returns all faults of an invalid strategy. */
export function parseStrategy(json: unknown, at = ''): { strategy: Strategy } | { faults: readonly Fault[] } {
  const reader = new JsonValidator();
  const strategy = parseStrategyFields(reader, json, at);
  return reader.faults.length > 0 ? { faults: reader.faults } : { strategy };
}

function parseStrategyFields(reader: JsonValidator, json: unknown, at: string): Strategy {
  const {
    parameters = {},
    rules,
    fees = {},
    slippage = 0,
    whole_contracts = null,
  } = reader.object(json, at, {
    required: ['rules'],
    optional: ['parameters', 'fees', 'slippage', 'whole_contracts'],
  });
  const parsedParameters = parseParameters(reader, parameters, reader.path(at, 'parameters'));
  const scope: ParseScope = { reader, parameters: parsedParameters, conditions: 0 };
  const rulesAt = reader.path(at, 'rules');
  const list = reader.list(rules, rulesAt, { min: 1, max: strategyLimits.rules });
  const parsed = list.map((rule, i) => parseRule(scope, rule, `${rulesAt}[${i}]`));
  const out = {
    parameters: parsedParameters,
    rules: parsed,
    fees: parseFees(scope, fees, reader.path(at, 'fees')),
    slippage: parseQuantity(scope, slippage, reader.path(at, 'slippage'), shareRange),
    whole_contracts: parseWholeContracts(reader, whole_contracts, reader.path(at, 'whole_contracts')),
  };
  if (scope.conditions > strategyLimits.conditions)
    reader.fault(rulesAt, `has ${scope.conditions} conditions, more than ${strategyLimits.conditions}`);
  return out;
}

/** State of the parser. */
interface ParseScope {
  readonly reader: JsonValidator;
  readonly parameters: Readonly<Record<string, number>>;
  conditions: number;
}

/** Names of parameters, which are also used in command line flags and as keys of objects. */
const parameterNamePattern = /^[a-z][a-z0-9_]{0,39}$/;

function parseParameters(reader: JsonValidator, json: unknown, at: string): Record<string, number> {
  const entries = Object.entries(reader.object(json, at));
  if (entries.length > strategyLimits.parameters)
    reader.fault(at, `has ${entries.length} names, more than ${strategyLimits.parameters}`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      const place = reader.path(at, name);
      if (!parameterNamePattern.test(name))
        reader.fault(place, 'must be a name of at most 40 characters a-z, 0-9 and _, starting with a letter');
      return [name, reader.number(value, place, finiteRange)];
    }),
  );
}

function parseRule(scope: ParseScope, json: unknown, at: string): Rule {
  const { reader } = scope;
  const fields = { required: ['side', 'entry', 'size'], optional: ['exit', 'entries_max'] };
  const { side, entry, exit = null, size, entries_max = null } = reader.object(json, at, fields);
  return {
    side: reader.oneOf(side, `${at}.side`, ['yes', 'no']),
    entry: parseCondition(scope, entry, `${at}.entry`, { depth: 1, hasPosition: false }),
    exit: exit === null ? null : parseCondition(scope, exit, `${at}.exit`, { depth: 1, hasPosition: true }),
    size: parseSize(scope, size, `${at}.size`),
    entries_max: entries_max === null ? null : parseQuantity(scope, entries_max, `${at}.entries_max`, countRange),
  };
}

function parseSize(scope: ParseScope, json: unknown, at: string): Size {
  const parsed = scope.reader.object(json, at, { required: [], optional: ['contracts', 'dollars'] });
  const [name, ...others] = Object.keys(parsed);
  if (name === undefined || others.length > 0) {
    scope.reader.fault(at, 'must have one of contracts and dollars');
    return { contracts: 1 };
  }
  const value = parseQuantity(scope, parsed[name], `${at}.${name}`, sizeRange);
  return name === 'dollars' ? { dollars: value } : { contracts: value };
}

export const parseWholeContracts = (reader: JsonValidator, json: unknown, at: string): boolean | null =>
  json === null ? null : reader.boolean(json, at);

/** Parses fees outside a strategy, which cannot refer to parameters. */
export const parseFixedFees = (reader: JsonValidator, json: unknown, at: string): Fees =>
  parseFees({ reader, parameters: {}, conditions: 0 }, json, at);

function parseFees(scope: ParseScope, json: unknown, at: string): Fees {
  const { reader } = scope;
  const object = reader.object(json, at);
  if (Object.hasOwn(object, 'schedule')) return parseFeeSchedule(scope, object, at);
  const parsed = reader.object(json, at, { required: [], optional: Object.keys(noFees) });
  const fee = (name: keyof ContractFees): Quantity =>
    Object.hasOwn(parsed, name) ? parseQuantity(scope, parsed[name], `${at}.${name}`, shareRange) : noFees[name];
  return { per_contract: fee('per_contract'), of_notional: fee('of_notional'), of_variance: fee('of_variance') };
}

function parseFeeSchedule(scope: ParseScope, object: Record<string, unknown>, at: string): Fees {
  const { reader } = scope;
  const scheduleAt = `${at}.schedule`;
  // A text, because oneOf accepts undefined.
  const schedule = reader.oneOf(reader.text(object.schedule, scheduleAt, 40), scheduleAt, feeSchedules);
  if (object.schedule !== schedule) return noFees;
  if (schedule === 'kalshi') {
    const fields = { required: ['schedule'], optional: ['liquidity', 'multiplier', 'rounding'] };
    const { liquidity = 'taker', multiplier = 1, rounding = 'cent' } = reader.object(object, at, fields);
    return {
      schedule,
      liquidity: reader.oneOf(liquidity, `${at}.liquidity`, kalshiLiquidities),
      multiplier: parseQuantity(scope, multiplier, `${at}.multiplier`, multiplierRange),
      rounding: reader.oneOf(rounding, `${at}.rounding`, kalshiRoundings),
    };
  }
  const { rate, exponent = 1 } = reader.object(object, at, { required: ['schedule', 'rate'], optional: ['exponent'] });
  return {
    schedule,
    rate: parseQuantity(scope, rate, `${at}.rate`, shareRange),
    exponent: reader.integer(exponent, `${at}.exponent`, exponentRange),
  };
}

/** Context of a condition. */
interface ConditionContext {
  readonly depth: number;
  /** Whether measures of the position are allowed. */
  readonly hasPosition: boolean;
}

function parseCondition(scope: ParseScope, json: unknown, at: string, context: ConditionContext): Condition {
  const { reader } = scope;
  scope.conditions++;
  const object = reader.object(json, at);
  for (const operator of ['all', 'any'] as const) {
    if (!Object.hasOwn(object, operator)) continue;
    reader.object(json, at, { required: [operator], optional: [] });
    if (context.depth >= strategyLimits.depth) {
      reader.fault(at, `is nested more than ${strategyLimits.depth} levels deep`);
      return { all: [] };
    }
    const list = reader.list(object[operator], `${at}.${operator}`, { min: 0, max: strategyLimits.conditions });
    const nested = { ...context, depth: context.depth + 1 };
    const conditions = list.map((item, i) => parseCondition(scope, item, `${at}.${operator}[${i}]`, nested));
    return operator === 'all' ? { all: conditions } : { any: conditions };
  }
  if (!Object.hasOwn(object, 'measure')) {
    reader.fault(at, 'must have one of all, any and measure');
    return { all: [] };
  }
  return object.measure === 'category'
    ? parseCategoryTest(reader, json, at)
    : parseNumberTest(scope, json, at, context);
}

function parseNumberTest(scope: ParseScope, json: unknown, at: string, context: ConditionContext): NumberTest {
  const { reader } = scope;
  const fields = { required: ['measure'], optional: ['window_ms', ...boundNames] };
  const object = reader.object(json, at, fields);
  const givenBounds = boundNames.filter((bound) => Object.hasOwn(object, bound));
  if (givenBounds.length === 0) reader.fault(at, `must have one of ${boundNames.join(', ')}`);
  const operands = givenBounds.map(
    (bound) => [bound, parseOperand(scope, object[bound], `${at}.${bound}`, context)] as const,
  );
  return { ...parseMeasure(scope, object, at, context), ...Object.fromEntries(operands) };
}

function parseOperand(scope: ParseScope, json: unknown, at: string, context: ConditionContext): Operand {
  if (typeof json !== 'object' || json === null || !Object.hasOwn(json, 'measure'))
    return parseQuantity(scope, json, at, finiteRange);
  const object = scope.reader.object(json, at, { required: ['measure'], optional: ['window_ms'] });
  return parseMeasure(scope, object, at, context);
}

function parseMeasure(
  scope: ParseScope,
  object: Record<string, unknown>,
  at: string,
  { hasPosition }: ConditionContext,
): Measure {
  const { reader } = scope;
  const measure = reader.oneOf(object.measure, `${at}.measure`, measureNames);
  if (positionMeasures.has(measure) && !hasPosition)
    reader.fault(`${at}.measure`, `${measure} is allowed only in an exit`);
  const hasWindow = Object.hasOwn(object, 'window_ms');
  if (!windowedMeasures.has(measure)) {
    if (hasWindow) reader.fault(`${at}.window_ms`, `is not allowed for ${measure}`);
    return { measure };
  }
  if (!hasWindow) {
    reader.fault(`${at}.window_ms`, `is missing: ${measure} requires a window`);
    return { measure };
  }
  return { measure, window_ms: parseQuantity(scope, object.window_ms, `${at}.window_ms`, windowRange) };
}

function parseCategoryTest(reader: JsonValidator, json: unknown, at: string): CategoryTest {
  const object = reader.object(json, at, { required: ['measure'], optional: ['in', 'not_in'] });
  const givenBounds = (['in', 'not_in'] as const).filter((name) => Object.hasOwn(object, name));
  if (givenBounds.length !== 1) reader.fault(at, 'must have one of in and not_in');
  const lists = givenBounds.map((name) => {
    const list = reader.list(object[name], `${at}.${name}`, { min: 1, max: strategyLimits.categories });
    return [name, list.map((item, i) => reader.text(item, `${at}.${name}[${i}]`, 200))] as const;
  });
  return { measure: 'category', ...Object.fromEntries(lists) };
}

/** Parses a number, or a parameter whose value is in the range. */
function parseQuantity({ reader, parameters }: ParseScope, json: unknown, at: string, range: NumberRange): Quantity {
  if (typeof json !== 'object' || json === null) return reader.number(json, at, range);
  const { parameter, times } = reader.object(json, at, { required: ['parameter'], optional: ['times'] });
  const name = reader.text(parameter, `${at}.parameter`, 40);
  const factor = times === undefined ? 1 : reader.number(times, `${at}.times`, finiteRange);
  if (!Object.hasOwn(parameters, name)) reader.fault(`${at}.parameter`, `${name} is not a parameter of the strategy`);
  else reader.number(parameters[name]! * factor, at, range);
  return { parameter: name, ...(times !== undefined && { times: factor }) };
}

/** Parameter values of one grid point. */
export type ParameterPoint = Readonly<Record<string, number>>;

/** Maximum number of grid points of a run. */
export const pointsMax = 1000;

/** Sets parameters of a strategy. Returns faults for unknown parameters and invalid values. */
export function bindParameters(
  strategy: Strategy,
  values: ParameterPoint,
): { strategy: Strategy } | { faults: readonly Fault[] } {
  const unknown = Object.keys(values).filter((name) => !Object.hasOwn(strategy.parameters, name));
  if (unknown.length > 0)
    return { faults: unknown.map((name) => createUnknownParameterFault(strategy, `parameters.${name}`)) };
  const bound = { ...strategy, parameters: { ...strategy.parameters, ...values } };
  const parsed = parseStrategy(bound);
  if ('strategy' in parsed) return parsed;
  // One fault per parameter, because an invalid value is usually invalid in several places.
  const faults = new Map(parsed.faults.toReversed().map((fault) => [toParameterFault(bound, fault).name, fault]));
  return { faults: [...faults.values()].toReversed().map((fault) => toParameterFault(bound, fault)) };
}

/** Maps a fault in the strategy to the parameter that caused it. */
function toParameterFault(strategy: Strategy, { name, reason }: Fault): Fault {
  let part: unknown = strategy;
  for (const key of name.split(/[.[\]]+/).filter((each) => each !== ''))
    part = (part as Record<string, unknown> | undefined)?.[key];
  const parameter = (part as { readonly parameter?: string } | undefined)?.parameter;
  if (parameter === undefined) return { name, reason };
  const value = strategy.parameters[parameter];
  return { name: `parameters.${parameter}`, reason: `is ${value}, which is invalid for ${name}: it ${reason}` };
}

const createUnknownParameterFault = ({ parameters }: Strategy, name: string): Fault => {
  const names = Object.keys(parameters).join(', ');
  return { name, reason: names === '' ? 'the strategy has no parameters' : `the strategy has only ${names}` };
};

/** The value of a quantity. */
export const resolveQuantity = (quantity: Quantity, { parameters }: Strategy): number =>
  typeof quantity === 'number' ? quantity : parameters[quantity.parameter]! * (quantity.times ?? 1);

/** All combinations of the values; the last name varies fastest. One point for an empty grid. */
export function expandGrid(grid: Readonly<Record<string, readonly number[]>>): ParameterPoint[] {
  let points: ParameterPoint[] = [{}];
  for (const [name, values] of Object.entries(grid))
    points = points.flatMap((point) => values.map((value) => ({ ...point, [name]: value })));
  return points;
}

/** Number of points of a grid. */
export const countPoints = (grid: Readonly<Record<string, readonly unknown[]>>): number =>
  Object.values(grid).reduce((product, values) => product * values.length, 1);

/** Data that a strategy needs. */
export interface DataDependencies {
  /** Maximum lookback before a tick, in milliseconds. */
  readonly lookbackMs: number;
  /** Whether it needs market states. */
  readonly needsStates: boolean;
  /** Whether it needs other venues. */
  readonly needsVenues: boolean;
}

export function findDataDependencies(strategy: Strategy): DataDependencies {
  const measures = strategy.rules.flatMap(({ entry, exit }) => [
    ...listMeasures(entry),
    ...(exit === null ? [] : listMeasures(exit)),
  ]);
  const names = new Set(measures.map(({ measure }) => measure));
  const windows = measures.map(({ window_ms }) => (window_ms === undefined ? 0 : resolveQuantity(window_ms, strategy)));
  return {
    lookbackMs: windows.reduce((max, window) => Math.max(max, window), 0),
    needsStates: names.has('category') || names.has('confidence') || names.has('time_to_close_ms'),
    needsVenues: names.has('venue_spread'),
  };
}

/** Data that several strategies need. */
export const mergeDataDependencies = (strategies: readonly Strategy[]): DataDependencies =>
  strategies.map(findDataDependencies).reduce((a, b) => ({
    lookbackMs: Math.max(a.lookbackMs, b.lookbackMs),
    needsStates: a.needsStates || b.needsStates,
    needsVenues: a.needsVenues || b.needsVenues,
  }));

type NamedMeasure = Pick<Measure, 'window_ms'> & { readonly measure: string };

function listMeasures(condition: Condition): NamedMeasure[] {
  if ('all' in condition) return condition.all.flatMap(listMeasures);
  if ('any' in condition) return condition.any.flatMap(listMeasures);
  if (condition.measure === 'category') return [condition];
  const operands = boundNames.map((bound) => condition[bound]);
  return [condition, ...operands.filter((operand) => typeof operand === 'object' && 'measure' in operand)];
}
