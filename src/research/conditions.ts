import { amountOf } from './bind-parameters.ts';
import type { Measures, Position, Read } from './measures.ts';
import {
  type Bound,
  bounds,
  type CategoryTest,
  type Condition,
  type Measure,
  type NumberTest,
  type Operand,
  type Quantity,
  type Strategy,
} from './strategy.ts';

/** Whether a condition holds at a tick. Asked for ticks in their order, not for each of them. */
export type Holds = (i: number) => boolean;

/** A condition over the measures of one symbol, as a function. What is not known makes a test fail, whatever its bound. */
export function holds(condition: Condition, strategy: Strategy, measures: Measures, position: Position): Holds {
  const compile = (one: Condition): Holds => {
    if ('all' in one) return all(one.all.map(compile));
    if ('any' in one) return any(one.any.map(compile));
    if (one.measure === 'category') return ofCategory(one, measures);
    return all(testsOf(one, strategy, measures, position));
  };
  return compile(condition);
}

/** The first of some ticks, from one on to before another, at which a condition holds; the latter where there is none. */
export type FirstOf = (from: number, end: number) => number;

/** As `holds`, for many ticks at once: most conditions hold rarely, and to ask for each tick costs more than to answer. */
export function firstOf(condition: Condition, ...of: [Strategy, Measures, Position]): FirstOf {
  const [strategy, measures] = of;
  const bound = boundOf(condition);
  const column = bound === null ? null : measures.column(bound.of);
  if (bound !== null && column !== null) return searches[bound.name](column, amountOf(bound.than, strategy));
  const is = holds(condition, ...of);
  return (from, end) => {
    let i = from;
    while (i < end && !is(i)) i++;
    return i;
  };
}

/** The one bound of a test against a number; null for other conditions. */
function boundOf(condition: Condition): { readonly of: Measure; readonly name: Bound; readonly than: Quantity } | null {
  if (!('measure' in condition) || condition.measure === 'category') return null;
  const [name, ...others] = bounds.filter((one) => condition[one] !== undefined);
  const than = name === undefined ? undefined : condition[name];
  if (name === undefined || others.length > 0 || than === undefined) return null;
  return typeof than === 'object' && 'measure' in than ? null : { of: condition, name, than };
}

const searches: Readonly<Record<Bound, (p: Float64Array, y: number) => FirstOf>> = {
  above: (p, y) => (from, end) => {
    let i = from;
    while (i < end && !(p[i]! > y)) i++;
    return i;
  },
  at_least: (p, y) => (from, end) => {
    let i = from;
    while (i < end && !(p[i]! >= y)) i++;
    return i;
  },
  below: (p, y) => (from, end) => {
    let i = from;
    while (i < end && !(p[i]! < y)) i++;
    return i;
  },
  at_most: (p, y) => (from, end) => {
    let i = from;
    while (i < end && !(p[i]! <= y)) i++;
    return i;
  },
};

function all(parts: readonly Holds[]): Holds {
  const [a, b] = parts;
  if (a === undefined) return () => true;
  if (b === undefined) return a;
  if (parts.length === 2) return (i) => a(i) && b(i);
  return (i) => {
    for (const part of parts) if (!part(i)) return false;
    return true;
  };
}

function any(parts: readonly Holds[]): Holds {
  return (i) => {
    for (const part of parts) if (part(i)) return true;
    return false;
  };
}

function ofCategory(test: CategoryTest, measures: Measures): Holds {
  const named = new Set(test.in ?? test.not_in);
  const wanted = test.in !== undefined;
  return (i) => {
    const category = measures.state(i)?.category ?? null;
    return category !== null && named.has(category) === wanted;
  };
}

/** One test a bound that is named. Nothing compares with NaN. */
function testsOf(test: NumberTest, strategy: Strategy, measures: Measures, position: Position): Holds[] {
  const read = measures.read(test, position);
  const bounded = (
    operand: Operand | undefined,
    compare: (x: number, y: number) => boolean,
    fixed: (y: number) => Holds,
  ) => {
    if (operand === undefined) return [];
    if (typeof operand !== 'number' && 'measure' in operand) {
      const other: Read = measures.read(operand, position);
      return [(i: number) => compare(read(i), other(i))];
    }
    return [fixed(amountOf(operand, strategy))];
  };
  return [
    ...bounded(
      test.above,
      (x, y) => x > y,
      (y) => (i) => read(i) > y,
    ),
    ...bounded(
      test.at_least,
      (x, y) => x >= y,
      (y) => (i) => read(i) >= y,
    ),
    ...bounded(
      test.below,
      (x, y) => x < y,
      (y) => (i) => read(i) < y,
    ),
    ...bounded(
      test.at_most,
      (x, y) => x <= y,
      (y) => (i) => read(i) <= y,
    ),
  ];
}
