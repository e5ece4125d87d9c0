import { Value } from 'typebox/value';
import { expect, test } from 'vitest';
import { paths } from '../../src/contract/paths.ts';
import { TicksQuery, TicksResponse } from '../../src/contract/schemas.ts';

const ticks = { symbol: 'X', ticks: [{ t: 1, p: 0.5 }], count: 1, from: 0, to: 2, generated_at: 3 };

test('documented responses are valid, with and without extensions', () => {
  expect(Value.Check(TicksResponse, ticks)).toBe(true);
  expect(Value.Check(TicksResponse, { ...ticks, gaps: [{ from: 0, to: 1 }], more: 'x' })).toBe(true);
});

test('responses with other types are invalid', () => {
  expect(Value.Check(TicksResponse, { ...ticks, ticks: [{ t: '1', p: 0.5 }] })).toBe(false);
  expect(Value.Check(TicksResponse, { ...ticks, from: 0.5 })).toBe(false);
});

test('a tick query requires only a symbol', () => {
  expect(Value.Check(TicksQuery, { symbol: 'X' })).toBe(true);
  expect(Value.Check(TicksQuery, { from: 1, to: 2 })).toBe(false);
});

test('API paths have a version; pages and operations paths have none', () => {
  const bare = Object.values(paths).filter((path) => !path.startsWith('/api/v1/'));
  expect(bare.sort()).toEqual(['/', '/docs', '/docs/problems', '/healthz', '/metrics', '/readyz']);
});
