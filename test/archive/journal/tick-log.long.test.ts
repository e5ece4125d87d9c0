import { expect, test } from 'vitest';
import { logSymbols, readTickLogState } from '../../../src/archive/journal/tick-log.ts';
import { answer, append, day0, now, opened } from '../scratch.ts';

test('the log has a maximum size, and large responses have several rows', () => {
  const archive = opened();
  const { db } = archive.state;
  logSymbols(db, ['A'], now + 1, 'a0', () => null);
  const count = 1_000_000;
  for (let round = 0; round < 18; round++) {
    const t = Float64Array.from({ length: count }, (_, i) => day0 + round * count + i);
    append(archive, answer('A', [], { ticks: { t, p: new Float64Array(count) }, windows: [] }));
  }
  const { floor, end } = readTickLogState(db)!;
  expect(end).toBe((18 * count) / 1000);
  const [rows] = db.all<{ n: number; bytes: number }>(
    'select count(*) as n, sum(length(t) + length(p)) as bytes from tick_log',
  );
  expect(rows!.n).toBe(end - floor);
  expect(rows!.bytes).toBeLessThanOrEqual(256 * 2 ** 20);
  expect(rows!.bytes).toBeGreaterThan(200 * 2 ** 20);
  db.run('delete from journal');
});
