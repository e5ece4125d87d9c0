import { resolveQuantity } from '../strategy/parse-strategy.ts';
import {
  type Bound,
  boundNames,
  type CategoryTest,
  type Condition,
  type Measure,
  type NumberTest,
  type Operand,
  type Quantity,
  type Strategy,
} from '../strategy/strategy.ts';
import type { Measures, Position, ReadMeasure } from './measures.ts';

/** Whether a condition holds at a tick. Asked for ticks in their order, not for each of them. */
export type TestTick = (i: number) => boolean;

/** A condition over the measures of one symbol, as a function. What is not known makes a test fail, whatever its bound. */
export function compileCondition(
  condition: Condition,
  strategy: Strategy,
  measures: Measures,
  position: Position,
): TestTick {
  const compile = (one: Condition): TestTick => {
    if ('all' in one) return combineAll(one.all.map(compile));
    if ('any' in one) return combineAny(one.any.map(compile));
    if (one.measure === 'category') return compileCategoryTest(one, measures);
    return combineAll(compileNumberTests(one, strategy, measures, position));
  };
  return compile(condition);
}

/** The first of some ticks, from one on to before another, at which a condition holds; the latter where there is none. */
export type FindFirstTick = (from: number, end: number) => number;

/** As `holds`, for many ticks at once: most conditions hold rarely, and to ask for each tick costs more than to answer. */
export function compileSearch(condition: Condition, ...of: [Strategy, Measures, Position]): FindFirstTick {
  const [strategy, measures] = of;
  const bound = findSingleBound(condition);
  const column = bound === null ? null : measures.getColumn(bound.of);
  if (bound !== null && column !== null)
    return searchByBound[bound.name](column, resolveQuantity(bound.than, strategy));
  const is = compileCondition(condition, ...of);
  return (from, end) => {
    let i = from;
    while (i < end && !is(i)) i++;
    return i;
  };
}

/** The one bound of a test against a number; null for other conditions. */
function findSingleBound(
  condition: Condition,
): { readonly of: Measure; readonly name: Bound; readonly than: Quantity } | null {
  if (!('measure' in condition) || condition.measure === 'category') return null;
  const [name, ...others] = boundNames.filter((one) => condition[one] !== undefined);
  const than = name === undefined ? undefined : condition[name];
  if (name === undefined || others.length > 0 || than === undefined) return null;
  return typeof than === 'object' && 'measure' in than ? null : { of: condition, name, than };
}

const searchByBound: Readonly<Record<Bound, (p: Float64Array, y: number) => FindFirstTick>> = {
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

function combineAll(parts: readonly TestTick[]): TestTick {
  const [a, b] = parts;
  if (a === undefined) return () => true;
  if (b === undefined) return a;
  if (parts.length === 2) return (i) => a(i) && b(i);
  return (i) => {
    for (const part of parts) if (!part(i)) return false;
    return true;
  };
}

function combineAny(parts: readonly TestTick[]): TestTick {
  return (i) => {
    for (const part of parts) if (part(i)) return true;
    return false;
  };
}

function compileCategoryTest(test: CategoryTest, measures: Measures): TestTick {
  const named = new Set(test.in ?? test.not_in);
  const wanted = test.in !== undefined;
  return (i) => {
    const category = measures.getState(i)?.category ?? null;
    return category !== null && named.has(category) === wanted;
  };
}

/** One test a bound that is named. Nothing compares with NaN. */
function compileNumberTests(test: NumberTest, strategy: Strategy, measures: Measures, position: Position): TestTick[] {
  const read = measures.createReader(test, position);
  const bounded = (
    operand: Operand | undefined,
    compare: (x: number, y: number) => boolean,
    fixed: (y: number) => TestTick,
  ) => {
    if (operand === undefined) return [];
    if (typeof operand !== 'number' && 'measure' in operand) {
      const other: ReadMeasure = measures.createReader(operand, position);
      return [(i: number) => compare(read(i), other(i))];
    }
    return [fixed(resolveQuantity(operand, strategy))];
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
