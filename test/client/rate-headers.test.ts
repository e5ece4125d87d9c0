import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseRateHeaders } from '../../src/client/rate-headers.ts';
import { checkProperty } from '../harness/properties.ts';

const nowMs = Date.UTC(2026, 10, 19, 12);
const stated = (headers: Record<string, string | string[]>) => parseRateHeaders({ status: 200, headers }, nowMs);

describe('rate-limit headers', () => {
  test.each<[string, Record<string, string | string[]>, object]>([
    ['the draft', { ratelimit: '"default";r=50;t=30' }, { remaining: 50, resetMs: 30_000 }],
    ['its policy', { 'ratelimit-policy': '"default";q=100;w=60' }, { ratePerSecond: 100 / 60 }],
    [
      'several policies: the lowest rate, and the scarcest quota',
      { 'ratelimit-policy': '"burst";q=10;w=1, "day";q=5;w=60', ratelimit: '"burst";r=9;t=1, "day";r=0;t=20' },
      { ratePerSecond: 5 / 60, remaining: 0, resetMs: 20_000 },
    ],
    ['repeated headers', { 'ratelimit-policy': ['"a";q=100;w=10', '"b";q=30;w=10'] }, { ratePerSecond: 3 }],
    [
      'separators inside of names',
      { 'ratelimit-policy': '"a;q=1,w=1";q=100;w=50', ratelimit: '"a;q=1,w=1";t=7;r=3;pk=:dA==:' },
      { ratePerSecond: 2, remaining: 3, resetMs: 7000 },
    ],
    ['version 7', { ratelimit: 'limit=100, remaining=4, reset=5' }, { remaining: 4, resetMs: 5000 }],
    [
      'versions 3 to 6',
      {
        'ratelimit-limit': '100, 100;w=50',
        'ratelimit-remaining': '7',
        'ratelimit-reset': '12',
        'ratelimit-policy': '100;w=50, 9000;w=3600',
      },
      { ratePerSecond: 2, remaining: 7, resetMs: 12_000 },
    ],
    [
      'X- with seconds',
      { 'x-ratelimit-limit': '60', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '17' },
      { remaining: 0, resetMs: 17_000 },
    ],
    [
      'X- with a time in epoch seconds',
      { 'x-rate-limit-remaining': '1', 'x-rate-limit-reset': String(nowMs / 1000 + 40) },
      { remaining: 1, resetMs: 40_000 },
    ],
    [
      'X- with a time in milliseconds, by the clock of the service',
      {
        date: 'Thu, 19 Nov 2026 11:00:00 GMT',
        'x-ratelimit-remaining': '1',
        'x-ratelimit-reset': String(nowMs - 3_600_000 + 8_500),
      },
      { remaining: 1, resetMs: 8_500 },
    ],
    [
      'a time in the past',
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1600000000' },
      { remaining: 0, resetMs: 0 },
    ],
  ])('are parsed: %s', (_, headers, expected) => {
    expect(stated(headers)).toEqual(expected);
  });

  test.each<[string, Record<string, string>]>([
    ['nothing', {}],
    ['a limit without a window', { 'x-ratelimit-limit': '60' }],
    ['a remainder without a reset', { 'ratelimit-remaining': '0', ratelimit: '"a";r=0' }],
    ['a policy of less than one request', { 'ratelimit-policy': '"a";q=0.000001;w=60, 0;w=1' }],
    ['a reset in the year 33658', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '999999999999999' }],
    ['a reset in more than a month', { 'ratelimit-remaining': '0', 'ratelimit-reset': '3000000' }],
    ['rubbish', { ratelimit: ';;==,"', 'ratelimit-policy': '"a";q=-1;w=x', 'x-ratelimit-reset': 'soon' }],
    ['a quota or a window of zero', { 'ratelimit-policy': '"a";q=0;w=60, "b";q=5;w=0, "c";q=5' }],
    ['another unit', { 'ratelimit-policy': '"a";q=65535;w=10;qu="content-bytes"' }],
    ['a daily budget, which is not spread', { 'ratelimit-policy': '"day";q=1000;w=86400' }],
    [
      'an exhausted second, which the limiter handles anyway',
      { 'ratelimit-policy': '"s";q=20;w=1;x', ratelimit: '"s";r=0;t=1' },
    ],
  ])('cause no pause: %s', (_, headers) => {
    expect(stated(headers)).not.toHaveProperty('resetMs');
    if (!('ratelimit-policy' in headers && headers.ratelimit?.startsWith('"s"'))) expect(stated(headers)).toEqual({});
  });

  test('never cause an exception, and give only usable numbers', () => {
    const word = fc.constantFrom('"', ';', ',', '=', 'r', 't', 'q', 'w', '0', '7', '1e9', ' ', '\\', '"a"', '-', '.5');
    const text = fc.oneof(
      fc.string(),
      fc.array(word).map((words) => words.join('')),
    );
    const names = [
      'ratelimit',
      'ratelimit-policy',
      'x-ratelimit-reset',
      'x-ratelimit-remaining',
      'ratelimit-limit',
      'date',
    ];
    checkProperty([fc.dictionary(fc.constantFrom(...names), text)], 100, (headers) => {
      for (const value of Object.values(stated(headers))) expect(Number.isFinite(value) && value >= 0).toBe(true);
      expect(stated(headers).ratePerSecond ?? 1).toBeGreaterThan(0);
    });
  });
});
