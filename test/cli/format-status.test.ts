import { expect, test } from 'vitest';
import { formatStatus } from '../../src/cli/format-archive.ts';
import { createReportData } from '../report/made-gathered.ts';

test('escapes control characters in symbols', () => {
  const { status } = createReportData();
  const text = formatStatus({ ...status, cursors: [{ symbol: 'a\nb\u001b[2J', cursor: 0 }] });
  expect(text).toMatch(/ 1970-01-01T00:00:00Z {2}a\\nb\\u001b\[2J\n$/);
});
