import {
  bounds,
  type CategoryTest,
  type Condition,
  contractsMax,
  type Fees,
  type Measure,
  measureNames,
  type NumberTest,
  type Operand,
  ofPosition,
  type Quantity,
  type Rule,
  type Size,
  type Strategy,
  strategyLimits,
  windowed,
  windowMsMax,
} from './strategy.ts';
import { type Fault, Reader } from './validator.ts';

const free: Fees = { per_contract: 0, of_notional: 0, of_variance: 0 };

/** Least and greatest of a number, both included. */
interface Range {
  readonly least: number;
  readonly most: number;
}

const anyNumber: Range = { least: -Number.MAX_VALUE, most: Number.MAX_VALUE };
const share: Range = { least: 0, most: 1 };
const sizes: Range = { least: 1e-6, most: contractsMax };
const counts: Range = { least: 1, most: 1e6 };
const windows: Range = { least: 1, most: windowMsMax };

/** Reads a strategy from JSON: all that is wrong with it, each with the field that it is wrong in, or the strategy. */
export function readStrategy(json: unknown, at = ''): { strategy: Strategy } | { faults: readonly Fault[] } {
  const reader = new Reader();
  const strategy = strategyIn(reader, json, at);
  return reader.faults.length > 0 ? { faults: reader.faults } : { strategy };
}

function strategyIn(reader: Reader, json: unknown, at: string): Strategy {
  const {
    parameters = {},
    rules,
    fees = {},
    slippage = 0,
  } = reader.object(json, at, {
    required: ['rules'],
    optional: ['parameters', 'fees', 'slippage'],
  });
  const known = parametersIn(reader, parameters, reader.path(at, 'parameters'));
  const scope: Scope = { reader, parameters: known, conditions: 0 };
  const rulesAt = reader.path(at, 'rules');
  const list = reader.list(rules, rulesAt, { least: 1, most: strategyLimits.rules });
  const read = list.map((rule, i) => ruleIn(scope, rule, `${rulesAt}[${i}]`));
  const out = {
    parameters: known,
    rules: read,
    fees: feesIn(scope, fees, reader.path(at, 'fees')),
    slippage: quantityIn(scope, slippage, reader.path(at, 'slippage'), share),
  };
  if (scope.conditions > strategyLimits.conditions)
    reader.fault(rulesAt, `has ${scope.conditions} conditions, more than ${strategyLimits.conditions}`);
  return out;
}

/** What is known while a strategy is read. */
interface Scope {
  readonly reader: Reader;
  readonly parameters: Readonly<Record<string, number>>;
  conditions: number;
}

/** Names of parameters: as they can be written as a flag of a command and a key of an object. */
const parameterName = /^[a-z][a-z0-9_]{0,39}$/;

function parametersIn(reader: Reader, json: unknown, at: string): Record<string, number> {
  const entries = Object.entries(reader.object(json, at));
  if (entries.length > strategyLimits.parameters)
    reader.fault(at, `has ${entries.length} names, more than ${strategyLimits.parameters}`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      const place = reader.path(at, name);
      if (!parameterName.test(name)) reader.fault(place, 'must be named in a-z, 0-9 and _, at most 40 of them');
      return [name, reader.number(value, place, anyNumber)];
    }),
  );
}

function ruleIn(scope: Scope, json: unknown, at: string): Rule {
  const { reader } = scope;
  const fields = { required: ['side', 'entry', 'size'], optional: ['exit', 'entries_max'] };
  const { side, entry, exit = null, size, entries_max = null } = reader.object(json, at, fields);
  return {
    side: reader.oneOf(side, `${at}.side`, ['yes', 'no']),
    entry: conditionIn(scope, entry, `${at}.entry`, { depth: 1, held: false }),
    exit: exit === null ? null : conditionIn(scope, exit, `${at}.exit`, { depth: 1, held: true }),
    size: sizeIn(scope, size, `${at}.size`),
    entries_max: entries_max === null ? null : quantityIn(scope, entries_max, `${at}.entries_max`, counts),
  };
}

function sizeIn(scope: Scope, json: unknown, at: string): Size {
  const read = scope.reader.object(json, at, { required: [], optional: ['contracts', 'dollars'] });
  const [name, ...others] = Object.keys(read);
  if (name === undefined || others.length > 0) {
    scope.reader.fault(at, 'must have one of contracts and dollars');
    return { contracts: 1 };
  }
  const value = quantityIn(scope, read[name], `${at}.${name}`, sizes);
  return name === 'dollars' ? { dollars: value } : { contracts: value };
}

function feesIn(scope: Scope, json: unknown, at: string): Fees {
  const read = scope.reader.object(json, at, { required: [], optional: Object.keys(free) });
  const fee = (name: keyof Fees): Quantity =>
    Object.hasOwn(read, name) ? quantityIn(scope, read[name], `${at}.${name}`, share) : free[name];
  return { per_contract: fee('per_contract'), of_notional: fee('of_notional'), of_variance: fee('of_variance') };
}

/** Where a condition stands. */
interface Standing {
  readonly depth: number;
  /** Whether there is a position. */
  readonly held: boolean;
}

function conditionIn(scope: Scope, json: unknown, at: string, standing: Standing): Condition {
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
    const conditions = list.map((one, i) => conditionIn(scope, one, `${at}.${word}[${i}]`, inner));
    return word === 'all' ? { all: conditions } : { any: conditions };
  }
  if (!Object.hasOwn(object, 'measure')) {
    reader.fault(at, 'must have one of all, any and measure');
    return { all: [] };
  }
  return object.measure === 'category' ? categoryIn(reader, json, at) : testIn(scope, json, at, standing);
}

function testIn(scope: Scope, json: unknown, at: string, standing: Standing): NumberTest {
  const { reader } = scope;
  const fields = { required: ['measure'], optional: ['window_ms', ...bounds] };
  const object = reader.object(json, at, fields);
  const named = bounds.filter((bound) => Object.hasOwn(object, bound));
  if (named.length === 0) reader.fault(at, `must have one of ${bounds.join(', ')}`);
  const operands = named.map((bound) => [bound, operandIn(scope, object[bound], `${at}.${bound}`, standing)] as const);
  return { ...measureOf(scope, object, at, standing), ...Object.fromEntries(operands) };
}

function operandIn(scope: Scope, json: unknown, at: string, standing: Standing): Operand {
  if (typeof json !== 'object' || json === null || !Object.hasOwn(json, 'measure'))
    return quantityIn(scope, json, at, anyNumber);
  const object = scope.reader.object(json, at, { required: ['measure'], optional: ['window_ms'] });
  return measureOf(scope, object, at, standing);
}

function measureOf(scope: Scope, object: Record<string, unknown>, at: string, { held }: Standing): Measure {
  const { reader } = scope;
  const measure = reader.oneOf(object.measure, `${at}.measure`, measureNames);
  if (ofPosition.has(measure) && !held) reader.fault(`${at}.measure`, `${measure} is known in an exit only`);
  const given = Object.hasOwn(object, 'window_ms');
  if (!windowed.has(measure)) {
    if (given) reader.fault(`${at}.window_ms`, `is none of ${measure}`);
    return { measure };
  }
  if (!given) {
    reader.fault(`${at}.window_ms`, `is missing: ${measure} looks back so far`);
    return { measure };
  }
  return { measure, window_ms: quantityIn(scope, object.window_ms, `${at}.window_ms`, windows) };
}

function categoryIn(reader: Reader, json: unknown, at: string): CategoryTest {
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
function quantityIn({ reader, parameters }: Scope, json: unknown, at: string, range: Range): Quantity {
  if (typeof json !== 'object' || json === null) return reader.number(json, at, range);
  const { parameter, times } = reader.object(json, at, { required: ['parameter'], optional: ['times'] });
  const name = reader.text(parameter, `${at}.parameter`, 40);
  const factor = times === undefined ? 1 : reader.number(times, `${at}.times`, anyNumber);
  if (!Object.hasOwn(parameters, name)) reader.fault(`${at}.parameter`, `${name} is none of the parameters`);
  else reader.number(parameters[name]! * factor, at, range);
  return { parameter: name, ...(times !== undefined && { times: factor }) };
}
