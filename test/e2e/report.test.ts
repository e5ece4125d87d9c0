import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { job as nightlyJob } from '../../jobs/nightly.ts';
import { createDisk, systemCalls } from '../../src/archive/disk/file-system.ts';
import { recordOwed } from '../../src/archive/journal/gap-records.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import type { Context } from '../../src/context/context.ts';
import type { Finding, Verdict } from '../../src/contract/finding.ts';
import { writeReport } from '../../src/report/write-report.ts';
import { answer, append, day0, hourMs, market, opened, publishNow } from '../archive/scratch.ts';
import { contextOf } from '../collector/run/one-process.ts';
import { expectDone, fixedNow, folder, manifestOf, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

// At noon, whenever the tests run: in the first hour of a day the day before has not settled, and counts as incomplete.
beforeEach(() => startClockAt(Date.UTC(2026, 10, 24, 12)));

/** The clock of this process, which the program and the sandbox read, starts there and goes on. */
function startClockAt(nowMs: number): void {
  const real = Date.now.bind(Date);
  const shiftMs = nowMs - real();
  const spy = vi.spyOn(Date, 'now').mockImplementation(() => real() + shiftMs);
  onTestFinished(() => spy.mockRestore());
}

interface ReportOutput {
  readonly path: string;
  readonly bytes: number;
  readonly generation: number;
  readonly verdict: Verdict;
  readonly findings: readonly Finding[];
}

const report = async (output: string, ...flags: string[]) => {
  const { code, stdout, stderr } = await run(['report', '--output', output, '--json', ...flags]);
  return { code, stderr, reported: (code === 0 ? JSON.parse(stdout) : null) as ReportOutput };
};

async function lake() {
  const output = folder();
  const box = await sandbox({ seed: 3 });
  await expectDone(job('nightly', box.url, output, '--set', 'source.first_lookback_days=2'));
  return { output, box };
}

test('report writes its page into the archive and changes nothing else', async () => {
  const { output } = await lake();
  const { code, reported } = await report(output);
  const path = join(output, 'report.html');
  expect([code, reported]).toMatchObject([0, { path, generation: 1, verdict: { state: 'ok', command: null } }]);
  const text = readFileSync(path, 'utf8');
  expect(Buffer.byteLength(text)).toBe(reported.bytes);
  expect(text).toMatch(/^<!doctype html>[\s\S]*<\/span>OK[\s\S]*<\/html>\n$/);
  expect(readdirSync(output).filter((name) => name.startsWith('.'))).toEqual(['.oddslake']);
  await expectDone(run(['verify', '--output', output]));
  expect(readFileSync(join(output, 'SHA256SUMS'), 'utf8')).not.toContain('report');
  const copy = join(folder(), 'copy');
  await expectDone(run(['snapshot', copy, '--output', output]));
  expect(existsSync(join(copy, 'report.html'))).toBe(false);
  // Again: it is replaced.
  writeFileSync(path, 'old');
  const { stdout } = await run(['report', '--output', output]);
  expect(stdout).toMatch(new RegExp(`^OK: collected to .*\n${path}: \\d+\\.\\d kB, generation 1\n$`));
  expect(readFileSync(path, 'utf8')).toContain('</html>');
});

test('report in the first hour of a day: the day before is provisional, which needs nothing', async () => {
  vi.mocked(Date.now).mockRestore();
  startClockAt(Date.UTC(2026, 10, 24, 0, 30));
  const { output } = await lake();
  const { findings } = (await report(output)).reported;
  expect(findings).toContainEqual(expect.objectContaining({ severity: 'info', kind: 'provisional' }));
  expect(findings.map(({ kind }) => kind)).not.toContain('incomplete days');
});

test('escapes control characters of the service in report, status and plan', async () => {
  const root = folder();
  const archive = opened({ root });
  const symbol = 'a\u001b[2J';
  recordMarkets(archive.state.db, [market(symbol)], day0, true);
  append(archive, answer(symbol, [[day0, 0.5]], { windows: [{ from: day0, to: day0 + hourMs }] }));
  await publishNow(archive, day0 + hourMs);
  const failures = [{ kind: 'failed', from: day0 + hourMs, to: day0 + 2 * hourMs, reason: 'HTTP 500' }] as const;
  recordOwed(archive.state.db, [{ symbol, covered: [], failures }], day0);
  archive.close();
  const requested = ['--from', '2026-06-01', '--to', '2026-06-03', '--dry-run', '--all-known', '--symbol', symbol];
  const access = ['--set', 'upstream.base_url=https://box.test', '--set', 'source.name=https://box.test'];
  for (const args of [['report'], ['status'], ['backfill', ...requested, ...access]]) {
    const { stdout } = await run([...args, '--output', root], { ODDSLAKE_API_KEY: 'k' });
    expect(stdout, args[0]).toContain('a\\u001b[2J');
    expect(stdout, args[0]).not.toContain('\u001b');
  }
});

test('report --out writes to another path, but not into a dataset', async () => {
  const { output } = await lake();
  const place = folder();
  const out = join(place, 'page.html');
  expect((await report(output, '--out', out)).reported).toMatchObject({ path: out });
  expect([readdirSync(place), existsSync(join(output, 'report.html'))]).toEqual([['page.html'], false]);
  for (const inside of ['ticks/report.html', 'manifest.json', '.oddslake/report.html'])
    expect((await report(output, '--out', join(output, inside))).code, inside).toBe(2);
  const inNewFolder = join(place, 'new', 'page.html');
  expect((await report(output, '--out', inNewFolder)).reported).toMatchObject({ path: inNewFolder });
  expect((await report(output, '--out', join(output, 'report.html'))).reported.path).toBe(join(output, 'report.html'));
  rmSync(join(output, 'report.html'));
  mkdirSync(join(output, 'report.html'));
  expect(await report(output)).toMatchObject({ code: 2, stderr: expect.stringMatching(/--out FILE/) });
});

test('report of a read-only archive suggests --out', async () => {
  const { output, box } = await lake();
  const refusing = createDisk({
    ...systemCalls,
    create(path) {
      if (path.startsWith(join(output, '.report.html')))
        throw Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' });
      return systemCalls.create(path);
    },
  });
  const context: Context = { ...(await contextOf(output, box.url, Date.now)), disk: refusing };
  const archive = opened({ root: output, disk: refusing, upstream: null });
  await expect(writeReport(archive, context, null)).rejects.toThrow(
    `No permission to write ${join(output, 'report.html')}: the archive ${output} is read-only. Choose another path with --out FILE.`,
  );
  const out = join(folder(), 'page.html');
  expect(await writeReport(archive, context, out)).toMatchObject({ path: out });
});

test('report.nightly: a nightly writes the report at its end, whatever the outcome', async () => {
  const output = folder();
  const box = await sandbox({ seed: 3, nowMs: fixedNow });
  const night = (...set: string[]) => contextOf(output, box.url, () => fixedNow, set);
  const page = join(output, 'report.html');
  expect((await nightlyJob.run(await night(), { day: null })).exit_code).toBe(0);
  expect(existsSync(page)).toBe(false);
  box.set({ forbidden: true });
  expect((await nightlyJob.run(await night('report.nightly=true'), { day: null })).exit_code).toBe(3);
  const text = readFileSync(page, 'utf8');
  expect(text).toContain('✕ key rejected');
  expect(text).toContain('Check ODDSLAKE_API_KEY');
});

test('report.nightly: a report that cannot be written is only a warning', async () => {
  const output = folder();
  const box = await sandbox({ seed: 3, nowMs: fixedNow });
  const warned: string[] = [];
  const context = await contextOf(output, box.url, () => fixedNow, ['report.nightly=true']);
  const log = { ...context.log, warn: (_: object, text: string) => void warned.push(text) };
  await nightlyJob.run(context, { day: null });
  rmSync(join(output, 'report.html'));
  mkdirSync(join(output, 'report.html'));
  chmodSync(join(output, 'report.html'), 0o555);
  const summary = await nightlyJob.run({ ...context, log }, { day: null });
  expect([summary.exit_code, warned]).toEqual([0, ['the report failed; the outcome of the run is unchanged']]);
});

test('report.days limits the days shown', async () => {
  const { output } = await lake();
  const text = async (days: number) => {
    await run(['report', '--output', output, '--set', `report.days=${days}`]);
    return readFileSync(join(output, 'report.html'), 'utf8');
  };
  const rows = (of: string) =>
    of.match(/<tr class=""><td class="left" data-label="Day">\d{4}-\d\d-\d\d<\/td>/g)!.length;
  expect(rows(await text(60))).toBe(Object.keys(manifestOf(output).days).length);
  expect(rows(await text(2))).toBe(2);
});

test('report.catalogue_url is linked from the report', async () => {
  const output = opened().layout.root;
  const page = join(output, 'report.html');
  const set = (url: string) => ['--set', `report.catalogue_url=${url}`];
  await report(output);
  expect(readFileSync(page, 'utf8')).not.toContain('<a ');
  await report(output, ...set('https://lake.test/?a=1&b="2"'));
  expect(readFileSync(page, 'utf8')).toContain(
    'href="https://lake.test/?a=1&amp;b=%222%22" rel="noreferrer">Open the catalogue</a>',
  );
  // Without the setting: the address of serve, as far as it is known.
  const serve = (...pairs: string[]) => pairs.flatMap((pair) => ['--set', `service.${pair}`]);
  for (const [flags, link] of [
    [serve('port=8123'), 'http://127.0.0.1:8123/'],
    [serve('port=8123', 'host=::1'), 'http://[::1]:8123/'],
    [serve('port=8123', 'host=0.0.0.0'), null],
    [serve('host=lake.test'), null],
  ] as const) {
    await report(output, ...flags);
    const text = readFileSync(page, 'utf8');
    expect(/href="([^"]*)"[^>]*>Open the catalogue/.exec(text)?.[1] ?? null).toBe(link);
  }
  // Neither a script nor a path.
  for (const url of ['javascript:alert(1)', 'lake.test', '/catalogue'])
    expect(await report(output, ...set(url)), url).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('report.catalogue_url'),
    });
});
