import { type Fault, JsonValidator } from './json-validator.ts';
import {
  boundNames,
  type CategoryTest,
  type Condition,
  contractsMax,
  type Fees,
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

const noFees: Fees = { per_contract: 0, of_notional: 0, of_variance: 0 };

/** Least and greatest of a number, both included. */
interface NumberRange {
  readonly least: number;
  readonly most: number;
}

const finiteRange: NumberRange = { least: -Number.MAX_VALUE, most: Number.MAX_VALUE };
const shareRange: NumberRange = { least: 0, most: 1 };
const sizeRange: NumberRange = { least: 1e-6, most: contractsMax };
const countRange: NumberRange = { least: 1, most: 1e6 };
const windowRange: NumberRange = { least: 1, most: windowMsMax };

/** Reads a strategy from JSON: all that is wrong with it, each with the field that it is wrong in, or the strategy. */
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
  } = reader.object(json, at, {
    required: ['rules'],
    optional: ['parameters', 'fees', 'slippage'],
  });
  const known = parseParameters(reader, parameters, reader.path(at, 'parameters'));
  const scope: ParseScope = { reader, parameters: known, conditions: 0 };
  const rulesAt = reader.path(at, 'rules');
  const list = reader.list(rules, rulesAt, { least: 1, most: strategyLimits.rules });
  const read = list.map((rule, i) => parseRule(scope, rule, `${rulesAt}[${i}]`));
  const out = {
    parameters: known,
    rules: read,
    fees: parseFees(scope, fees, reader.path(at, 'fees')),
    slippage: parseQuantity(scope, slippage, reader.path(at, 'slippage'), shareRange),
  };
  if (scope.conditions > strategyLimits.conditions)
    reader.fault(rulesAt, `has ${scope.conditions} conditions, more than ${strategyLimits.conditions}`);
  return out;
}

/** What is known while a strategy is read. */
interface ParseScope {
  readonly reader: JsonValidator;
  readonly parameters: Readonly<Record<string, number>>;
  conditions: number;
}

/** Names of parameters: as they can be written as a flag of a command and a key of an object. */
const parameterNamePattern = /^[a-z][a-z0-9_]{0,39}$/;

function parseParameters(reader: JsonValidator, json: unknown, at: string): Record<string, number> {
  const entries = Object.entries(reader.object(json, at));
  if (entries.length > strategyLimits.parameters)
    reader.fault(at, `has ${entries.length} names, more than ${strategyLimits.parameters}`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      const place = reader.path(at, name);
      if (!parameterNamePattern.test(name)) reader.fault(place, 'must be named in a-z, 0-9 and _, at most 40 of them');
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
  const read = scope.reader.object(json, at, { required: [], optional: ['contracts', 'dollars'] });
  const [name, ...others] = Object.keys(read);
  if (name === undefined || others.length > 0) {
    scope.reader.fault(at, 'must have one of contracts and dollars');
    return { contracts: 1 };
  }
  const value = parseQuantity(scope, read[name], `${at}.${name}`, sizeRange);
  return name === 'dollars' ? { dollars: value } : { contracts: value };
}

function parseFees(scope: ParseScope, json: unknown, at: string): Fees {
  const read = scope.reader.object(json, at, { required: [], optional: Object.keys(noFees) });
  const fee = (name: keyof Fees): Quantity =>
    Object.hasOwn(read, name) ? parseQuantity(scope, read[name], `${at}.${name}`, shareRange) : noFees[name];
  return { per_contract: fee('per_contract'), of_notional: fee('of_notional'), of_variance: fee('of_variance') };
}

/** Where a condition stands. */
interface ConditionContext {
  readonly depth: number;
  /** Whether there is a position. */
  readonly hasPosition: boolean;
}

function parseCondition(scope: ParseScope, json: unknown, at: string, standing: ConditionContext): Condition {
  const { reader } = scope;
  scope.conditions++;
  const object = reader.object(json, at);
  for (const word of ['all', 'any'] as const) {
    if (!Object.hasOwn(object, word)) continue;
    reader.object(json, at, { required: [word], optional: [] });
    if (standing.depth >= strategyLimits.depth) {
      reader.fault(at, `stands in more than ${strategyLimits.depth} others`);
      return { all: [] };
    }
    const list = reader.list(object[word], `${at}.${word}`, { least: 0, most: strategyLimits.conditions });
    const inner = { ...standing, depth: standing.depth + 1 };
    const conditions = list.map((one, i) => parseCondition(scope, one, `${at}.${word}[${i}]`, inner));
    return word === 'all' ? { all: conditions } : { any: conditions };
  }
  if (!Object.hasOwn(object, 'measure')) {
    reader.fault(at, 'must have one of all, any and measure');
    return { all: [] };
  }
  return object.measure === 'category'
    ? parseCategoryTest(reader, json, at)
    : parseNumberTest(scope, json, at, standing);
}

function parseNumberTest(scope: ParseScope, json: unknown, at: string, standing: ConditionContext): NumberTest {
  const { reader } = scope;
  const fields = { required: ['measure'], optional: ['window_ms', ...boundNames] };
  const object = reader.object(json, at, fields);
  const named = boundNames.filter((bound) => Object.hasOwn(object, bound));
  if (named.length === 0) reader.fault(at, `must have one of ${boundNames.join(', ')}`);
  const operands = named.map(
    (bound) => [bound, parseOperand(scope, object[bound], `${at}.${bound}`, standing)] as const,
  );
  return { ...parseMeasure(scope, object, at, standing), ...Object.fromEntries(operands) };
}

function parseOperand(scope: ParseScope, json: unknown, at: string, standing: ConditionContext): Operand {
  if (typeof json !== 'object' || json === null || !Object.hasOwn(json, 'measure'))
    return parseQuantity(scope, json, at, finiteRange);
  const object = scope.reader.object(json, at, { required: ['measure'], optional: ['window_ms'] });
  return parseMeasure(scope, object, at, standing);
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
    reader.fault(`${at}.measure`, `${measure} is known in an exit only`);
  const given = Object.hasOwn(object, 'window_ms');
  if (!windowedMeasures.has(measure)) {
    if (given) reader.fault(`${at}.window_ms`, `is none of ${measure}`);
    return { measure };
  }
  if (!given) {
    reader.fault(`${at}.window_ms`, `is missing: ${measure} looks back so far`);
    return { measure };
  }
  return { measure, window_ms: parseQuantity(scope, object.window_ms, `${at}.window_ms`, windowRange) };
}

function parseCategoryTest(reader: JsonValidator, json: unknown, at: string): CategoryTest {
  const object = reader.object(json, at, { required: ['measure'], optional: ['in', 'not_in'] });
  const named = (['in', 'not_in'] as const).filter((name) => Object.hasOwn(object, name));
  if (named.length !== 1) reader.fault(at, 'must have one of in and not_in');
  const lists = named.map((name) => {
    const list = reader.list(object[name], `${at}.${name}`, { least: 1, most: strategyLimits.categories });
    return [name, list.map((one, i) => reader.text(one, `${at}.${name}[${i}]`, 200))] as const;
  });
  return { measure: 'category', ...Object.fromEntries(lists) };
}

/** A number in a range, or a parameter that has one in it. */
function parseQuantity({ reader, parameters }: ParseScope, json: unknown, at: string, range: NumberRange): Quantity {
  if (typeof json !== 'object' || json === null) return reader.number(json, at, range);
  const { parameter, times } = reader.object(json, at, { required: ['parameter'], optional: ['times'] });
  const name = reader.text(parameter, `${at}.parameter`, 40);
  const factor = times === undefined ? 1 : reader.number(times, `${at}.times`, finiteRange);
  if (!Object.hasOwn(parameters, name)) reader.fault(`${at}.parameter`, `${name} is none of the parameters`);
  else reader.number(parameters[name]! * factor, at, range);
  return { parameter: name, ...(times !== undefined && { times: factor }) };
}

/** Values of a strategy's parameters: one point of a grid. */
export type ParameterPoint = Readonly<Record<string, number>>;

/** Points of one run. */
export const pointsMax = 1000;

/** The strategy with other values of its parameters; faults where it has no such parameter, or a value does not fit. */
export function bindParameters(
  strategy: Strategy,
  values: ParameterPoint,
): { strategy: Strategy } | { faults: readonly Fault[] } {
  const stray = Object.keys(values).filter((name) => !Object.hasOwn(strategy.parameters, name));
  if (stray.length > 0)
    return { faults: stray.map((name) => createUnknownParameterFault(strategy, `parameters.${name}`)) };
  const bound = { ...strategy, parameters: { ...strategy.parameters, ...values } };
  const read = parseStrategy(bound);
  if ('strategy' in read) return read;
  // A value that does not do for one place mostly does not for others.
  const faults = new Map(read.faults.toReversed().map((fault) => [toParameterFault(bound, fault).name, fault]));
  return { faults: [...faults.values()].toReversed().map((fault) => toParameterFault(bound, fault)) };
}

/** A fault where the strategy stands, as one of the parameter whose value it comes from: that is what was asked for. */
function toParameterFault(strategy: Strategy, { name, reason }: Fault): Fault {
  let part: unknown = strategy;
  for (const key of name.split(/[.[\]]+/).filter((each) => each !== ''))
    part = (part as Record<string, unknown> | undefined)?.[key];
  const parameter = (part as { readonly parameter?: string } | undefined)?.parameter;
  if (parameter === undefined) return { name, reason };
  const value = strategy.parameters[parameter];
  return { name: `parameters.${parameter}`, reason: `is ${value}, which does not do for ${name}: it ${reason}` };
}

const createUnknownParameterFault = ({ parameters }: Strategy, name: string): Fault => {
  const names = Object.keys(parameters).join(', ');
  return { name, reason: names === '' ? 'the strategy has no parameters' : `the strategy has only ${names}` };
};

/** The value of a number of a strategy. */
export const resolveQuantity = (quantity: Quantity, { parameters }: Strategy): number =>
  typeof quantity === 'number' ? quantity : parameters[quantity.parameter]! * (quantity.times ?? 1);

/** Every combination of the values, the last name's changing first; one point where there are no names. */
export function expandGrid(grid: Readonly<Record<string, readonly number[]>>): ParameterPoint[] {
  let points: ParameterPoint[] = [{}];
  for (const [name, values] of Object.entries(grid))
    points = points.flatMap((point) => values.map((value) => ({ ...point, [name]: value })));
  return points;
}

/** How many points a grid has, without making them. */
export const countPoints = (grid: Readonly<Record<string, readonly unknown[]>>): number =>
  Object.values(grid).reduce((product, values) => product * values.length, 1);

/** What a strategy looks at, so that no more need be loaded. */
export interface DataDependencies {
  /** How far back before the tick of a decision, milliseconds. */
  readonly lookbackMs: number;
  /** At what was known of the market. */
  readonly needsStates: boolean;
  /** At its other venues. */
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
    lookbackMs: windows.reduce((most, window) => Math.max(most, window), 0),
    needsStates: names.has('category') || names.has('confidence') || names.has('time_to_close_ms'),
    needsVenues: names.has('venue_spread'),
  };
}

/** What several strategies look at. */
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
