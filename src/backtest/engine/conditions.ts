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
} from '../../contract/strategy-language.ts';
import { resolveQuantity } from '../strategy/strategy.ts';
import type { Measures, Position, ReadMeasure } from './measures.ts';

/** Whether a condition holds at a tick. Must be called with ascending ticks; ticks can be skipped. */
type TestTick = (i: number) => boolean;

/** Compiles a condition over the measures of one symbol. Tests of unknown values fail. */
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

/** The first tick in [from, end) at which a condition holds; `end` if there is none. */
export type FindFirstTick = (from: number, end: number) => number;

/** Like compileCondition, for many ticks per call, which is faster for conditions that rarely hold. */
export function compileFindFirst(condition: Condition, ...of: [Strategy, Measures, Position]): FindFirstTick {
  const [strategy, measures] = of;
  const singleBound = findSingleBound(condition);
  const column = singleBound === null ? null : measures.getColumn(singleBound.of);
  if (singleBound !== null && column !== null)
    return searchByBound[singleBound.name](column, resolveQuantity(singleBound.than, strategy));
  const test = compileCondition(condition, ...of);
  return (from, end) => {
    let i = from;
    while (i < end && !test(i)) i++;
    return i;
  };
}

/** The bound of a test with a single constant bound; null for other conditions. */
function findSingleBound(
  condition: Condition,
): { readonly of: Measure; readonly name: Bound; readonly than: Quantity } | null {
  if (!('measure' in condition) || condition.measure === 'category') return null;
  const [name, ...others] = boundNames.filter((one) => condition[one] !== undefined);
  const value = name === undefined ? undefined : condition[name];
  if (name === undefined || others.length > 0 || value === undefined) return null;
  return typeof value === 'object' && 'measure' in value ? null : { of: condition, name, than: value };
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

function combineAll(tests: readonly TestTick[]): TestTick {
  const [a, b] = tests;
  if (a === undefined) return () => true;
  if (b === undefined) return a;
  if (tests.length === 2) return (i) => a(i) && b(i);
  return (i) => {
    for (const part of tests) if (!part(i)) return false;
    return true;
  };
}

function combineAny(tests: readonly TestTick[]): TestTick {
  return (i) => {
    for (const part of tests) if (part(i)) return true;
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

/** One test per given bound. Comparisons with NaN are false. */
function compileNumberTests(test: NumberTest, strategy: Strategy, measures: Measures, position: Position): TestTick[] {
  const read = measures.createReader(test, position);
  const createTests = (
    operand: Operand | undefined,
    compare: (x: number, y: number) => boolean,
    createConstantTest: (y: number) => TestTick,
  ) => {
    if (operand === undefined) return [];
    if (typeof operand !== 'number' && 'measure' in operand) {
      const other: ReadMeasure = measures.createReader(operand, position);
      return [(i: number) => compare(read(i), other(i))];
    }
    return [createConstantTest(resolveQuantity(operand, strategy))];
  };
  return [
    ...createTests(
      test.above,
      (x, y) => x > y,
      (y) => (i) => read(i) > y,
    ),
    ...createTests(
      test.at_least,
      (x, y) => x >= y,
      (y) => (i) => read(i) >= y,
    ),
    ...createTests(
      test.below,
      (x, y) => x < y,
      (y) => (i) => read(i) < y,
    ),
    ...createTests(
      test.at_most,
      (x, y) => x <= y,
      (y) => (i) => read(i) <= y,
    ),
  ];
}
