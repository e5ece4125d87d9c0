import { describe, expect, test } from 'vitest';
import type { PublishedFile } from '../../../src/archive/format/manifest.ts';
import { DamageError, exitCodes, OddslakeError, UpstreamError, UsageError } from '../../../src/base/errors.ts';
import { type EndedRun, mergeRunFacts, planSourceRuns } from '../../../src/collector/run/source-runs.ts';
import { emptyBookCounts, type RunFacts, summarize } from '../../../src/collector/run/summary.ts';
import { type Context, InterruptedError } from '../../../src/context/context.ts';
import { loadSettings } from '../../../src/settings/load.ts';

const upstream = (failure: 'credential' | 'unreachable' | 'transient') =>
  new UpstreamError('ticks', { failure, reason: 'because' });

const ended = (source: string, rest: Partial<RunFacts> = {}): EndedRun => {
  const facts: RunFacts = {
    version: '0',
    job: 'nightly',
    run_id: `run of ${source}`,
    started_at: 1,
    finished_at: 2,
    requests: 3,
    retries: 1,
    throttled_ms: 0,
    pages: 2,
    recovered: 1,
    generation: 1,
    watermark: null,
    gaps: 0,
    warnings: [],
    failures: [],
    ticks: { fetched: 10, accepted: 4, duplicates: 3, conflicts: 2, quarantined: 1 },
    symbols: { planned: 2, done: 1, failed: 1, suspended: 0 },
    orderbooks: emptyBookCounts,
    files: [],
    strict: false,
    hasUpstreamResponded: rest.thrown === undefined,
    source,
    thrown: undefined,
    ...rest,
  };
  return { source, facts, summary: summarize(facts) };
};

const merge = (...runs: EndedRun[]) => summarize(mergeRunFacts(runs));

describe('the summary of several runs', () => {
  test('adds up their counts, and names their sources', () => {
    const summary = merge(ended('alpha', { markets: 3 }), ended('beta', { markets: 4, generation: 2 }));
    expect(summary).toMatchObject({
      run_id: 'run of beta',
      exit_code: 0,
      requests: 6,
      pages: 4,
      recovered: 2,
      markets: 7,
      generation: 2,
      ticks: { fetched: 20, accepted: 8, duplicates: 6, conflicts: 4, quarantined: 2 },
      symbols: { planned: 4, done: 2, failed: 2 },
    });
    expect(summary.sources!.map(({ source, run_id }) => [source, run_id])).toEqual([
      ['alpha', 'run of alpha'],
      ['beta', 'run of beta'],
    ]);
    expect(summary).not.toHaveProperty('quotes');
  });

  test('counts a file once that two runs published', () => {
    const file = (path: string, rows: number) => ({ path, rows, bytes: rows, date: null }) as PublishedFile;
    const { published } = merge(
      ended('alpha', { files: [file('a', 1), file('b', 2)], publishedTicks: { added: 3, lost: 0 } }),
      ended('beta', { files: [file('b', 5)], publishedTicks: { added: 3, lost: 1 } }),
    );
    expect(published).toMatchObject({ files: 2, rows: 6, added: 6, lost: 1 });
  });

  test('names the source in warnings, and in failures that name no symbol', () => {
    const failures = [
      { symbol: null, from: null, to: null, reason: 'markets: cut off' },
      { symbol: 'beta:X', from: 1, to: 2, reason: 'HTTP 500' },
    ];
    const summary = merge(ended('alpha', { warnings: ['so'] }), ended('beta', { failures }));
    expect(summary.warnings).toEqual(['alpha: so']);
    expect(summary.failures.map(({ reason }) => reason)).toEqual(['beta: markets: cut off', 'HTTP 500']);
    expect(summary.gaps).toBe(1);
    expect(merge(ended('alpha', { warnings: ['so'] })).warnings).toEqual(['so']);
  });
});

describe('the exit code of several runs', () => {
  const thrown = (error: unknown): Partial<RunFacts> => ({ thrown: error });
  const damage = { path: 'ticks/a', kind: 'missing', foundAt: 0, runId: 'run' } as const;
  test.each<[string, Partial<RunFacts>, Partial<RunFacts>, number]>([
    ['all done', {}, {}, 0],
    ['one incomplete', {}, { failures: [{ symbol: 'beta:A', from: 1, to: 2, reason: 'no' }] }, 4],
    ['one refused', thrown(upstream('credential')), {}, 4],
    ['one unreachable', {}, thrown(upstream('unreachable')), 4],
    ['all refused', thrown(upstream('credential')), thrown(upstream('credential')), 3],
    ['all unreachable', thrown(upstream('unreachable')), thrown(upstream('unreachable')), 7],
    ['unreachable and refused', thrown(upstream('unreachable')), thrown(upstream('credential')), 3],
    ['one refused, and damage', { ...thrown(upstream('credential')), damage: [damage] }, { damage: [damage] }, 6],
    ['damage found by one', thrown(new DamageError('bad')), {}, 6],
    ['a bug and a refused key', thrown(new TypeError('x')), thrown(upstream('credential')), 1],
    ['a busy archive', {}, thrown(new OddslakeError(exitCodes.busy, 'busy')), 5],
    ['settings that no run can use', thrown(new UsageError('no')), thrown(new UsageError('no')), 2],
    ['settings that one run cannot use', thrown(new UsageError('no')), {}, 4],
    ['an interruption', {}, thrown(new InterruptedError('SIGTERM')), 143],
    ['all failing', thrown(upstream('transient')), thrown(upstream('transient')), 4],
  ])('%s', (_, alpha, beta, code) => {
    expect(merge(ended('alpha', alpha), ended('beta', beta)).exit_code).toBe(code);
  });

  test('is explained by the failure of the source, first of all', () => {
    const failures = [{ symbol: 'alpha:A', from: 1, to: 2, reason: 'no' }];
    const summary = merge(ended('alpha', { failures }), ended('beta', { thrown: upstream('credential') }));
    expect(summary.failures[0]!.reason).toBe(
      'The source beta rejected the API key (because). Check ODDSLAKE_API_KEY_BETA or ODDSLAKE_API_KEY_FILE_BETA.',
    );
    const unusable = merge(ended('alpha', {}), ended('beta', { thrown: new UsageError('Not so.') }));
    expect(unusable.failures[0]!.reason).toBe('beta: Not so.');
    expect(summary.error).toBeNull();
    const alone = merge(ended('beta', { thrown: upstream('credential') }));
    expect([alone.exit_code, alone.failures, alone.error]).toEqual([3, [], expect.stringContaining('source beta')]);
  });
});

describe('the plan of a job', () => {
  const sources = ['alpha', 'beta'].flatMap((name) => [
    `sources.${name}.base_url=https://${name}.test`,
    `sources.${name}.api_key=key`,
  ]);
  const context = async (chosen: readonly string[] = [], set: readonly string[] = sources) =>
    ({ settings: await loadSettings({ env: {}, cwd: '/', set }), sources: chosen }) as unknown as Context;
  const plan = async (chosen: readonly string[], symbols: readonly string[]) =>
    planSourceRuns(await context(chosen), symbols, true).map((run) => [run.source, run.symbols]);

  test('has a run for each source, or for the chosen ones', async () => {
    expect(await plan([], [])).toEqual([
      ['alpha', []],
      ['beta', []],
    ]);
    expect(await plan(['beta'], [])).toEqual([['beta', []]]);
    const [run] = planSourceRuns(await context(['beta']), [], true);
    expect(run!.context.settings).toMatchObject({ sourceName: 'beta', upstream: { baseUrl: 'https://beta.test' } });
  });

  test('has runs for the sources of named symbols only', async () => {
    expect(await plan([], ['beta:X', 'beta:a:b'])).toEqual([['beta', ['beta:X', 'beta:a:b']]]);
    expect(await plan(['alpha'], ['X', 'alpha:Y'])).toEqual([['alpha', ['alpha:X', 'alpha:Y']]]);
    await expect(plan([], ['X'])).rejects.toThrow('--symbol X: name its source too, e.g. alpha:X');
    await expect(plan(['alpha'], ['beta:X'])).rejects.toThrow('--symbol beta:X is not of the chosen source alpha');
  });

  test('is one run without sources, whose symbols stay as they are', async () => {
    const one = await context([], ['upstream.base_url=https://one.test', 'upstream.api_key=key']);
    expect(planSourceRuns(one, ['alpha:X'], true)).toEqual([{ context: one, source: null, symbols: ['alpha:X'] }]);
    expect(() => planSourceRuns({ ...one, sources: ['alpha'] }, [], true)).toThrow('there is one service only');
  });

  test('is refused before anything starts if a source has no key', async () => {
    const set = [...sources.slice(0, 3)];
    const withoutKey = await context([], set);
    expect(() => planSourceRuns(withoutKey, [], true)).toThrow(/No key for https:\/\/beta\.test/);
    expect(planSourceRuns(withoutKey, [], false)).toHaveLength(2);
    expect(planSourceRuns({ ...withoutKey, sources: ['alpha'] }, [], true)).toHaveLength(1);
  });
});
