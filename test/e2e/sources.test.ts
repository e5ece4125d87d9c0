import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findSource, unqualifySymbol } from '../../src/base/source-name.ts';
import { hourMs } from '../../src/base/window.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { waitFor } from '../harness/limits.ts';
import { withState } from '../harness/with-state.ts';
import {
  coverageOf,
  dayRows,
  type Ended,
  expectDone,
  fastFlags,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  jobArgs,
  manifestOf,
  rowsOf,
  sandbox,
  start,
  ticksOf,
  totalTicks,
} from './lake.ts';
import { run } from './run-program.ts';

// Archives of several sources. The sandboxes of one seed list the same symbols and canonical IDs, and have other ticks.

const input = { seed: 5, nowMs: fixedNow, markets: 4, lifetimeDaysMax: 45 };
const names = ['alpha', 'beta'] as const;
type Name = (typeof names)[number];
type Boxes = Record<Name, Sandbox>;

const startBoxes = async (): Promise<Boxes> => ({
  alpha: await sandbox({ ...input, ticksPerDay: 60 }),
  beta: await sandbox({ ...input, ticksPerDay: 25 }),
});

interface Lake {
  readonly output: string;
  readonly config: string;
}

/** A config with these sources beside the folder of an archive. */
function configure(sources: Readonly<Record<string, string>>, more = ''): Lake {
  const root = folder();
  const lines = Object.entries(sources).map(([name, text]) => `  ${name}: {${text}}`);
  writeFileSync(join(root, 'config.yaml'), `sources:\n${lines.join('\n')}\n${more}`);
  return { output: join(root, 'lake'), config: join(root, 'config.yaml') };
}

const describeBox = ({ url }: Sandbox, rate = 2000): string =>
  `base_url: "${url}", api_key: sandbox-key, requests_per_second: ${rate}, retry_attempts_max: 2`;

const configureBoxes = ({ alpha, beta }: Boxes): Lake =>
  configure({ alpha: describeBox(alpha), beta: describeBox(beta) });

const args = (name: string, { output, config }: Lake, ...flags: string[]): string[] => [
  name,
  '--output',
  output,
  '--config',
  config,
  ...fastFlags,
  ...flags,
];

const job = (name: string, lake: Lake, ...flags: string[]): Promise<Ended> => run(args(name, lake, ...flags));

/** Runs a command that reads, and parses what it prints. */
async function read<T>(name: string, { output, config }: Lake, ...flags: string[]): Promise<T> {
  const ended = await expectDone(run([name, '--output', output, '--config', config, '--json', ...flags]));
  return ended.summary as T;
}

/** Windows whose published ticks differ from those of their source. */
function findWrongWindows(output: string, boxes: Partial<Boxes>): string[] {
  const published = ticksOf(output);
  return coverageOf(output).flatMap(({ symbol, from, to }) => {
    const source = findSource(symbol, names) as Name | null;
    const box = source === null ? undefined : boxes[source];
    if (box === undefined) return [`${symbol} has no source`];
    const wanted = rowsOf(box.readTruth(unqualifySymbol(source, symbol), { from, to }));
    const held = (published.get(symbol) ?? []).filter(({ t }) => from <= t && t < to);
    return JSON.stringify(held) === JSON.stringify(wanted) ? [] : [`${symbol} ${from} … ${to}`];
  });
}

const symbolsOf = (output: string, source: Name): string[] =>
  [...ticksOf(output).keys()].filter((symbol) => findSource(symbol, names) === source);

const night = ['--date', fixedDay];

describe('an archive of two sources', () => {
  test('keeps symbols that collide apart, and a repeated night changes no byte', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    await expectDone(job('nightly', lake, ...night));
    expect(findWrongWindows(lake.output, boxes)).toEqual([]);
    const [ofAlpha, ofBeta] = names.map((name) =>
      symbolsOf(lake.output, name).map((symbol) => unqualifySymbol(name, symbol)),
    );
    expect(ofAlpha!.filter((symbol) => ofBeta!.includes(symbol)).length).toBeGreaterThan(1);
    expect(ticksOf(lake.output).size).toBe(ofAlpha!.length + ofBeta!.length);
    const manifest = manifestOf(lake.output);
    expect(manifest.sources).toEqual(names.map((name) => ({ name, upstream: boxes[name].url })));
    expect(manifest).not.toHaveProperty('upstream');
    const before = hashes(lake.output, 'ticks', 'coverage', 'conflicts', 'candles_1h', 'candles_1d');
    const requests = names.map((name) => boxes[name].stats().tickRequests);
    await expectDone(job('nightly', lake, ...night));
    expect(hashes(lake.output, 'ticks', 'coverage', 'conflicts', 'candles_1h', 'candles_1d')).toEqual(before);
    expect(names.map((name) => boxes[name].stats().tickRequests)).toEqual(requests);
    // Its state is rebuilt with its sources from the published files.
    rmSync(join(lake.output, '.oddslake'), { recursive: true });
    await expectDone(job('nightly', lake, ...night));
    expect(before).toMatchObject(hashes(lake.output, 'ticks'));
  });

  test('qualifies canonical IDs and the names in the stored fields of a market', async () => {
    const lake = configureBoxes(await startBoxes());
    await expectDone(job('markets', lake));
    const sql = 'SELECT canonical_id, symbol, extra FROM markets';
    const { stdout } = await run(['sql', sql, '--output', lake.output, '--format', 'json']);
    const rows = JSON.parse(stdout) as { canonical_id: string; symbol: string; extra: string | null }[];
    expect(rows.length).toBeGreaterThan(4);
    for (const { canonical_id, symbol, extra } of rows) {
      const source = findSource(symbol, names);
      expect(findSource(canonical_id, names)).toBe(source);
      for (const [, ticker] of (extra ?? '').matchAll(/"ticker":"([^"]*)"/g))
        expect(findSource(ticker!, names)).toBe(source);
    }
  });

  test('collects a source alone, and its lists are no evidence about the markets of the other', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    await expectDone(job('markets', lake));
    const countActive = async (source: string): Promise<number> =>
      (await read<{ symbols: { is_active: boolean }[] }>('symbols', lake, '--source', source)).symbols.filter(
        ({ is_active }) => is_active,
      ).length;
    const active = await countActive('beta');
    expect(active).toBeGreaterThan(0);
    const requested = boxes.beta.stats().requests;
    const alone = await expectDone(job('nightly', lake, '--source', 'alpha', ...night));
    expect(alone.summary.sources!.map(({ source }) => source)).toEqual(['alpha']);
    expect(boxes.beta.stats().requests).toBe(requested);
    expect(await countActive('beta')).toBe(active);
    expect(symbolsOf(lake.output, 'beta')).toEqual([]);
  });

  test('requests a symbol from its source only', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    await expectDone(job('markets', lake));
    const { symbols } = await read<{ symbols: { symbol: string }[] }>('symbols', lake, '--source', 'beta');
    const bare = unqualifySymbol('beta', symbols[0]!.symbol);
    await expectDone(job('ticks', lake, '--symbol', `beta:${bare}`));
    expect(boxes.alpha.stats().tickRequests).toBe(0);
    expect(Object.keys(boxes.beta.stats().bySymbol)).toEqual([bare]);
    await expectDone(job('ticks', lake, '--source', 'alpha', '--symbol', bare));
    expect(boxes.alpha.stats().tickRequests).toBeGreaterThan(0);
    const unclear = await job('ticks', lake, '--symbol', bare);
    expect([unclear.code, unclear.summary.error]).toEqual([2, expect.stringContaining(`alpha:${bare}`)]);
    const other = await job('ticks', lake, '--source', 'alpha', '--symbol', `beta:${bare}`);
    expect([other.code, other.summary.error]).toEqual([2, expect.stringContaining('not of the chosen source alpha')]);
  });

  test('backfills each source within its coverage', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    const window = ['--from', '2025-06-10', '--to', '2025-06-12'];
    const planned = await job('backfill', lake, ...window, '--dry-run');
    const plans = planned.stdout.split('\n').flatMap((line) => (line.startsWith('{"plan"') ? [JSON.parse(line)] : []));
    expect(plans.map(({ plan }) => plan.source)).toEqual(['alpha', 'beta']);
    await expectDone(job('backfill', lake, ...window, '--source', 'beta'));
    expect(symbolsOf(lake.output, 'alpha')).toEqual([]);
    expect(symbolsOf(lake.output, 'beta').length).toBeGreaterThan(0);
    expect(findWrongWindows(lake.output, boxes)).toEqual([]);
  });

  test('suspends a symbol at the source that does not know it', async () => {
    const boxes = { alpha: await sandbox({ ...input, nowMs: null }), beta: await sandbox({ ...input, nowMs: null }) };
    const lake = configureBoxes(boxes);
    await expectDone(job('markets', lake));
    const { symbols } = await read<{ symbols: { symbol: string }[] }>('symbols', lake, '--source', 'alpha');
    const bare = unqualifySymbol('alpha', symbols[0]!.symbol);
    boxes.alpha.set({ faultSymbols: { [bare]: 404 } });
    const ended = await job('nightly', lake, '--set', 'source.suspend_after_days=1');
    expect(ended.code, ended.stderr).toBe(4);
    expect(ended.summary.sources!.map((one) => [one.source, one.symbols.suspended])).toEqual([
      ['alpha', 1],
      ['beta', 0],
    ]);
    expect(ended.summary.failures).toContainEqual(expect.objectContaining({ symbol: `alpha:${bare}` }));
    expect(ended.summary.failures.filter(({ symbol }) => symbol?.startsWith('beta:'))).toEqual([]);
    const retried = await run(['symbols', 'retry', ...args('', lake, '--source', 'beta').slice(1)]);
    expect([retried.code, retried.summary.requests]).toEqual([0, 0]);
    const again = await run(['symbols', 'retry', ...args('', lake, '--source', 'alpha').slice(1)]);
    expect([again.code, again.summary.symbols.failed]).toEqual([4, 1]);
  });

  test('polls the order books of its source, whose responses name the symbol as it does', async () => {
    const boxes = { alpha: await sandbox({ ...input, nowMs: null }), beta: await sandbox({ ...input, nowMs: null }) };
    const lake = configureBoxes(boxes);
    await expectDone(job('markets', lake));
    const polled = await expectDone(job('orderbook', lake, '--source', 'beta'));
    expect(polled.summary.orderbooks).toMatchObject({ failed: 0, quarantined: 0 });
    expect(polled.summary.orderbooks.snapshots).toBeGreaterThan(0);
    expect(boxes.alpha.stats().bySymbol).toEqual({});
    const sql = 'SELECT DISTINCT symbol FROM orderbooks';
    const { stdout } = await run(['sql', sql, '--output', lake.output, '--format', 'json']);
    const symbols = (JSON.parse(stdout) as { symbol: string }[]).map(({ symbol }) => symbol);
    expect(symbols.length).toBeGreaterThan(0);
    expect(symbols.every((symbol) => symbol.startsWith('beta:'))).toBe(true);
  });

  test('polls the configured order books of the chosen source alone', async () => {
    const live = { ...input, nowMs: null };
    const boxes = { alpha: await sandbox(live), beta: await sandbox(live) };
    const sources = { alpha: describeBox(boxes.alpha), beta: describeBox(boxes.beta) };
    const plain = configure(sources);
    await expectDone(job('orderbook', plain, '--source', 'beta'));
    const { stdout } = await run([
      'sql',
      'SELECT symbol FROM orderbooks',
      '--output',
      plain.output,
      '--format',
      'json',
    ]);
    const [{ symbol }] = JSON.parse(stdout) as [{ symbol: string }];
    const lake = configure(sources, `orderbooks: {symbols: ["${symbol.replace('beta:', 'alpha:')}", "${symbol}"]}\n`);
    const { summary } = await expectDone(job('orderbook', lake, '--source', 'beta'));
    expect(summary.orderbooks.planned).toBe(1);
    const ofBeta = configure(sources, `orderbooks: {symbols: ["${symbol}"]}\n`);
    const refused = await job('orderbook', ofBeta, '--source', 'alpha');
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('orderbooks.symbols')]);
  });

  test('runs the jobs of a schedule for the chosen sources', async () => {
    const boxes = { alpha: await sandbox({ ...input, nowMs: null }), beta: await sandbox({ ...input, nowMs: null }) };
    const lake = configureBoxes(boxes);
    await expectDone(job('markets', lake));
    withState(lake.output, (db) => db.run('update runs set started_at = started_at - ?', 2 * hourMs));
    const requested = names.map((name) => boxes[name].stats().requests);
    // A run that was missed begins at once; the next one would begin with the next minute.
    const missed = new Date(Date.now() - hourMs);
    const markets = `schedule.markets=${missed.getUTCMinutes()} ${missed.getUTCHours()} * * *`;
    const fast = ['--set', 'schedule.jitter_seconds=0', '--source', 'beta'];
    const running = start(args('schedule', lake, '--set', 'schedule.nightly=null', '--set', markets, ...fast));
    await waitFor(() => boxes.beta.stats().requests > requested[1]!, 'a request to beta');
    running.child.kill('SIGTERM');
    await expectDone(running.ended);
    expect(boxes.alpha.stats().requests).toBe(requested[0]);
  });
});

test('a repair without the key of one source restores the ticks of the other, and says which it could not request', async () => {
  const boxes = await startBoxes();
  const lake = configureBoxes(boxes);
  await expectDone(job('nightly', lake, ...night));
  rmSync(join(lake.output, '.oddslake', 'raw'), { recursive: true });
  const before = totalTicks(lake.output);
  const paths = globSync('ticks/**/*.parquet', { cwd: lake.output });
  for (const path of paths) rmSync(join(lake.output, path));
  const withoutKey = configure({ alpha: describeBox(boxes.alpha), beta: `base_url: "${boxes.beta.url}"` });
  const repair = (config: string): Promise<Ended> => run(args('verify', { output: lake.output, config }, '--repair'));
  const partly = await repair(withoutKey.config);
  expect(partly.code, partly.stderr).toBe(4);
  const reasons = partly.summary.failures.map(({ symbol, reason }) => [findSource(symbol ?? '', names), reason]);
  expect(new Set(reasons.map(([source]) => source))).toEqual(new Set(['beta']));
  expect(reasons[0]![1]).toMatch(
    /^lost: 0 of \d+ ticks? (is|are) left; no key for http.* is set, so none were requested$/,
  );
  expect(findWrongWindows(lake.output, boxes)).toEqual([]);
  expect(symbolsOf(lake.output, 'alpha').length).toBeGreaterThan(0);
  expect(symbolsOf(lake.output, 'beta')).toEqual([]);
  await expectDone(repair(lake.config));
  expect(totalTicks(lake.output)).toBe(before);
  expect(findWrongWindows(lake.output, boxes)).toEqual([]);
});

describe('a source that fails', () => {
  test('does not keep the other from being collected, and is named: exit 4', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    boxes.alpha.set({ key: 'another' });
    const refused = await job('nightly', lake, ...night);
    expect(refused.code, refused.stderr).toBe(4);
    expect(refused.summary.failures[0]).toMatchObject({
      symbol: null,
      reason: expect.stringMatching(
        /^The source alpha rejected the API key .* Check sources\.alpha\.api_key in .*\/config\.yaml:2\.$/,
      ),
    });
    expect(refused.summary.sources!.map(({ exit_code }) => exit_code)).toEqual([3, 0]);
    expect(symbolsOf(lake.output, 'beta').length).toBeGreaterThan(0);
    // For a monitor, the job has failed, although its last run has not.
    const { last_runs: runs } = await read<{ last_runs: { exit_code: number }[] }>('status', lake);
    expect(runs.at(-1)!.exit_code).toBe(4);
    await boxes.alpha.stop();
    const gone = await job('nightly', lake, ...night);
    expect(gone.code).toBe(4);
    expect(gone.summary.failures[0]!.reason).toMatch(/^The source alpha could not be reached/);
    expect(findWrongWindows(lake.output, boxes)).toEqual([]);
  });

  test('and was never listed leaves no day complete', async () => {
    const { alpha } = await startBoxes();
    const lake = configure({
      alpha: describeBox(alpha),
      beta: 'base_url: "http://127.0.0.1:1", api_key: sandbox-key, retry_attempts_max: 1',
    });
    const { code, summary } = await job('nightly', lake, ...night);
    expect(code).toBe(4);
    expect(summary.completeness).toMatchObject({ lists_complete: false, days: { complete: 0, provisional: 0 } });
    const states = Object.values(manifestOf(lake.output).days).map(({ state }) => state);
    expect(new Set(states)).toEqual(new Set(['incomplete']));
    const ofAlpha = await read<{ completeness: object }>('status', lake, '--source', 'alpha');
    expect(ofAlpha.completeness).toMatchObject({ lists_complete: true });
  });
});

describe('the owner of an archive', () => {
  const expectRefused = (ended: Ended, why: RegExp) => {
    expect(ended.code, ended.stderr).toBe(2);
    expect(ended.summary.error).toMatch(why);
  };

  test('is a set of sources: others are refused, and one more is added', async () => {
    const boxes = await startBoxes();
    const lake = configure({ alpha: describeBox(boxes.alpha) });
    await expectDone(job('nightly', lake, ...night));
    const other = { ...configure({ gamma: describeBox(boxes.beta) }), output: lake.output };
    expectRefused(await job('nightly', other), /sources alpha, and the settings have only the sources gamma/);
    const env = { ODDSLAKE_BASE_URL: boxes.alpha.url, ODDSLAKE_API_KEY: 'sandbox-key' };
    expectRefused(await run(jobArgs('nightly', lake.output), env), /has the sources alpha, and the settings have/);
    const both = { ...configureBoxes(boxes), output: lake.output };
    const added = await expectDone(job('nightly', both, ...night));
    expect(added.stderr).toContain('sources were added to the archive');
    expect(manifestOf(lake.output).sources!.map(({ name }) => name)).toEqual(['alpha', 'beta']);
    expect(findWrongWindows(lake.output, boxes)).toEqual([]);
    expectRefused(await job('nightly', lake), /sources alpha, beta, and the settings have only the sources alpha/);
  });

  test('is never one unnamed service and then several sources', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    const env = { ODDSLAKE_BASE_URL: boxes.alpha.url, ODDSLAKE_API_KEY: 'sandbox-key' };
    await expectDone(run(['nightly', '--output', lake.output, ...fastFlags, ...night], env));
    expect(manifestOf(lake.output).upstream).toBe(boxes.alpha.url);
    expectRefused(await job('nightly', lake), /belongs to the upstream .* alone, and its symbols have no source/);
    expectRefused(
      await run(['nightly', '--output', lake.output, ...fastFlags, '--source', 'alpha'], env),
      /one service/,
    );
  });
});

describe('two processes that collect two sources', () => {
  test('have each its own rate, and do not wait for each other', async () => {
    const boxes = await startBoxes();
    const slow = 3;
    const lake = configure({ alpha: describeBox(boxes.alpha, slow), beta: describeBox(boxes.beta) });
    // Without the flag that sets one rate for all.
    const plain = (source: string): string[] => [
      ...['nightly', '--output', lake.output, '--config', lake.config, '--json', '--set', 'report.nightly=false'],
      ...['--source', source, ...night],
    ];
    const ofAlpha = start(plain('alpha'));
    let hasAlphaEnded = false;
    void ofAlpha.ended.then(() => {
      hasAlphaEnded = true;
    });
    await waitFor(() => boxes.alpha.stats().requests > 0, 'a request to alpha');
    await expectDone(start(plain('beta')).ended);
    expect(hasAlphaEnded).toBe(false);
    await expectDone(ofAlpha.ended);
    expect(boxes.alpha.stats().perSecondMax).toBeLessThanOrEqual(slow);
    expect(boxes.beta.stats().perSecondMax).toBeGreaterThan(slow);
    expect(findWrongWindows(lake.output, boxes)).toEqual([]);
    expect(manifestOf(lake.output).sources!.map(({ name }) => name)).toEqual(['alpha', 'beta']);
    for (const name of names) expect(symbolsOf(lake.output, name).length).toBeGreaterThan(0);
  });
});

describe('--source', () => {
  test('selects in status, gaps, symbols and export', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    await expectDone(job('markets', lake));
    await expectDone(job('nightly', lake, '--source', 'alpha', ...night));
    const status = (...flags: string[]) =>
      read<{ symbols: { known: number }; cursors: { symbol: string }[]; watermark: number | null }>(
        'status',
        lake,
        ...flags,
      );
    const [all, alpha, beta] = [await status(), await status('--source', 'alpha'), await status('--source', 'beta')];
    expect(alpha.symbols.known + beta.symbols.known).toBe(all.symbols.known);
    expect(alpha.cursors.every(({ symbol }) => symbol.startsWith('alpha:'))).toBe(true);
    const window = ['--from', '2025-06-13', '--to', fixedDay];
    const gaps = await read<{ gaps: { symbol: string }[] }>('gaps', lake, '--source', 'beta', ...window);
    expect(gaps.gaps.length).toBeGreaterThan(0);
    expect(gaps.gaps.every(({ symbol }) => symbol.startsWith('beta:'))).toBe(true);
    const ofAlpha = await read<typeof gaps>('gaps', lake, '--source', 'alpha', ...window);
    const ofAll = await read<typeof gaps>('gaps', lake, ...window);
    expect(ofAlpha.gaps.length + gaps.gaps.length).toBe(ofAll.gaps.length);
    const out = join(lake.output, '..', 'slice.ndjson');
    const exported = await read<{ rows: number }>('export', lake, '--source', 'alpha', '--out', out);
    expect(exported.rows).toBe(totalTicks(lake.output));
    expect((await read<{ rows: number }>('export', lake, '--source', 'beta', '--out', out)).rows).toBe(0);
    const unknown = await run(['status', '--output', lake.output, '--source', 'gamma']);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('are alpha, beta')]);
  });

  test('names the source of imported files, whose symbols it qualifies unless they are qualified', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    await expectDone(job('nightly', lake, '--source', 'alpha', ...night));
    const before = totalTicks(lake.output);
    const file = join(lake.output, '..', 'rows.csv');
    writeFileSync(file, 'symbol,t,p\nX,1749000000000,0.5\nbeta:X,1749000000001,0.6\nalpha:X,1749000000002,0.7\n');
    const unclear = await job('import', lake, file);
    expect([unclear.code, unclear.summary.error]).toEqual([2, expect.stringContaining('with --source')]);
    await expectDone(job('import', lake, file, '--source', 'beta'));
    expect(totalTicks(lake.output)).toBe(before + 3);
    expect(ticksOf(lake.output).get('beta:X')).toEqual([
      { t: 1749000000000, p: 0.5 },
      { t: 1749000000001, p: 0.6 },
    ]);
    expect(ticksOf(lake.output).get('alpha:X')).toEqual([{ t: 1749000000002, p: 0.7 }]);
    const page = join(lake.output, '..', 'pages', 'page.json');
    mkdirSync(join(page, '..'));
    const ticks = [{ t: 1749000000005, p: 0.25 }];
    writeFileSync(page, JSON.stringify({ symbol: 'PAGE', ticks, from: 1749000000005, to: 1749000000006 }));
    await expectDone(job('import', lake, page, '--source', 'beta'));
    expect(ticksOf(lake.output).get('beta:PAGE')).toEqual(ticks);
  });

  test('selects the paths with which market records are imported', async () => {
    const { alpha } = await startBoxes();
    const lake = configure({ alpha: `${describeBox(alpha)}, symbol_paths: [id]`, beta: describeBox(alpha) });
    const file = join(lake.output, '..', 'markets.ndjson');
    writeFileSync(file, JSON.stringify({ canonical_id: 'M', id: 'TICKER', symbol: 'OTHER', is_active: true }));
    await expectDone(job('import', lake, file, '--dataset', 'markets', '--source', 'alpha'));
    const { symbols } = await read<{ symbols: { symbol: string }[] }>('symbols', lake);
    expect(symbols.map(({ symbol }) => symbol)).toEqual(['alpha:TICKER']);
  });

  test('is not needed for raw responses, which name their source', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    await expectDone(job('nightly', lake, ...night));
    const copy = { ...lake, output: join(lake.output, '..', 'copy') };
    await expectDone(job('import', copy, join(lake.output, '.oddslake/raw')));
    expect(dayRows(copy.output, 'ticks')).toEqual(dayRows(lake.output, 'ticks'));
    expect(findWrongWindows(copy.output, boxes)).toEqual([]);
    expect(readFileSync(join(copy.output, 'README.md'), 'utf8')).toContain('Sources `alpha`');
  });

  test('selects the sources that doctor checks', async () => {
    const boxes = await startBoxes();
    const lake = configureBoxes(boxes);
    await expectDone(job('nightly', lake, ...night));
    boxes.beta.set({ key: 'another' });
    const { code, stdout } = await run(['doctor', '--json', '--output', lake.output, '--config', lake.config]);
    const { findings } = JSON.parse(stdout) as {
      findings: { check: string; message: string; action: string | null }[];
    };
    const keys = findings.filter(({ check }) => check === 'key');
    expect(keys.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^alpha: accepted/),
      expect.stringMatching(/^beta: the service rejected it/),
    ]);
    expect(keys[1]!.action).toMatch(/^Check sources\.beta\.api_key in .*\/config\.yaml:3\. /);
    expect(code).toBe(3);
    const alone = await run(['doctor', '--output', lake.output, '--config', lake.config, '--source', 'alpha']);
    expect(alone.stdout).not.toContain('beta: the service');
  });
});
