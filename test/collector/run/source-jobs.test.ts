import { expect, test } from 'vitest';
import { readRecheckHistory } from '../../../src/archive/journal/nightly-memory.ts';
import { computeLatenessMs } from '../../../src/archive/journal/recheck-results.ts';
import { readLastEndedRuns, startRun } from '../../../src/archive/journal/runs.ts';
import { systemClock } from '../../../src/base/system.ts';
import { runJob } from '../../../src/collector/job.ts';
import { listLastRunRecords } from '../../../src/collector/run/last-runs.ts';
import { publishJournal } from '../../../src/collector/steps/publish-step.ts';
import { type Context, InterruptedError } from '../../../src/context/context.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { answer, append, opened, scratchFolder } from '../../archive/scratch.ts';
import { createContext } from '../../harness/job-context.ts';

async function contextOf(signal: AbortSignal): Promise<Context> {
  const output = scratchFolder();
  const address = (name: string) => [`sources.${name}.base_url=https://${name}.test`, `sources.${name}.api_key=key`];
  const settings = await loadSettings({
    env: {},
    cwd: output,
    output,
    set: [...address('alpha'), ...address('beta'), 'report.nightly=false'],
  });
  let draws = 0;
  return createContext({ settings, clock: systemClock, signal, canCreateArchive: true, random: () => ++draws / 100 });
}

test('a signal between the runs of two sources interrupts the job', async () => {
  const stop = new AbortController();
  const context = await contextOf(stop.signal);
  const collected: (string | null)[] = [];
  const summary = await runJob(context, 'nightly', { usesUpstream: true }, async ({ source }) => {
    collected.push(source);
    stop.abort(new InterruptedError('SIGTERM'));
  });
  expect(collected).toEqual(['alpha']);
  expect([summary.exit_code, summary.outcome]).toEqual([143, 'interrupted']);
  expect(summary.sources!.map(({ source, exit_code }) => [source, exit_code])).toEqual([
    ['alpha', 0],
    ['beta', 143],
  ]);
});

test('a source that is forgotten while its first run starts is recorded again', async () => {
  const context = await contextOf(new AbortController().signal);
  const sources = [{ name: 'alpha', upstream: 'https://alpha.test' }];
  const { output: root } = context.settings.archive;
  // It is called after the archive was opened and before the run is recorded.
  const random = (): number => {
    opened({ root, upstream: null, sources }).close();
    return 0.5;
  };
  const summary = await runJob(
    { ...context, sources: ['beta'], random },
    'nightly',
    { usesUpstream: true },
    async (run) =>
      expect(run.archive.state.identity.sources).toEqual([...sources, { name: 'beta', upstream: 'https://beta.test' }]),
  );
  expect(summary.error).toBeNull();
});

test('late ticks that a publish merges for another source are measured for that source', async () => {
  const nowMs = Date.now();
  const context = { ...(await contextOf(new AbortController().signal)), sources: ['alpha'] };
  const windows = [{ from: nowMs - 100_000, to: nowMs }];
  const [early, late] = [[nowMs - 90_000, 0.1] as const, [nowMs - 60_000, 0.2] as const];
  const summary = await runJob(context, 'ticks', { usesUpstream: true }, async (run) => {
    const { archive } = run;
    const { db } = archive.state;
    run.nightCounters.lateRules = {
      fetchedBeforeMs: run.context.clock.nowMs(),
      latenessMsMax: 3_600_000,
      source: 'alpha',
    };
    startRun(db, '1', 'nightly', process.pid, nowMs - 200, undefined, 'beta');
    append(archive, answer('beta:X', [early], { runId: '1', windows, observedAt: nowMs - 100 }));
    await publishJournal(run);
    // Beta finds it again, and one that was missing.
    startRun(db, '2', 'nightly', process.pid, nowMs - 50, undefined, 'beta');
    append(archive, answer('beta:X', [early, late], { runId: '2', windows, observedAt: nowMs - 10 }));
    await publishJournal(run);
    const measured = ['alpha', 'beta'].map((source) => computeLatenessMs(readRecheckHistory(db, source)));
    expect(measured).toEqual([0, 59_900]);
  });
  expect(summary.error).toBeNull();
});

test.each([0, 1])(
  'a job shows no success while it collects another source, and then its own exit code',
  async (fails) => {
    const context = await contextOf(new AbortController().signal);
    const lastRuns: unknown[] = [];
    const summary = await runJob(context, 'nightly', { usesUpstream: true }, async ({ source, archive }) => {
      if (source === 'alpha') return;
      // What a process that is killed now leaves.
      lastRuns.push(...readLastEndedRuns(archive.state.db, Number.MAX_SAFE_INTEGER));
      if (fails === 1) throw new Error('no disk');
    });
    expect(summary.exit_code).toBe(fails);
    expect(lastRuns).toEqual([]);
    const archive = openConfiguredArchive(context, false);
    const [run] = listLastRunRecords(archive.state.db, context.clock.nowMs());
    archive.close();
    expect([run!.run.exit_code, run!.succeededAt === null]).toEqual([fails, fails === 1]);
  },
);
