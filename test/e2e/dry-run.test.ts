import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import { withState } from '../harness/with-state.ts';
import { put } from './import-lake.ts';
import { access, dayMs, type Ended, expectDone, folder, hashes, jobArgs, sandbox } from './lake.ts';
import { receiver } from './receiver.ts';
import { runJob as job, run } from './run-program.ts';

// Plans are compared with the runs that they announce.

interface Plan {
  readonly symbols: number;
  readonly windows: number;
  readonly expected_requests: number;
  readonly expected_seconds: number;
  readonly expected_ticks: number;
  readonly requests_per_second: number;
  readonly unknown_symbols: number;
  readonly groups: readonly { readonly symbols_count: number; readonly expected_requests: number }[];
  readonly groups_count: number;
}

const planOf = ({ stdout }: Ended): Plan =>
  stdout
    .split('\n')
    .filter((line) => line.startsWith('{"plan"'))
    .map((line) => (JSON.parse(line) as { plan: Plan }).plan)[0]!;

/** Share by which an estimate may be wrong. */
const errorMax = 0.2;

/** The clock of the sandbox advances: responses of the same moment would not confirm each other. */
const seed: Partial<SandboxOptions> = { seed: 11, nowMs: null, activeShare: 0.9, lifetimeDaysMax: 60 };

/** The UTC day that began `days` before today. */
const day = (days: number): string => new Date(Date.now() - days * dayMs).toISOString().slice(0, 10);
const between = (from: number, to: number): string[] => ['--from', day(from), '--to', day(to)];

interface Shape {
  readonly options: Partial<SandboxOptions>;
  /** The windows that were fetched before the plan. */
  readonly before: readonly string[][];
  readonly window: readonly string[];
  /** Whether only symbols with ticks are fetched: a few new ones may have any number of ticks. */
  readonly isNamed?: boolean;
}

const shapes: [string, Shape][] = [
  [
    'many symbols with few ticks',
    {
      options: { ...seed, markets: 30, ticksPerDay: 15 },
      before: [between(3, 0)],
      window: between(7, 3),
    },
  ],
  [
    'few symbols with many pages of a learnt cap',
    {
      options: { ...seed, markets: 4, ticksPerDay: 2000, cap: 250 },
      before: [between(4, 0)],
      window: [...between(4, 1), '--force'],
      isNamed: true,
    },
  ],
  [
    'pages that keep the latest ticks and vary in size',
    {
      options: { ...seed, markets: 6, ticksPerDay: 1000, cap: 300, capVariation: 0.3, truncate: 'latest' },
      before: [between(4, 0)],
      window: [...between(4, 1), '--force'],
      isNamed: true,
    },
  ],
  [
    'a window that is partly covered',
    {
      options: { ...seed, markets: 14, ticksPerDay: 300, cap: 500 },
      before: [between(6, 5), between(3, 2)],
      window: between(7, 0),
    },
  ],
];

/** The symbols with ticks. */
async function symbolsWithTicks(output: string): Promise<string[]> {
  const { stdout } = await run(['symbols', '--json', '--output', output]);
  const { symbols } = JSON.parse(stdout) as { symbols: { symbol: string; ticks: number }[] };
  return symbols.filter(({ ticks }) => ticks > 0).map(({ symbol }) => symbol);
}

test.each(shapes)('backfill --dry-run is right within 20 %: %s', async (_, { options, before, window, isNamed }) => {
  const [box, output] = [await sandbox(options), folder()];
  for (const flags of before) {
    await expectDone(job('backfill', box.url, output, ...flags));
  }
  const named = isNamed === true ? (await symbolsWithTicks(output)).flatMap((symbol) => ['--symbol', symbol]) : [];
  const sent = box.stats().requests;
  const flags = [...window, ...named, '--set', 'upstream.requests_per_second=50'];
  const plan = planOf(await job('backfill', box.url, output, ...flags, '--dry-run'));
  expect(box.stats().requests).toBe(sent);
  const ended = await expectDone(job('backfill', box.url, output, ...window, ...named));
  const { requests, symbols } = ended.summary;
  expect(plan.symbols).toBe(symbols.planned);
  expect(plan.unknown_symbols).toBe(0);
  expect(plan.groups.reduce((sum, { symbols_count: count }) => sum + count, 0)).toBe(plan.symbols);
  expect(plan.groups_count).toBeLessThan(plan.symbols);
  expect(Math.abs(plan.expected_requests / requests - 1)).toBeLessThan(errorMax);
  expect(plan.expected_ticks).toBeGreaterThan(0);
  expect(plan.expected_seconds).toBeCloseTo((plan.expected_requests - 1) / plan.requests_per_second, 0);
});

test('a plan says what it does not know, and takes the speed of a slow service from the last long run', async () => {
  const [box, output] = [await sandbox({ ...seed, markets: 10, ticksPerDay: 20 }), folder()];
  const slow = ['--set', 'upstream.requests_per_second=50'];
  const args = jobArgs('backfill', output, ...between(3, 0), ...slow, '--dry-run');
  await expectDone(job('markets', box.url, output));
  const text = await expectDone(
    run(
      args.filter((arg) => arg !== '--json'),
      access(box.url),
    ),
  );
  expect(text.stdout).toMatch(/^\d+ symbols, \d+ windows, at least \d+ requests\n/);
  expect(text.stdout).toMatch(/\nat least .* at the configured rate of 50 per second\n/);
  expect(text.stdout).toMatch(/\nnothing is known yet of \d+ symbols: each window counts as one request\n/);
  // Far below the rate that the first run was allowed, which the next one begins with.
  box.set({ latencyMs: 60 });
  const one = ['--set', 'upstream.concurrency=1', '--set', 'upstream.requests_per_second=2000'];
  const ended = await expectDone(job('backfill', box.url, output, ...between(3, 0), ...one));
  expect(ended.summary.requests).toBeGreaterThan(50);
  const plan = planOf(await job('backfill', box.url, output, ...between(6, 3), ...one, '--dry-run'));
  // Each request takes 60 ms at least.
  expect(plan.requests_per_second).toBeLessThanOrEqual(17);
  expect(plan.expected_seconds).toBeGreaterThan((plan.expected_requests - 1) / 17.5);
});

test('nightly --dry-run is right within 20 %, contacts nobody and writes nothing', async () => {
  const [box, output] = [await sandbox({ ...seed, markets: 12, ticksPerDay: 200, cap: 500 }), folder()];
  await expectDone(job('nightly', box.url, output, '--date', day(2)));
  const books = ['--set', 'orderbooks.all_live=true'];
  const sent = box.stats().requests;
  const before = hashes(output, '.');
  const runs = countRuns(output);
  const args = jobArgs('nightly', output, ...books, '--dry-run');
  const planned = await expectDone(run(args, access(box.url)));
  const { plan } = JSON.parse(planned.stdout) as { plan: Plan & { requests: Record<string, number> } };
  const text = await expectDone(
    run(
      args.filter((arg) => arg !== '--json'),
      access('http://127.0.0.1:9'),
    ),
  );
  expect(text.stdout).toMatch(/^\d+ symbols, \d+ windows, about \d+ requests and [\d,]+ ticks\n/);
  expect(text.stdout).toMatch(/\nrequests: ticks \d+, market lists 4, order books \d+, rechecks \d+\n/);
  expect(box.stats().requests).toBe(sent);
  expect(hashes(output, '.')).toEqual(before);
  expect(countRuns(output)).toBe(runs);
  const ended = await expectDone(job('nightly', box.url, output, ...books));
  expect(plan.symbols).toBe(ended.summary.symbols.planned);
  expect(plan.requests).toMatchObject({ market_lists: 4, order_books: expect.any(Number) });
  expect(Math.abs(plan.expected_requests / ended.summary.requests - 1)).toBeLessThan(errorMax);
});

const countRuns = (output: string): number =>
  withState(output, (db) => db.one<{ n: number }>('select count(*) as n from runs')!.n);

test('a dry run of a new archive says what it cannot know, sends nothing and creates nothing', async () => {
  const [box, cwd] = [await sandbox({ ...seed, markets: 3, ticksPerDay: 20 }), folder()];
  const args = ['backfill', ...between(3, 0), '--output', 'lake', '--dry-run'];
  const text = await expectDone(run(args, access(box.url), cwd));
  expect(text.stdout).toMatch(
    /^which symbols exist is not known, nor what their ticks would take: no market list has been polled yet\n\S+ markets --output lake polls the lists, and then this plan has figures\n$/,
  );
  const unknown = {
    symbols: null,
    windows: null,
    expected_requests: null,
    expected_seconds: null,
    unknown_symbols: null,
  };
  const json = await expectDone(run([...args, '--json'], access(box.url), cwd));
  expect(planOf(json)).toMatchObject({ ...unknown, expected_ticks: null, is_first: true, groups: [] });
  // A symbol that is named is known to exist, and nothing else of it.
  const named = await expectDone(run([...args, '--symbol', 'ONE'], access(box.url), cwd));
  expect(named.stdout).toMatch(/^1 symbol, 1 window, at least 1 request\n[\s\S]*nothing is known yet of 1 symbol/);
  mkdirSync(join(cwd, 'lake'));
  await expectDone(run(args, access(box.url), cwd));
  expect([readdirSync(cwd), readdirSync(join(cwd, 'lake'))]).toEqual([['lake'], []]);
  expect(box.stats().requests).toBe(0);
});

test('a night before the first poll of the lists has figures only of what it knows', async () => {
  const [box, output] = [await sandbox({ ...seed, markets: 3, ticksPerDay: 20 }), folder()];
  await expectDone(run(['init', join(folder(), 'lake.yaml'), '--base-url', box.url, '--no-check', '--output', output]));
  const args = ['nightly', '--output', output, '--dry-run'];
  const text = await expectDone(run(args, access(box.url)));
  expect(text.stdout).toMatch(/^which symbols exist is not known.*\n.*\nother requests: market lists 4\n$/);
  const { plan } = JSON.parse((await run([...args, '--json'], access(box.url))).stdout) as { plan: Plan };
  expect(plan).toMatchObject({ symbols: null, expected_requests: null, requests: { ticks: null, market_lists: 4 } });
});

test('a dry run leaves no trace: no run, no file, no folder, no notification', async () => {
  const [box, output, { url, reported }] = [
    await sandbox({ ...seed, markets: 3, ticksPerDay: 20 }),
    folder(),
    await receiver(),
  ];
  await expectDone(job('nightly', box.url, output, '--date', day(2)));
  const env = { ...access(box.url), ODDSLAKE_WEBHOOK_URL: url };
  const pings = ['--set', `notify.ping_url=${url}`, '--set', 'notify.ping_jobs=nightly,backfill,import'];
  const files = folder();
  const good = put(files, 'good.csv', 'symbol,t,p\nNEW,1783771200000,0.5\n');
  const bad = put(files, 'bad.csv', 'symbol,t,p\nNEW,1783771200000,x\n');
  const other = join(files, 'other');
  cpSync(output, other, { recursive: true });
  const damaged = Object.keys(hashes(output, 'ticks'))[0]!;
  // A poll that finds damage records it, and a dry run does not look for it.
  writeFileSync(join(output, damaged), readFileSync(join(output, damaged)).subarray(1));
  for (const path of ['pins', 'quarantine']) rmSync(join(output, '.oddslake', path), { recursive: true, force: true });
  const look = () =>
    globSync(['**/*', '.oddslake/**'], { cwd: output })
      .sort()
      .map((path) => {
        const stats = statSync(join(output, path));
        return stats.isFile() ? [path, stats.mtimeMs, readFileSync(join(output, path)).toString('base64')] : [path];
      });
  const [before, sent, runs] = [look(), box.stats().requests, countRuns(output)];
  for (const [code, ...args] of [
    [0, 'nightly'],
    [0, 'backfill', ...between(3, 0)],
    [0, 'backfill', ...between(3, 0), '--symbol', 'NOBODY'],
    [0, 'import', good],
    [4, 'import', bad],
    [2, 'import', join(files, 'missing.csv')],
    [0, 'import', other],
  ] as const) {
    const shown = await run(
      [...args, ...pings, '--output', output, '--set', 'source.name=box', '--json', '--dry-run'],
      env,
    );
    expect([shown.code, args, shown.stderr]).toEqual([code, args, shown.stderr]);
    if (args[0] !== 'nightly') expect(shown.summary).toMatchObject({ run_id: null, exit_code: code });
    expect(look(), args.join(' ')).toEqual(before);
  }
  expect([reported, box.stats().requests, countRuns(output)]).toEqual([[], sent, runs]);
});

test('nightly --dry-run needs an archive', async () => {
  const missing = await run(['nightly', '--dry-run', '--output', '/nonexistent/lake'], {});
  expect(missing.code).toBe(2);
  expect(missing.stderr).toMatch(/no archive/);
});
