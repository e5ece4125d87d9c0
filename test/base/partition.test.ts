import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { computePartNumber } from '../../src/base/symbol-name.ts';
import { checkProperty } from '../harness/properties.ts';

describe('the part number of a symbol', () => {
  test('is the first eight hex digits of sha256, modulo the parts', () => {
    // printf %s BTC | sha256sum begins with da8562e7.
    expect(createHash('sha256').update('BTC').digest('hex').slice(0, 8)).toBe('da8562e7');
    expect(computePartNumber('BTC', 4)).toBe(0xda8562e7 % 4);
    checkProperty([fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 256 })], 100, (symbol, parts) => {
      const hex = createHash('sha256').update(Buffer.from(symbol)).digest('hex');
      expect(computePartNumber(symbol, parts)).toBe(Number.parseInt(hex.slice(0, 8), 16) % parts);
    });
  });

  test('spreads symbols evenly', () => {
    const counts = [0, 0, 0, 0];
    for (let i = 0; i < 4000; i++) counts[computePartNumber(`KX-${i}`, 4)]!++;
    for (const count of counts) expect(count).toBeGreaterThan(850);
  });
});
