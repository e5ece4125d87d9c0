import { expect, test } from 'vitest';
import { formatDecided, toDecidedJson } from '../../src/cli/format-lists.ts';

const from = Date.UTC(2026, 10, 19);
const windows = (count: number) =>
  Array.from({ length: count }, (_, i) => {
    const at = from + i * 3_600_000;
    return { symbol: 'A', from: at, to: at + 60_000, reason: 'down', acceptedAt: 5, reportedAt: null };
  });

test('accepted gaps are printed one a line, at most 20 of them, with their number', () => {
  expect(formatDecided(windows(1), 'revoked')).toBe('revoked: A 2026-11-19T00:00:00Z … 2026-11-19T00:01:00Z: down\n');
  const lines = formatDecided(windows(1024), 'accepted').split('\n');
  expect([lines.length, ...lines.slice(19)]).toEqual([
    22,
    'accepted: A 2026-11-19T19:00:00Z … 2026-11-19T19:01:00Z: down',
    '… and 1,004 more (1,024 windows)',
    '',
  ]);
  expect(formatDecided(windows(20), 'accepted')).not.toContain('more');
  const json = toDecidedJson(windows(21), 'accepted') as { accepted: object[] };
  expect(json).toMatchObject({ accepted_count: 21, accepted: { length: 20 } });
  expect(json.accepted[0]).toEqual({ symbol: 'A', from, to: from + 60_000, reason: 'down', accepted_at: 5 });
});
