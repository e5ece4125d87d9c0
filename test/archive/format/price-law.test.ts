import { describe, expect, test } from 'vitest';
import {
  describeLaw,
  findPriceLaw,
  findPriceLawOf,
  type PricePair,
  toPriceFormula,
} from '../../../src/archive/format/price-law.ts';
import { parsePriceFormula } from '../../../src/base/price-formula.ts';

const held = [0.01, 0.33, 0.5, 0.57, 0.9];
const pairs = (convert: (p: number, i: number) => number, prices = held): PricePair[] =>
  prices.map((p, i) => [p, convert(p, i)]);

describe('five conflicts or more', () => {
  test.each<[string, (p: number) => number, string]>([
    ['cents', (p) => p * 100, 'p/100'],
    ['ten thousand', (p) => p * 1e4, 'p/10000'],
    ['hundreds', (p) => p / 100, 'p*100'],
    ['a third more', (p) => p * 1.3, 'p/1.3'],
    ['the complement', (p) => 1 - p, '1-p'],
    ['the complement in cents', (p) => 100 - p, '100-p'],
  ])('show %s, and the formula gives the held prices again', (_, convert, formula) => {
    const law = findPriceLaw(pairs(convert))!;
    expect(toPriceFormula(law)).toBe(formula);
    for (const [before, offered] of pairs(convert)) expect(parsePriceFormula(formula)(offered)).toBeCloseTo(before, 11);
    expect(findPriceLaw(pairs(convert).slice(0, 4))).toBeNull();
    expect(describeLaw(law)).not.toBe('');
  });

  test.each<[string, PricePair[]]>([
    ['random prices', pairs((_, i) => [0.4, 0.2, 0.9, 0.11, 0.3][i]!)],
    ['the last digit of a double', pairs((p) => p * (1 + Number.EPSILON))],
    ['one price that stood still', pairs(() => 0.98, Array(20).fill(0.97))],
    ['two prices that changed places', pairs((p) => (p === 0.49 ? 0.51 : 0.49), [0.49, 0.51, 0.49, 0.51, 0.49, 0.51])],
    ['a law of four in five', [...pairs((p) => p * 100), [0.2, 0.3] as const, [0.7, 0.3] as const]],
  ])('show no law if they are %s', (_, conflicts) => {
    expect(findPriceLaw(conflicts)).toBeNull();
  });

  test('show a law beside a few revisions', () => {
    const many = pairs(
      (p) => p * 100,
      Array.from({ length: 30 }, (_, i) => 0.01 + i / 40),
    );
    expect(findPriceLaw([...many, [0.3, 0.4], [0.7, 0.2]])).toEqual({ kind: 'ratio', value: 100 });
  });

  test('of thin symbols show it together, and of one symbol although all others are revised', () => {
    const thin = pairs((p) => 1 - p).map((pair) => [pair]);
    expect(findPriceLawOf(thin)).toEqual({ kind: 'sum', value: 1 });
    expect(findPriceLawOf([pairs((p) => p * 100), pairs((p, i) => (p + i * 0.37) % 0.93)])).toMatchObject({
      value: 100,
    });
  });
});
