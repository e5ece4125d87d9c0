import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import { type CellValue, decodeRows } from '../../src/archive/parquet/rows.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import {
  access,
  coverageOf,
  dayMs,
  expectDone,
  folder,
  jobArgs,
  manifestOf,
  minuteMs,
  sandbox,
  set,
  ticksOf,
} from './lake.ts';
import { runJob as job, run } from './run-program.ts';

// Every setting is held here to what it is for, by the whole command line against a sandbox.

/** What time it is at the service: a little behind the program's own clock. */
const now = Date.now() - minuteMs;
/** Where nobody knows when a market opened, its first poll is short. */
const briefly = set('source.first_lookback_days=1', 'source.field_paths.opens_at=none/such');

function rows(output: string, dataset: 'symbols' | 'markets' | 'coverage'): Record<string, CellValue>[] {
  const { columns } = datasets[dataset];
  return globSync(`${dataset}/**/*.parquet`, { cwd: output })
    .sort()
    .flatMap((path) => decodeRows(columns, readFileSync(join(output, path))))
    .map((row) => Object.fromEntries(columns.map(({ name }, i) => [name, row[i]!])));
}

describe('upstream', () => {
  test('concurrency bounds the requests under way', async () => {
    for (const concurrency of [2, 6]) {
      const box = await sandbox({ nowMs: now, markets: 8, latencyMs: 100 });
      const ended = job('nightly', box.url, folder(), ...briefly, ...set(`upstream.concurrency=${concurrency}`));
      await waitFor(() => box.stats().inFlightMax >= concurrency, `${concurrency} requests under way`);
      box.set({ latencyMs: 20 });
      await ended;
      expect(box.stats().inFlightMax).toBe(concurrency);
    }
  });

  test.each([
    ['request_deadline_seconds', 'upstream.request_deadline_seconds=0.5', { latencyMs: limitMs }, /in time|within/],
    ['response_bytes_max', 'upstream.response_bytes_max=1024', {}, /1024|1 kB|larger|longer|bytes/],
  ])('%s gives up what exceeds it', async (_, setting, options, reason) => {
    const box = await sandbox({ nowMs: now, markets: 3, ...options });
    const args = [...briefly, ...set(setting, 'upstream.retry_attempts_max=1')];
    const ended = await job('nightly', box.url, folder(), ...args);
    expect(ended.code, ended.stderr).toBe(4);
    expect(JSON.stringify(ended.summary.failures)).toMatch(reason);
  });

  test('retry_attempts_max bounds the attempts at one request', async () => {
    for (const [attempts, retries] of [
      [1, 0],
      [3, 2],
    ]) {
      const box = await sandbox({ nowMs: now, faultSymbols: { NOBODY: 500 } });
      const args = ['--symbol', 'NOBODY', ...set(`upstream.retry_attempts_max=${attempts}`)];
      const ended = await job('ticks', box.url, folder(), ...args);
      expect(ended.code).toBe(4);
      expect(ended.summary).toMatchObject({ requests: attempts, retries });
    }
  });

  test('retry_after_seconds_max bounds what is waited for a service that asks for a pause', async () => {
    const box = await sandbox({ nowMs: now, markets: 6, requestsPerSecond: 1 });
    const ended = await job('nightly', box.url, folder(), ...briefly, ...set('upstream.retry_after_seconds_max=0.5'));
    expect(ended.code, ended.stderr).toBe(4);
    expect(JSON.stringify(ended.summary.failures)).toMatch(/exceeds the maximum/);
  });
});

describe('source', () => {
  test('name is the upstream of the manifest, and without it the origin is', async () => {
    const box = await sandbox({ nowMs: now, markets: 2 });
    const [named, unnamed] = [folder(), folder()];
    await job('markets', box.url, named, ...set('source.name=Some Service'));
    expect(manifestOf(named).upstream).toBe('Some Service');
    await run(['markets', '--output', unnamed, ...set('upstream.requests_per_second=2000')], access(box.url));
    expect(manifestOf(unnamed).upstream).toBe(box.url);
  });

  test('views are the lists that are polled', async () => {
    const box = await sandbox({ nowMs: now, markets: 20 });
    const [both, one] = [folder(), folder()];
    await job('markets', box.url, both);
    expect(new Set(rows(both, 'markets').flatMap((row) => row.views as string[]))).toEqual(
      new Set(['matched', 'resolving']),
    );
    const requested = box.stats().requests;
    const ended = await job('markets', box.url, one, ...set('source.views=matched'));
    expect(new Set(rows(one, 'markets').flatMap((row) => row.views as string[]))).toEqual(new Set(['matched']));
    // The list, its total once more, and each of the two sources apart.
    expect(box.stats().requests - requested).toBe(4);
    expect(ended.summary.warnings).toEqual([]);
  });

  test('symbol_paths say where the symbols of a record stand', async () => {
    const box = await sandbox({ nowMs: now, markets: 20 });
    const [all, few] = [folder(), folder()];
    await job('markets', box.url, all);
    await job('markets', box.url, few, ...set('source.symbol_paths=symbol'));
    const canonical = new Set(rows(all, 'markets').map((row) => row.canonical_id));
    const matched = rows(few, 'markets').filter((row) => canonical.has(row.symbol!));
    // Markets of several venues name no symbol of their own: their canonical_id stands in.
    expect(matched.length).toBeGreaterThan(0);
    expect(rows(all, 'markets').filter((row) => canonical.has(row.symbol!))).toEqual([]);
    expect(rows(all, 'symbols').length).toBeGreaterThan(rows(few, 'symbols').length);
  });

  test('field_paths say where a record has question, source, opens_at, closes_at, resolved_at and outcome', async () => {
    const box = await sandbox({ nowMs: now, markets: 20 });
    const names = ['question', 'source', 'opens_at', 'closes_at', 'resolved_at', 'outcome'];
    const [there, nowhere] = [folder(), folder()];
    await job('markets', box.url, there);
    await job('markets', box.url, nowhere, ...set(...names.map((name) => `source.field_paths.${name}=none/such`)));
    for (const name of names) {
      expect(rows(there, 'symbols').filter((row) => row[name] !== null).length, name).toBeGreaterThan(0);
      expect(rows(nowhere, 'symbols').filter((row) => row[name] !== null).length, name).toBe(0);
    }
    const swapped = folder();
    await job('markets', box.url, swapped, ...set('source.field_paths.question=category'));
    for (const row of rows(swapped, 'markets')) expect(row.question).toBe(row.category);
  });

  test('first_lookback_days is where the first poll starts of a symbol of which nobody knows when it opened', async () => {
    const box = await sandbox({ nowMs: now, markets: 6 });
    const earliestWith = async (...settings: string[]): Promise<number> => {
      const output = folder();
      await job('nightly', box.url, output, ...set('source.first_lookback_days=2', ...settings));
      return Math.min(...coverageOf(output).map(({ from }) => from));
    };
    const earliest = await earliestWith('source.field_paths.opens_at=none/such');
    expect(earliest).toBeGreaterThanOrEqual(now - 2 * dayMs);
    expect(earliest).toBeLessThan(now - 1.9 * dayMs);
    // Where it is known, all since then is owed.
    expect(await earliestWith()).toBeLessThan(earliest);
  });

  test('linger_days is how long a symbol is polled after it turned inactive', async () => {
    const polled: number[] = [];
    for (const days of [0, 3650]) {
      const box = await sandbox({ nowMs: now - 4 * dayMs, markets: 12, ticksPerDay: 50 });
      const output = folder();
      const night = () =>
        // Without a moment of resolution it is lingering alone that ends a symbol's polling.
        job('nightly', box.url, output, ...set(`source.linger_days=${days}`, 'source.field_paths.resolved_at=none'));
      await night();
      box.set({ nowMs: now });
      await night();
      polled.push((await night()).summary.symbols.planned);
    }
    expect(polled[1]).toBeGreaterThan(polled[0]!);
  });
});

test('symbols of the config are polled in place of those of the lists', async () => {
  const box = await sandbox({ nowMs: now, markets: 6 });
  const [all, one] = [folder(), folder()];
  await job('nightly', box.url, all, ...briefly);
  const [symbol] = [...ticksOf(all).keys()];
  await expectDone(job('nightly', box.url, one, ...briefly, ...set(`symbols=["${symbol}"]`)));
  expect([...ticksOf(one).keys()]).toEqual([symbol]);
});

describe('poll', () => {
  test('overlap_minutes are read again before the cursor', async () => {
    // Soon after midnight: what was polled since then is read again in any case, because it is not proven yet.
    const midnight = Math.floor(now / dayMs) * dayMs;
    const box = await sandbox({ nowMs: midnight, markets: 4 });
    const duplicates: number[] = [];
    for (const minutes of [60, 600]) {
      const output = folder();
      const common = [...briefly, ...set(`poll.overlap_minutes=${minutes}`, 'poll.settle_hours=0')];
      box.set({ nowMs: midnight + 5 * minuteMs });
      await job('nightly', box.url, output, ...common);
      box.set({ nowMs: midnight + 15 * minuteMs });
      duplicates.push((await job('nightly', box.url, output, ...common)).summary.ticks.duplicates);
    }
    expect(duplicates[1]).toBeGreaterThan(duplicates[0]!);
  });

  test('page_limit is what one request asks for', async () => {
    const box = await sandbox({ nowMs: now, markets: 3 });
    const requests: number[] = [];
    for (const limit of [10_000, 50]) {
      requests.push((await job('nightly', box.url, folder(), ...set(`poll.page_limit=${limit}`))).summary.requests);
    }
    expect(requests[1]).toBeGreaterThan(2 * requests[0]!);
  });

  test('future_skew_seconds is how far ahead of the clock a moment may lie and still be believed', async () => {
    const ahead = Date.now() + 10 * minuteMs;
    const box = await sandbox({ nowMs: ahead, markets: 3 });
    for (const [seconds, believed] of [
      [3600, true],
      [0, false],
    ] as const) {
      const output = folder();
      await job('nightly', box.url, output, ...briefly, ...set(`poll.future_skew_seconds=${seconds}`));
      const moments = new Set(coverageOf(output).map(({ fetchedAt }) => fetchedAt === ahead));
      expect(moments, `${seconds}`).toEqual(new Set([believed]));
    }
  });
});

test('publish.journal_ticks_max is where a running job publishes', async () => {
  const box = await sandbox({ nowMs: now, markets: 6, cap: 100, latencyMs: 30 });
  const generations: number[] = [];
  for (const most of [5_000_000, 300]) {
    const args = [...briefly, ...set(`publish.journal_ticks_max=${most}`)];
    generations.push((await job('nightly', box.url, folder(), ...args)).summary.generation);
  }
  expect(generations[0]).toBe(1);
  expect(generations[1]).toBeGreaterThan(1);
});

describe('archive', () => {
  test('parts is the number of files of a day, each with a range of symbols', async () => {
    const box = await sandbox({ nowMs: now, markets: 20, ticksPerDay: 50 });
    const output = folder();
    await job('nightly', box.url, output, ...briefly, ...set('archive.parts=3'));
    const { files } = manifestOf(output).datasets.ticks;
    const byDay = [...Map.groupBy(files, ({ date }) => date).values()];
    expect(Math.max(...byDay.map(({ length }) => length))).toBe(3);
    for (const ofDay of byDay)
      for (const [i, { path, symbol_from, symbol_to }] of ofDay.entries()) {
        const rows = decodeRows(datasets.ticks.columns, readFileSync(join(output, path)));
        expect([rows[0]![0], rows.at(-1)![0]]).toEqual([symbol_from, symbol_to]);
        if (i > 0) expect(compareUtf8(ofDay[i - 1]!.symbol_to!, symbol_from!)).toBeLessThan(0);
      }
  });

  test('settle_hours is how old a day must be at least for a night to prove it', async () => {
    const dayEnd = Math.floor(now / dayMs - 1) * dayMs;
    const box = await sandbox({ nowMs: dayEnd + 3 * 60 * minuteMs, markets: 12 });
    for (const [hours, provenTo] of [
      [2, dayEnd],
      [4, dayEnd - dayMs],
      [24, dayEnd - dayMs],
      [28, dayEnd - 2 * dayMs],
    ] as const) {
      const output = folder();
      await job('nightly', box.url, output, ...set(`poll.settle_hours=${hours}`, 'source.first_lookback_days=4'));
      const proven = coverageOf(output).filter(({ evidence }) => evidence !== 'inferred');
      expect(Math.max(...proven.map(({ to }) => to)), `${hours}`).toBe(provenTo);
    }
  });
});

test('log.format is the format of the log, whatever standard error is', async () => {
  const box = await sandbox({ nowMs: now, markets: 2 });
  const readFirstLine = async (...more: string[]): Promise<string> => {
    const { stderr } = await run([...jobArgs('markets', folder()), ...more], access(box.url));
    return stderr.split('\n')[0]!;
  };
  expect(await readFirstLine(...set('log.format=text'))).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z info {2}\S/);
  for (const format of ['json', 'auto']) {
    expect(JSON.parse(await readFirstLine(...set(`log.format=${format}`)))).toMatchObject({ level: 'info' });
  }
});
