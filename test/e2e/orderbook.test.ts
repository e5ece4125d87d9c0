import { describe, expect, test } from 'vitest';
import { limitMs, waitFor } from '../harness/limits.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import { bookCoverage, bookRequests, booksOf, input, listed, understood } from './books.ts';
import { access, expectDone, folder, jobArgs, journaledBooks, sandbox, start } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

describe('orderbook', () => {
  test('polls the named symbols, and continues after one that fails', async () => {
    const output = folder();
    const box = await sandbox(input);
    await expectDone(job('markets', box.url, output));
    const [a, b, c] = listed(output) as [string, string, string];
    box.set({ faultSymbols: { [b]: 500 } });
    const ended = await job('orderbook', box.url, output, ...[a, b, c].flatMap((symbol) => ['--symbol', symbol]));
    expect(ended.summary).toMatchObject({
      exit_code: 4,
      orderbooks: { planned: 3, done: 2, failed: 1 },
      failures_count: 1,
    });
    expect(ended.summary.failures[0]).toMatchObject({
      symbol: b,
      reason: expect.stringMatching(/^order book: HTTP 500/),
    });
    expect([...booksOf(output).keys()].sort()).toEqual([a, c].sort());
    const requested = await run([
      'sql',
      '--output',
      output,
      '--format',
      'csv',
      'select count(distinct symbol) as n from orderbooks',
    ]);
    expect(requested.stdout.trim()).toBe('n\n2');
  });

  test('polls every live symbol where none is named; one of them without a book is a warning', async () => {
    const output = folder();
    const box = await sandbox(input);
    await expectDone(job('markets', box.url, output));
    const [missing] = listed(output);
    box.set({ faultSymbols: { [missing!]: 404 } });
    const ended = await expectDone(job('orderbook', box.url, output));
    expect(ended.summary.warnings).toEqual([expect.stringContaining(`no order book for 1 symbol (${missing})`)]);
    expect(ended.summary.orderbooks).toMatchObject({
      failed: 0,
      missing: 1,
      done: ended.summary.orderbooks.planned - 1,
    });
    expect(booksOf(output).size).toBe(ended.summary.orderbooks.planned - 1);
  });

  test('asks the lists first on a fresh archive, and gets through faults of the service, a book of another symbol included', async () => {
    const output = folder();
    const faults = ['500', 'bad-json', 'html', 'half-body', 'reset', 'wrong-symbol'] as const;
    const box = await sandbox({ ...input, bookShapes: understood, faultShare: 0.4, faults });
    const ended = await expectDone(job('orderbook', box.url, output, '--set', 'upstream.retry_attempts_max=20'));
    expect(ended.summary.orderbooks.quarantined).toBe(0);
    expect(booksOf(output).size).toBe(ended.summary.orderbooks.planned);
    expect(ended.summary.retries).toBeGreaterThan(5);
  });

  test('sets aside what it does not understand, says so, and claims nothing of it', async () => {
    const output = folder();
    const box = await sandbox({ ...input, bookShapes: ['cents'] });
    const ended = await expectDone(job('orderbook', box.url, output));
    const { quarantined, planned } = ended.summary.orderbooks;
    expect(quarantined).toBeGreaterThan(10);
    expect(ended.summary.warnings[0]).toMatch(
      /order books were quarantined in .oddslake\/quarantine: .* is outside 0 to 1/,
    );
    expect(ended.summary.ticks.quarantined).toBe(0);
    // Empty books are empty in cents, too.
    expect(booksOf(output).size).toBe(planned - quarantined);
    expect(bookCoverage(output).length).toBe(planned - quarantined);
    const lines = quarantineLines(output);
    expect(lines.length).toBe(quarantined);
    expect((JSON.parse(lines[0]!) as { raw: string }).raw).toMatch(/^\{"symbol":.*"yes":\[\[/);
    expect((await job('orderbook', box.url, output, '--strict')).code).toBe(4);
  });

  test('killed while it polls, keeps what was had and gives it once', async () => {
    const output = folder();
    const box = await sandbox({ ...input, markets: 60 });
    await expectDone(job('markets', box.url, output));
    box.set({ latencyMs: 40 });
    const running = start(jobArgs('orderbook', output), access(box.url));
    await waitFor(() => bookRequests(box) > 40, 'forty requests');
    // The next are never answered, so that it is killed in the middle.
    box.set({ latencyMs: limitMs });
    await waitFor(() => journaledBooks(output) > 10, 'books in the journal');
    running.child.kill('SIGKILL');
    await running.ended;
    box.set({ latencyMs: 0 });
    await expectDone(job('publish', box.url, output));
    const had = booksOf(output).size;
    expect(had).toBeGreaterThan(10);
    const again = await expectDone(job('orderbook', box.url, output));
    expect(booksOf(output).size).toBe(again.summary.orderbooks.planned);
    expect(again.summary.orderbooks.planned).toBeGreaterThan(had);
  });
});
