import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { csvOf, importInto, polled, put, type Tick } from './import-lake.ts';
import {
  addsUp,
  coverageOf,
  dayMs,
  expectDone,
  findWrongWindows,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  manifestOf,
  minuteMs,
  sandbox,
  ticksOf,
} from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`import again: SEED=${seed}`);

const today = Date.UTC(2025, 5, 14);
const yesterday = today - dayMs;

const truthOf = (box: Sandbox, symbol: string, from: number, to: number): Tick[] => {
  const { t, p } = box.readTruth(symbol, { from, to });
  return [...t].map((time, i) => ({ symbol, t: time, p: p[i]! }));
};

const priceOf = (output: string, symbol: string, t: number): number | undefined =>
  ticksOf(output)
    .get(symbol)
    ?.find((tick) => tick.t === t)?.p;

describe('after an import', () => {
  test('ticks polls the lists first in a new archive, because files bring only some symbols', async () => {
    const box = await sandbox({ seed, nowMs: fixedNow, markets: 5 });
    const output = folder();
    const path = put(folder(), 'own.csv', csvOf([{ symbol: 'own', t: yesterday, p: 0.5 }]), fixedNow);
    await importInto(output, [path]);
    const { code, summary } = await job('ticks', box.url, output);
    expect([code, summary.symbols.done]).toEqual([0, summary.symbols.planned]);
    expect(summary.symbols.planned).toBeGreaterThan(1);
  });

  test('without --covers, gaps lists all windows of the files, because none is covered', async () => {
    const output = folder();
    const rows = [yesterday, yesterday + minuteMs].map((t) => ({ symbol: 'own', t, p: 0.5 }));
    await importInto(output, [put(folder(), 'own.csv', csvOf(rows), fixedNow)]);
    const { stdout } = await run(['gaps', '--output', output, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({
      gaps: [{ symbol: 'own', from: yesterday, to: yesterday + minuteMs + 1 }],
    });
    const sql = 'SELECT symbol, epoch_ms(t_from)::BIGINT AS "from", epoch_ms(t_to)::BIGINT AS "to" FROM gaps';
    const view = await run(['sql', sql, '--output', output, '--json']);
    expect(JSON.parse(view.stdout)).toEqual([{ symbol: 'own', from: yesterday, to: yesterday + minuteMs + 1 }]);
  });

  test('a backfill fetches only what the files do not cover', async () => {
    const box = await sandbox({ seed, nowMs: fixedNow });
    const { symbol } = await polled(box);
    const output = folder();
    const path = put(folder(), 'day.csv', csvOf(truthOf(box, symbol, yesterday, today)), fixedNow);
    const args = ['import', path, '--output', output, '--set', 'source.name=box', '--json'];
    await expectDone(run([...args, '--covers', '2025-06-13..2025-06-14']));
    expect(manifestOf(output)).toMatchObject({
      watermark: null,
      upstream: 'box',
      days: { '2025-06-13': { state: 'complete', expected: 1, covered: 1, missing: [], exceptions: 0 } },
    });

    const range = ['--from', '2025-06-13', '--to', '2025-06-15', '--symbol', symbol];
    const before = box.stats().tickRequests;
    await expectDone(job('backfill', box.url, output, ...range));
    expect(box.stats().tickRequests).toBeGreaterThan(before);
    const rows = coverageOf(output);
    expect(rows.map(({ from, to, origin }) => [from, to, origin])).toEqual([
      [yesterday, today, 'import'],
      [today, today + dayMs, 'backfill'],
    ]);
    expect(findWrongWindows(output, box)).toEqual([]);
    const gaps = await run(['gaps', '--output', output, ...range, '--json']);
    expect(JSON.parse(gaps.stdout)).toMatchObject({ count: 0 });
  });

  test('a symbol that only files name is neither polled at night nor expected on later days', async () => {
    const box = await sandbox({ seed, nowMs: fixedNow });
    const { output } = await polled(box);
    const expected = manifestOf(output).days[fixedDay]!.expected;
    const old = { symbol: 'FROM A FILE', t: yesterday - 30 * dayMs, p: 0.5 };
    const covers = { from: old.t, to: old.t + 10 };
    const path = put(folder(), 'old.csv', csvOf([old]), fixedNow);
    expect(await importInto(output, [path], { covers })).toMatchObject({ exit_code: 0, ticks: { accepted: 1 } });
    const again = await expectDone(job('nightly', box.url, output, '--date', fixedDay));
    expect(again.summary.symbols.planned).toBe(0);
    expect(manifestOf(output).days[fixedDay]!.expected).toBe(expected);
  });

  test('polled prices win, unless imports are preferred; then those win over later polls', async () => {
    const box = await sandbox({ seed, nowMs: fixedNow });
    const { output, symbol } = await polled(box);
    const [first, second] = ticksOf(output).get(symbol)!.slice(-2) as [Tick, Tick];
    const other = first.p === 0.123 ? 0.321 : 0.123;
    const between = { symbol, t: first.t + 1, p: 0.77 };
    expect(second.t).toBeGreaterThan(between.t);
    const path = put(
      folder(),
      'a.csv',
      csvOf([{ symbol, t: first.t, p: other }, between, { symbol, t: second.t, p: second.p }]),
    );

    const filled = await importInto(output, [path]);
    expect(filled.ticks).toMatchObject({ accepted: 1, duplicates: 1, conflicts: 1 });
    expect([first.t, between.t].map((t) => priceOf(output, symbol, t))).toEqual([first.p, 0.77]);

    const preferred = await importInto(output, [path], { preferred: true });
    expect(preferred.ticks).toMatchObject({ accepted: 0, duplicates: 2, conflicts: 1 });
    expect(priceOf(output, symbol, first.t)).toBe(other);
    const hashesBefore = hashes(output, 'ticks');

    const range = ['--from', '2025-06-13', '--to', '2025-06-15', '--symbol', symbol, '--force'];
    const forced = await expectDone(job('backfill', box.url, output, ...range));
    // Requests that confirm a page may bring the differing tick again.
    expect(forced.summary.ticks.accepted).toBe(0);
    expect(forced.summary.ticks.conflicts).toBeGreaterThan(0);
    expect(addsUp(forced.summary)).toBe(true);
    expect(hashes(output, 'ticks')).toEqual(hashesBefore);
  });
});
