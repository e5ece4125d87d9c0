import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { day0, dayMs, hourMs, now, opened } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { asking, backtestPath, createTradedArchive, endless, errorsOf, runDirectly, threshold } from './backtesting.ts';

const pinsOf = (root: string): string[] => {
  const folder = join(root, '.oddslake/pins');
  return existsSync(folder) ? readdirSync(folder) : [];
};

describe('an immediate backtest', () => {
  test('returns the result of the engine, and the same bytes again except for the time', async () => {
    const archive = await createTradedArchive();
    const { alice } = await asking(archive);
    for (const body of [
      { ...threshold, symbols: ['KX D'], from: day0 + hourMs, to: day0 + 20 * hourMs },
      { ...threshold, grid: { contracts: [1, 2, 5] }, held_out: 0.5 },
    ]) {
      const wanted = await runDirectly(archive, body);
      expect(wanted.trades.count).toBeGreaterThan(1);
      const [first, second] = [await alice.post<object>(body), await alice.post<object>(body)];
      expect([first.status, JSON.stringify(first.body)]).toEqual([
        200,
        JSON.stringify({ ...wanted, generated_at: now }),
      ]);
      expect(JSON.stringify(second.body)).toBe(JSON.stringify(first.body));
    }
    expect((await alice.json<{ backtests: [] }>(backtestPath)).body.backtests).toEqual([]);
    expect(pinsOf(archive.layout.root)).toEqual([]);
  });

  test('is rejected with the names of the invalid fields, also if it is to be saved', async () => {
    const { alice } = await asking(await createTradedArchive());
    const { parameters, ...plain } = threshold;
    const grid = {
      window_ms: Array.from({ length: 101 }, (_, i) => i + 1),
      enter_beyond: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    };
    for (const [body, names] of [
      [null, ['body']],
      [[], ['body']],
      [{}, ['entry_executable', 'entry_executable.name', 'objective']],
      [{ ...plain, entry_executable: { name: 'buy_low' } }, ['entry_executable.name']],
      [{ ...plain, entry_executable: { name: 'threshold', version: 1 } }, ['entry_executable.version']],
      [{ ...plain, entry_executable: { name: 'x', strategy: {} } }, ['entry_executable.strategy.rules']],
      [{ ...plain, objective: 'luck', more: 1 }, ['more', 'objective']],
      [{ ...plain, symbols: [] }, ['symbols']],
      [{ ...plain, symbols: ['KX A', 'KX A', 'NOBODY', "' or 1=1 --"] }, ['symbols[2]', 'symbols[3]']],
      [{ ...plain, from: 5, to: 5 }, ['to']],
      [{ ...plain, from: '1' }, ['from']],
      [{ ...plain, parameters: { ...parameters, buy_over: 1 } }, ['parameters.buy_over']],
      [{ ...plain, parameters, grid: { buy_below: [0.1] } }, ['parameters.buy_below']],
      [{ ...plain, entry_executable: { name: 'mean_reversion' }, grid }, ['grid']],
      [{ ...plain, parameters, grid: { buy_over: [0.1] } }, ['grid.buy_over']],
      [{ ...plain, entry_executable: { name: 'momentum' }, grid: { window_ms: [1, 0] } }, ['grid.window_ms']],
      [{ ...plain, entry_executable: { name: 'momentum' }, parameters: { window_ms: 0 } }, ['parameters.window_ms']],
      [{ ...plain, held_out: 1 }, ['held_out']],
      [{ ...plain, filter: { category: ['x'] } }, ['filter.category']],
      [{ ...plain, filter: { categories: 'x' } }, ['filter.categories']],
    ] as const) {
      const asked = JSON.stringify(body).slice(0, 80);
      const { status, body: told } = await alice.post(body);
      expect([asked, status, errorsOf(told)]).toEqual([asked, 400, names]);
      if (body === null || Array.isArray(body)) continue;
      const saved = await alice.post({ ...body, save: true });
      expect([asked, saved.status, errorsOf(saved.body)]).toEqual([asked, 400, names]);
    }
    expect(errorsOf((await alice.post({ ...threshold, save: 'yes' })).body)).toEqual(['save']);
    // Errors that depend on the ticks.
    const { status, body } = await alice.post({ ...threshold, from: now });
    expect([status, errorsOf(body)]).toEqual([400, ['from']]);
    expect((await alice.json<{ backtests: [] }>(backtestPath)).body.backtests).toEqual([]);
  });

  test('fails without ticks if nothing is published', async () => {
    const { alice } = await asking(opened());
    const { status, body } = await alice.post(threshold);
    expect([status, errorsOf(body)]).toEqual([400, ['filter']]);
    const { body: job } = await alice.post({ ...threshold, save: true });
    const failed = await alice.becomes(job, 'done', 'failed');
    expect([failed.state, failed.error]).toEqual([
      'failed',
      expect.stringMatching(/^The request is invalid: filter matches no symbol/),
    ]);
  });

  test('is aborted if it takes too long, with the advice to save it', async () => {
    const archive = await createTradedArchive(50_000);
    const { alice } = await asking(archive, {
      set: ['service.research.run_seconds_max=0.2', 'service.research.ticks_sync_max=1000000000000'],
    });
    const { status, body } = await alice.post<{ detail: string }>(endless);
    expect([status, body.detail]).toEqual([422, expect.stringMatching(/longer than 0.2 seconds.*"save": true/)]);
    expect(pinsOf(archive.layout.root)).toEqual([]);
  });

  test('gives 503 without paths if files are damaged', async () => {
    const archive = await createTradedArchive();
    writeFileSync(join(archive.layout.root, archive.readManifest().datasets.ticks.files[0]!.path), 'not what it was');
    const { alice } = await asking(archive);
    const { status, headers, body } = await alice.post<{ detail: string }>(threshold);
    expect([status, headers.get('retry-after'), body.detail]).toEqual([503, '600', expect.stringMatching(/damaged/)]);
    expect(JSON.stringify(body)).not.toContain(archive.layout.root);
  });

  test('ends when its client disconnects; meanwhile a limited number of others wait', async () => {
    const archive = await createTradedArchive(50_000);
    const { alice, bob } = await asking(archive, {
      set: ['service.research.runs_concurrent_max=1', 'service.research.ticks_sync_max=1000000000000'],
    });
    const gone = new AbortController();
    const first = alice.post(endless, {}, { signal: gone.signal });
    first.catch(() => {});
    await started(archive.layout.root);
    const day = { ...threshold, to: day0 + dayMs };
    const hers = [alice.post(day), alice.post(day), alice.post(day)];
    const his = bob.post(day);
    // Two of a user may wait, so the last of three is rejected.
    const refused = await Promise.race(hers);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
    gone.abort();
    await expect(first).rejects.toThrow();
    expect((await Promise.all(hers)).map(({ status }) => status).sort()).toEqual([200, 200, 503]);
    expect((await his).status).toBe(200);
    expect(pinsOf(archive.layout.root)).toEqual([]);
  });
});

/** Waits until a run has pinned its files. */
const started = (root: string): Promise<true> =>
  waitFor(() => pinsOf(root).length > 0, 'a run that has pinned its files');
