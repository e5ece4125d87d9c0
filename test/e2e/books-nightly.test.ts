import { describe, expect, test } from 'vitest';
import { olderSnapshotAgeMs } from '../../src/sandbox/page-formats.ts';
import { allLive, bookCoverage, bookRequests, booksOf, input, truth, understood } from './books.ts';
import { addsUp, dayMs, expectDone, fixedDay, fixedNow, folder, hashes, sandbox, totalTicks } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

describe('nightly', () => {
  test('keeps the order book of every live symbol, in whatever shapes the service tells them', async () => {
    const output = folder();
    const box = await sandbox({ ...input, bookShapes: understood });
    const ended = await expectDone(job('nightly', box.url, output, ...allLive));
    expect(addsUp(ended.summary)).toBe(true);
    expect(ended.summary.orderbooks).toMatchObject({
      failed: 0,
      quarantined: 0,
      done: ended.summary.orderbooks.planned,
    });
    // The sandbox stands still in the past.
    expect(ended.summary.warnings).toEqual([expect.stringMatching(/^The service is behind/)]);
    const published = booksOf(output);
    expect(published.size).toBe(ended.summary.orderbooks.planned);
    expect(published.size).toBeGreaterThan(20);
    let empty = 0;
    for (const [symbol, reported] of published) {
      const book = await truth(box, symbol);
      empty += book.flat().length === 0 ? 1 : 0;
      // A list brings an older snapshot, too; a book without a time has the moment of asking, which is ours.
      const older = JSON.stringify([fixedNow - olderSnapshotAgeMs, [], []]);
      const now = reported.filter((text) => text !== older);
      expect(now.length).toBeLessThanOrEqual(1);
      const at = (JSON.parse(now[0] ?? '[0]') as number[])[0]!;
      expect(at === fixedNow || Math.abs(at - Date.now()) < dayMs).toBe(true);
      expect(now, symbol).toEqual([JSON.stringify([at, ...book])]);
    }
    expect(ended.summary.orderbooks.empty).toBeGreaterThanOrEqual(empty);
    expect(bookCoverage(output).length).toBe(published.size);
    await expectDone(run(['verify', '--output', output]));
  });

  test('polls none unless requested to, and none for a past day, which stays repeatable', async () => {
    const output = folder();
    const box = await sandbox(input);
    await expectDone(job('nightly', box.url, output));
    await expectDone(job('nightly', box.url, output, '--date', fixedDay, ...allLive));
    expect(bookRequests(box)).toBe(0);
    const some = await job('nightly', box.url, output, '--set', 'orderbooks.symbols=NOPE');
    expect(bookRequests(box)).toBe(1);
    expect(some.summary).toMatchObject({
      exit_code: 4,
      failures: [{ symbol: 'NOPE', reason: expect.stringMatching(/^order book: HTTP 404/) }],
    });
  });

  test('changes no byte of order books where the service tells the same again', async () => {
    const output = folder();
    const box = await sandbox(input);
    await expectDone(job('nightly', box.url, output, ...allLive));
    const before = hashes(output, 'orderbooks', 'coverage');
    await expectDone(job('nightly', box.url, output, ...allLive));
    expect(bookRequests(box)).toBeGreaterThan(20);
    expect(hashes(output, 'orderbooks', 'coverage')).toEqual(before);
  });

  test('publishes ticks though the key may not read order books', async () => {
    const output = folder();
    const box = await sandbox({ ...input, markets: 4, booksForbidden: true });
    const ended = await job('nightly', box.url, output, ...allLive);
    expect(ended.summary).toMatchObject({
      exit_code: 4,
      error: null,
      failures_count: 1,
      failures: [{ symbol: null, reason: expect.stringMatching(/^order books: HTTP 403/) }],
    });
    expect(totalTicks(output)).toBe(ended.summary.ticks.accepted);
    expect((await job('orderbook', box.url, output)).code).toBe(3);
  });
});
