import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { createStrategyStore } from '../../src/server/workspace/strategy-store.ts';
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
      [{}, ['entry_executable', 'objective']],
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
      const requested = JSON.stringify(body).slice(0, 80);
      const { status, body: reported } = await alice.post(body);
      expect([requested, status, errorsOf(reported)]).toEqual([requested, 400, names]);
      if (body === null || Array.isArray(body)) continue;
      const saved = await alice.post({ ...body, save: true });
      expect([requested, saved.status, errorsOf(saved.body)]).toEqual([requested, 400, names]);
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
      limits: { backtestMsMax: 200, backtestTicksSyncMax: 1e12 },
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
      set: ['service.research.runs_concurrent_max=1'],
      limits: { backtestTicksSyncMax: 1e12 },
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

describe('an immediate backtest', () => {
  test('prefers a strategy of the user in the requested version over a built-in one', async () => {
    const service = await asking(await createTradedArchive());
    const alice = service.as('alice', 'trading');
    const [hold] = builtinStrategies;
    const buying = (contracts: number) => ({
      ...hold!.strategy,
      rules: [{ ...hold!.strategy.rules[0]!, size: { contracts } }],
    });
    for (const [id, contracts] of [
      ['one', 3],
      ['two', 7],
    ] as const) {
      const definition = JSON.stringify(buying(contracts));
      await createStrategyStore(service.workspace.db).add(
        { owner: 'alice', workspace: 'trading' },
        { id, idempotency_key: null, body_sha256: '', created_at: now, name: 'threshold', definition },
        10,
      );
    }
    interface Reported {
      readonly strategy_version: number | null;
      readonly summary: { readonly contracts: number; readonly trades: number };
    }
    const requested = (version: number | null) => ({
      entry_executable: { name: 'threshold', version },
      objective: 'total_pnl',
    });
    const reported = async (who: typeof alice, version: number | null) => {
      const { body } = await who.post<Reported>(requested(version));
      return [body.strategy_version, body.summary.contracts / body.summary.trades];
    };
    expect(await reported(alice, null)).toEqual([2, 7]);
    expect(await reported(alice, 1)).toEqual([1, 3]);
    expect(errorsOf((await alice.post(requested(3))).body)).toEqual(['entry_executable.version']);
    // For another workspace or user it is the built-in one.
    for (const other of [service.alice, service.as('bob', 'trading')])
      expect(await reported(other, null)).toEqual([null, 1]);
    const inline = { ...requested(null), entry_executable: { name: 'mine', strategy: buying(5) } };
    expect((await alice.post<Reported>(inline)).body.summary.contracts).toBe(10);
  });

  test('is rejected if too large, with the advice to save it; grid points multiply the ticks', async () => {
    const { alice } = await asking(await createTradedArchive(), { limits: { backtestTicksSyncMax: 2880 } });
    expect((await alice.post(threshold)).status).toBe(200);
    const two = { ...threshold, grid: { contracts: [1, 2] } };
    const { status, body } = await alice.post<{ detail: string }>(two);
    expect([status, body.detail]).toEqual([422, expect.stringMatching(/2880 ticks.*"save": true/)]);
    expect((await alice.post({ ...two, symbols: ['KX A'] })).status).toBe(200);
    const { body: job } = await alice.post({ ...two, save: true });
    expect((await alice.becomes(job, 'done', 'failed')).state).toBe('done');
  });

  test('is rejected as a job if too large; look-back and windows count, too', async () => {
    const { alice } = await asking(await createTradedArchive(), { limits: { backtestTicksJobMax: 2000 } });
    const one = { ...threshold, symbols: ['KX A'] };
    const refused = async (body: object): Promise<boolean> => {
      const { status, body: reported } = await alice.post<{ detail?: string }>({ ...body, save: true });
      expect([status, reported.detail]).toEqual(
        status === 202 ? [202, undefined] : [422, expect.stringMatching(/2000 ticks/)],
      );
      return status === 422;
    };
    expect(await refused(one)).toBe(false);
    expect(await refused(threshold)).toBe(true);
    expect(await refused({ ...one, grid: { contracts: [1, 2] } })).toBe(true);
    // Half a day of one symbol; windows extend it to the whole day, and each of them counts.
    const windows = (...hours: number[]) => ({
      symbols: ['KX A'],
      from: day0 + 12 * hourMs,
      objective: 'total_pnl',
      entry_executable: { name: 'averages', strategy: averaging(hours) },
    });
    expect(await refused(windows(1))).toBe(false);
    expect(await refused(windows(1, 1))).toBe(false);
    expect(await refused(windows(1, 2))).toBe(true);
    const { body: job } = await alice.post({ ...windows(1), save: true });
    expect((await alice.becomes(job, 'done', 'failed')).state).toBe('done');
  });
});

/** Compares the price with averages over these numbers of hours. */
const averaging = (hours: readonly number[]) => ({
  rules: [
    {
      side: 'yes',
      size: { contracts: 1 },
      entry: {
        all: hours.map((n) => ({ measure: 'moving_average', window_ms: n * hourMs, above: 0.5 })),
      },
    },
  ],
});

describe('a backtest over any number of threads', () => {
  test('gives the same bytes with any number of threads', async () => {
    const archive = await createTradedArchive();
    const wanted = JSON.stringify({ ...(await runDirectly(archive, threshold)), generated_at: now });
    for (const threads of [1, 3]) {
      const { alice } = await asking(archive, { set: [`service.research.threads=${threads}`] });
      expect(JSON.stringify((await alice.post<object>(threshold)).body)).toBe(wanted);
    }
  });
});
