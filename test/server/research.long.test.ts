import { describe, expect, test } from 'vitest';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { createStrategyStore } from '../../src/server/workspace/strategies.ts';
import { day0, hourMs, now } from '../archive/scratch.ts';
import { asking, createTradedArchive, errorsOf, runDirectly, threshold } from './backtesting.ts';

describe('an immediate backtest', () => {
  test('prefers a strategy of the user in the requested version over a built-in one', async () => {
    const service = await asking(await createTradedArchive());
    const alice = service.as('alice', 'desk');
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
        { owner: 'alice', workspace: 'desk' },
        { id, idempotency_key: null, body_sha256: '', created_at: now, name: 'threshold', definition },
        10,
      );
    }
    interface Told {
      readonly strategy_version: number | null;
      readonly summary: { readonly contracts: number; readonly trades: number };
    }
    const asked = (version: number | null) => ({
      entry_executable: { name: 'threshold', version },
      objective: 'total_pnl',
    });
    const told = async (who: typeof alice, version: number | null) => {
      const { body } = await who.post<Told>(asked(version));
      return [body.strategy_version, body.summary.contracts / body.summary.trades];
    };
    expect(await told(alice, null)).toEqual([2, 7]);
    expect(await told(alice, 1)).toEqual([1, 3]);
    expect(errorsOf((await alice.post(asked(3))).body)).toEqual(['entry_executable.version']);
    // For another workspace or user it is the built-in one.
    for (const other of [service.alice, service.as('bob', 'desk')]) expect(await told(other, null)).toEqual([null, 1]);
    const inline = { ...asked(null), entry_executable: { name: 'mine', strategy: buying(5) } };
    expect((await alice.post<Told>(inline)).body.summary.contracts).toBe(10);
  });

  test('is rejected if too large, with the advice to save it; grid points multiply the ticks', async () => {
    const { alice } = await asking(await createTradedArchive(), { set: ['service.research.ticks_sync_max=2880'] });
    expect((await alice.post(threshold)).status).toBe(200);
    const two = { ...threshold, grid: { contracts: [1, 2] } };
    const { status, body } = await alice.post<{ detail: string }>(two);
    expect([status, body.detail]).toEqual([422, expect.stringMatching(/2880 ticks.*"save": true/)]);
    expect((await alice.post({ ...two, symbols: ['KX A'] })).status).toBe(200);
    const { body: job } = await alice.post({ ...two, save: true });
    expect((await alice.becomes(job, 'done', 'failed')).state).toBe('done');
  });

  test('is rejected as a job if too large; look-back and windows count, too', async () => {
    const { alice } = await asking(await createTradedArchive(), { set: ['service.research.ticks_job_max=2000'] });
    const one = { ...threshold, symbols: ['KX A'] };
    const refused = async (body: object): Promise<boolean> => {
      const { status, body: told } = await alice.post<{ detail?: string }>({ ...body, save: true });
      expect([status, told.detail]).toEqual(
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
