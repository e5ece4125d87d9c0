import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import type { Judgement } from '../../src/archive/read/judge.ts';
import { systemClock } from '../../src/base/system.ts';
import { formatDay } from '../../src/base/time.ts';
import { toOpenJudgement } from '../../src/contract/finding.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { waitFor } from '../harness/limits.ts';
import { serving } from '../server/serving.ts';
import { put } from './import-lake.ts';
import { access, dayMs, folder, sandbox, set, start, type Variables } from './lake.ts';
import { receiver } from './receiver.ts';
import { run } from './run-program.ts';

// One state of an archive after another: every place that tells its state gives the same verdict, and the command that it
// prints can be pasted and run.

interface State {
  readonly output: string;
  readonly box: Sandbox;
  readonly env: Variables;
  /** Of all its jobs. */
  readonly flags: readonly string[];
  /** What the webhook received. */
  readonly told: readonly { readonly body: { readonly text: string } }[];
  /** Runs a job on the archive. */
  job(...words: readonly string[]): Promise<string>;
}

const fast = set(
  'upstream.requests_per_second=2000',
  'upstream.retry_attempts_max=1',
  'source.name=box',
  'notify.when=always',
  'notify.ping_jobs=[]',
);

/** A gap since a market opened, which may be weeks ago, is no lag. */
const patience = set('service.lag_seconds_max=31536000');

/** Where nobody knows when a market opened, its first poll is short. */
const brief = [...fast, ...set('source.field_paths.opens_at=none/such')];

async function createState(flags = brief): Promise<State> {
  const [box, output, { url, reported }] = [
    await sandbox({ markets: 4, ticksPerDay: 20, seed: 3, lifetimeDaysMax: 90 }),
    folder(),
    await receiver(),
  ];
  const env = { ...access(box.url), ODDSLAKE_WEBHOOK_URL: url };
  const job = async (...words: readonly string[]): Promise<string> =>
    (await run([...words, '--output', output, ...flags], env)).stdout;
  return { output, box, env, flags, job, told: reported };
}

/** The verdict and the command of a text on a terminal. */
function parsePrinted(text: string): { readonly verdict: string; readonly command: string | null } {
  const [verdict = '', next = ''] = text.split('\n');
  return { verdict, command: /^next: (.*)$/.exec(next)?.[1] ?? null };
}

/** Runs a printed command as a shell would. */
async function paste(command: string, { env, flags }: State): Promise<number | null> {
  const [, ...words] = execFileSync('sh', ['-c', `printf '%s\\0' ${command}`])
    .toString()
    .split('\0')
    .slice(0, -1);
  return (await run([...words, ...flags], env)).code;
}

/** The active symbols of an archive, those with most ticks first. */
async function listActive(output: string, env: Variables): Promise<string[]> {
  const sql = 'SELECT symbol FROM symbols WHERE is_active ORDER BY ticks DESC, symbol';
  return (await run(['sql', sql, '--format', 'csv', '--output', output], env)).stdout.trim().split('\n').slice(1);
}

async function failOneSymbol(state: State, status: 404 | 500): Promise<string> {
  await state.job('nightly');
  const [symbol] = await listActive(state.output, state.env);
  state.box.set({ faultSymbols: { [symbol!]: status } });
  return symbol!;
}

/** Damages a published file. @param bytesKept its length; by default it keeps its size, and one bit flips */
async function damage({ output, job }: State, bytesKept?: number): Promise<void> {
  await job('nightly');
  const path = join(output, globSync('ticks/date=*/*.parquet', { cwd: output }).sort().at(-1)!);
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(path, bytes.subarray(0, bytesKept));
}

const days = ['--from', '3d', '--to', 'now'] as const;

/** The last night was four days ago: it collected to the end of its day. @param isStopped whether no job has run since */
async function collectLongAgo({ job, output }: State, isStopped: boolean): Promise<null> {
  await job('nightly', '--date', formatDay(Date.now() - 5 * dayMs));
  if (isStopped)
    changeState(output, `update runs set started_at = started_at - ?1, finished_at = finished_at - ?1`, 4 * dayMs);
  return null;
}

function changeState(output: string, sql: string, ...values: readonly number[]): void {
  const db = new DatabaseSync(join(output, '.oddslake/state.sqlite'));
  expect(db.prepare(sql).run(...values).changes).toBeGreaterThan(0);
  db.close();
}

/** A symbol that was active ten days ago and is no more. The clock of the service is left at that time. */
async function findEndedSymbol({ box, env }: State): Promise<string> {
  const listAt = async (nowMs: number): Promise<string[]> => {
    box.set({ nowMs });
    const output = folder();
    await run(['markets', '--output', output, ...fast], env);
    return listActive(output, env);
  };
  const now = await listAt(Date.now());
  return (await listAt(Date.now() - 10 * dayMs)).find((symbol) => !now.includes(symbol))!;
}

const mount = (...args: readonly string[]) => execFileSync('mount', args, { stdio: 'pipe' });
const unmount = (at: string) => void execFileSync('umount', ['-l', at]);

/** A night on a disk that has become too small for its journal: it cannot record its own end. */
async function fillDisk({ output, job, told }: State): Promise<null> {
  mount('-t', 'tmpfs', '-o', 'size=400m', 'oddslake-test', output);
  onTestFinished(() => unmount(output));
  await job('nightly');
  const { blocks, bavail, bsize } = statfsSync(output);
  mount('-o', `remount,size=${(blocks - bavail) * bsize + 100_000}`, output);
  expect(await job('nightly', '--set', 'report.nightly=false')).toBe('');
  expect(told.at(-1)!.body.text).toMatch(/\(exit 1\): The disk is full: .*; next: /);
  return null;
}

/** A night that finds another run publishing. Returns its output. */
async function collectUnpublished({ job, output }: State): Promise<string> {
  const lock = await takeWriteLock(join(output, '.oddslake', 'lock.sqlite'), 0, systemClock);
  const printed = await job('nightly', '--wait', '0');
  lock.release();
  return printed;
}

/** How a state comes about: returns the output of the job that found it; null if no job did. */
type Prepare = (state: State) => Promise<string | null>;

type Row = readonly [prepare: Prepare, verdict: RegExp, mark: string, codes: readonly number[]];

/** Verdict, its state, and the exit codes with which its command may end; none if there is no command. */
const states: Readonly<Record<string, Row>> = {
  'first night': [({ job }) => job('nightly'), /^OK: collected to .*, [\d,]+ new ticks$/, 'ok', []],
  well: [
    async ({ job }) => {
      await job('nightly');
      return job('nightly');
    },
    /^OK: collected to .*, \d+ new ticks?$/,
    'ok',
    [],
  ],
  'one symbol failing': [
    async (state) => {
      await failOneSymbol(state, 500);
      return state.job('backfill', '--force', ...days);
    },
    /^1 symbol failed since \d{4}-\d\d-\d\d \d\d:\d\d UTC: /,
    'warning',
    [4],
  ],
  'accepted gaps': [
    async (state) => {
      const symbol = await failOneSymbol(state, 500);
      await state.job('backfill', '--force', ...days);
      await state.job('gaps', 'accept', symbol, ...days, '--reason', 'maintenance');
      state.box.set({ faultSymbols: {} });
      return state.job('nightly');
    },
    /^OK: collected to /,
    'ok',
    [],
  ],
  'symbol suspended': [
    async (state) => {
      await failOneSymbol(state, 404);
      await state.job('nightly', '--set', 'source.suspend_after_days=1');
      return state.job('nightly', '--set', 'source.suspend_after_days=1');
    },
    /suspended/,
    'warning',
    [0, 4],
  ],
  'service down': [
    async ({ job }) => {
      await job('nightly');
      return job('nightly', '--set', 'upstream.base_url=http://127.0.0.1:9');
    },
    /could not be reached/,
    'action_required',
    [7],
  ],
  'key refused': [
    async ({ job, box }) => {
      await job('nightly');
      box.set({ forbidden: true });
      return job('nightly');
    },
    /rejected the API key/,
    'action_required',
    [3],
  ],
  damage: [
    async (state) => {
      await damage(state);
      await state.job('verify');
      return null;
    },
    /^1 file damaged: ticks\//,
    'action_required',
    [0, 4],
  ],
  'damage that a night finds': [
    async (state) => {
      await damage(state, 100);
      return state.job('nightly');
    },
    /^1 file damaged: ticks\//,
    'action_required',
    [0, 4],
  ],
  lag: [
    (state) => collectLongAgo(state, false),
    /^Jobs run, but some live symbols have no data since /,
    'warning',
    [0],
  ],
  'standing still': [(state) => collectLongAgo(state, true), /^Nothing was collected since /, 'action_required', [0]],
  'lists only': [({ job }) => job('markets'), /^Nothing is covered yet for \d+ live symbols?$/, 'ok', [0]],
  'ended markets': [
    async (state) => {
      const { job, box } = state;
      const flags = set(`source.include=["symbol:${await findEndedSymbol(state)}"]`, 'source.linger_days=0');
      expect(await job('nightly', ...flags)).toMatch(/ticks +\d+ new/);
      box.set({ nowMs: null });
      return job('nightly', ...flags);
    },
    /^OK: [\d,]+ ticks?, no live symbols/,
    'ok',
    [],
  ],
  'full disk': [fillDisk, /^The disk is full: /, 'action_required', []],
  'damaged journal': [
    async (state) => {
      await state.job('markets');
      await collectUnpublished(state);
      changeState(
        state.output,
        'update journal_ticks set checksum = checksum + 1 where id = (select min(id) from journal_ticks)',
      );
      return state.job('publish');
    },
    // The damaged rows are quarantined, and fetched again.
    /^1 gap, most recently on /,
    'warning',
    [0],
  ],
  'short lists': [
    async ({ job, box }) => {
      await job('nightly');
      box.set({ marketsCap: 1 });
      return job('nightly');
    },
    /the list is truncated/,
    'warning',
    [4],
  ],
  empty: [
    async ({ output }) => {
      openArchive({ ...openOptions(output), create: true, upstream: 'box' }, systemDisk).close();
      return null;
    },
    /^Nothing has been collected yet$/,
    'ok',
    [0],
  ],
  'import only': [
    ({ job }) => job('import', put(folder(), 'a.csv', 'symbol,t,p\nA,2025-06-11T00:00:00Z,0.5\n')),
    /^OK: 1 tick, no live symbols/,
    'ok',
    [],
  ],
  'bucket behind': [
    ({ job }) => job('nightly', '--set', 'bucket.url=s3://nowhere/x'),
    /was not pushed to s3:/,
    'warning',
    [2, 4],
  ],
  'two runs at once': [
    async (state) => {
      await state.job('nightly');
      return collectUnpublished(state);
    },
    /^Another run is still writing this archive/,
    'warning',
    [0],
  ],
  'killed run': [
    async ({ job, output, env, box }) => {
      await job('nightly');
      box.set({ latencyMs: 60_000 });
      const { child, ended } = start(['nightly', '--output', output, ...fast], env);
      await waitFor(() => countRuns(output) === 2, 'the start of the run');
      child.kill('SIGKILL');
      await ended;
      box.set({ latencyMs: 0 });
      return null;
    },
    /^The nightly of .* was interrupted/,
    'warning',
    [0],
  ],
};

const openOptions = (root: string) => ({ root, create: false, upstream: null, parts: 2, writer: 'test' });

function countRuns(output: string): number {
  const db = new DatabaseSync(join(output, '.oddslake/state.sqlite'), { readOnly: true });
  try {
    return Number(db.prepare('select count(*) as n from runs').get()!.n);
  } finally {
    db.close();
  }
}

const unescapeHtml = (text: string | undefined): string | null =>
  text
    ?.replaceAll(/<[^>]*>/g, '')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&amp;', '&') ?? null;

/** What every place says of an archive. Webhooks and the terminal say it at the end of a job. */
async function readPlaces({ output, env }: State, flags: readonly string[] = []) {
  const status = parsePrinted((await run(['status', '--output', output, ...flags], env)).stdout);
  const judged = JSON.parse((await run(['status', '--json', '--output', output, ...flags], env)).stdout) as Judgement;
  const page = join(folder(), 'report.html');
  await run(['report', '--out', page, '--output', output, ...flags], env);
  const report = readFileSync(page, 'utf8');
  const archive = openArchive(openOptions(output), systemDisk);
  const set = flags[0] === '--set' ? flags.slice(1) : [];
  const { json, ask, stop } = await serving(archive, { clock: systemClock, set });
  const { body } = await json<{ verdict?: { text: string }; detail?: string }>('/readyz');
  const served = await (await ask('/')).text();
  const metrics = await (await ask('/metrics')).text();
  await stop();
  archive.close();
  return {
    status: status.verdict,
    report: unescapeHtml(/<p class="headline">.*?<\/span>(.*?)<\/p>/s.exec(report)?.[1]),
    page: unescapeHtml(/<p class="verdict [^"]*">(.*?)<\/p>/.exec(served)?.[1]),
    readyz: body.verdict?.text ?? body.detail,
    // What everyone may read names no symbol, path or message of the service.
    open: toOpenJudgement(judged).verdict.text,
    mark: /^oddslake_verdict\{state="(\w+)"\} 1$/m.exec(metrics)?.[1],
    command: status.command,
  };
}

/** Without data, or current data, the service is not ready and says why. */
const unready = ['empty', 'lag', 'standing still'];

/** A full disk needs one that is small. */
const isRoot = process.getuid?.() === 0;

test.each(Object.entries(states).filter(([name]) => isRoot || name !== 'full disk'))(
  '%s: one verdict everywhere, and its command works',
  async (name, [prepare, wanted, mark, codes]) => {
    const more = name === 'damaged journal' ? patience : [];
    const state = await createState(more.length > 0 ? [...fast, ...more] : brief);
    const printed = await prepare(state);
    const places = await readPlaces(state, more);
    const webhook =
      printed === null ? null : /\(exit \d+\): (.*?)(?:; next: .*)?$/s.exec(state.told.at(-1)!.body.text)![1]!;
    const terminal = printed === null ? null : parsePrinted(printed).verdict;
    const { mark: shown, command, status, report, page, readyz, open } = places;
    for (const text of [status, terminal ?? status]) expect(text).toMatch(wanted);
    expect([report, page]).toEqual([status, open]);
    if (unready.includes(name)) expect(readyz).toMatch(/^The (archive|watermark) /);
    else expect(readyz).toBe(open);
    if (terminal !== null) expect(webhook).toBe(terminal);
    expect(shown).toBe(mark);
    expect(command === null).toBe(codes.length === 0);
    if (command !== null) expect(codes).toContain(await paste(command, state));
  },
);

test('a damaged state database: every command says the same, and the one that it names rebuilds it', async () => {
  const state = await createState();
  const { output, env, job, told } = state;
  await job('nightly');
  const path = join(output, '.oddslake/state.sqlite');
  writeFileSync(path, readFileSync(path).fill(0x55, 3 * 4096));
  const said = [];
  for (const args of [['status'], ['nightly'], ['report'], ['serve', '--port', '0'], ['gaps']]) {
    const { code, stderr } = await run([...args, '--output', output, ...fast], env);
    said.push([code, /^oddslake: (The state database .*)$/m.exec(stderr)?.[1]]);
  }
  expect(new Set(said.map((one) => JSON.stringify(one))).size).toBe(1);
  const [fault, command] = (said[0]![1] as string).split(/(?<=journaled): /);
  expect([said[0]![0], fault]).toEqual([6, expect.stringMatching(/ is damaged: /)]);
  const { text } = told.at(-1)!.body;
  expect(text).toContain(fault);
  expect(text).toMatch(/; next: \/\S+ verify --repair --output /);
  const { stdout } = await run(['doctor', '--offline', '--output', output, ...fast], env);
  expect(stdout.replaceAll(/\s+/g, ' ')).toContain(fault);
  expect(await paste(command!, state)).toBe(0);
  expect(parsePrinted(await job('nightly')).verdict).toMatch(/^OK: /);
});

test('one of two sources down: the same everywhere, and the other one is collected', async () => {
  const [state, other] = [await createState(), await sandbox({ markets: 2, ticksPerDay: 20, seed: 4 })];
  const config = join(folder(), 'config.yaml');
  const [alpha, beta] = [other.url, 'http://127.0.0.1:9'].map(
    (url) => `{base_url: "${url}", api_key: sandbox-key, requests_per_second: 2000, retry_attempts_max: 1}`,
  );
  writeFileSync(config, `sources:\n  beta: ${beta}\n  alpha: ${alpha}\n`);
  const { stdout } = await run(['nightly', '--output', state.output, '--config', config]);
  const terminal = parsePrinted(stdout);
  const places = await readPlaces({ ...state, env: {} }, ['--config', config]);
  expect(terminal.verdict).toMatch(/^The source beta could not be reached/);
  expect(places).toMatchObject({ status: terminal.verdict, report: terminal.verdict, mark: 'warning' });
  expect(places.page).toBe(places.open);
  expect(places.command).toBe(terminal.command);
});
