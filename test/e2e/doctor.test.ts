import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import type { Diagnosis } from '../../src/doctor/doctor.ts';
import type { Finding } from '../../src/doctor/finding.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { needsCommands, skipWithReason } from '../harness/needs.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { access, expectDone, folder, jobArgs, runProcess, sandbox, type Variables } from './lake.ts';
import { run } from './run-program.ts';

// Findings and exit codes of doctor for real faults.

/** At the default rate, its request would wait for a second after the last request of the nightly. */
const flags = ['--set', 'source.name=box', '--set', 'upstream.requests_per_second=2000'];

interface DoctorOutput {
  readonly code: number | null;
  readonly diagnosis: Diagnosis;
  /** Finding of one check. */
  finding(check: string): Finding | undefined;
}

async function doctor(output: string, env: Variables = {}, ...more: string[]): Promise<DoctorOutput> {
  const { code, stdout } = await run(['doctor', '--json', '--output', output, ...flags, ...more], env);
  const diagnosis = JSON.parse(stdout) as Diagnosis;
  return { code, diagnosis, finding: (check) => diagnosis.findings.find((finding) => finding.check === check) };
}

/** An archive after one nightly, made once. */
let made: Promise<string> | undefined;
async function makeLake(): Promise<string> {
  const root = mkdtempSync(join(scratchRoot, 'oddslake-doctor-'));
  const box = await startSandbox({ markets: 4, ticksPerDay: 20 }, { clock: systemClock });
  await expectDone(run(jobArgs('nightly', root), access(box.url)));
  await box.stop();
  return root;
}
afterAll(async () => rmSync(await made!, { recursive: true }));

/** A copy of it, and its sandbox. */
async function polled() {
  const output = join(folder(), 'lake');
  made ??= makeLake();
  cpSync(await made, output, { recursive: true, preserveTimestamps: true });
  const box = await sandbox({ markets: 4, ticksPerDay: 20 });
  return { output, box, env: access(box.url) };
}

const bytesOf = (root: string): string[] =>
  globSync('**/*', { cwd: root })
    .concat(globSync('.oddslake/**/*', { cwd: root }))
    .sort()
    .filter((path) => statSync(join(root, path)).isFile())
    .map(
      (path) => `${path} ${statSync(join(root, path)).mtimeMs} ${readFileSync(join(root, path)).toString('base64')}`,
    );

test('reports no problem for a healthy archive, and changes nothing', async () => {
  const { output, env } = await polled();
  const before = bytesOf(output).filter((file) => !file.startsWith('.oddslake/rate.sqlite'));
  const { code, diagnosis, finding } = await doctor(output, env);
  expect([code, diagnosis.problems, diagnosis.exit_code]).toEqual([0, 0, 0]);
  expect(finding('key')).toMatchObject({ severity: 'ok', message: 'accepted (list of one market: status 200)' });
  expect(finding('clock')).toMatchObject({ severity: 'ok' });
  expect(finding('state')).toMatchObject({
    severity: 'ok',
    message: 'matches the published files, and can be written',
  });
  expect(finding('verdict')).toMatchObject({ severity: 'ok', message: expect.stringMatching(/^OK: collected to /) });
  expect(finding('published')?.message).toMatch(
    /^\d+ files have the right size, and 8 that were hashed now match; every byte verified since 20\S+Z$/,
  );
  expect(bytesOf(output).filter((file) => !file.startsWith('.oddslake/rate.sqlite'))).toEqual(before);
  expect(diagnosis.settings).toContainEqual({ path: 'upstream.api_key', value: '(hidden)', from: 'ODDSLAKE_API_KEY' });
  const held = bytesOf(output);
  expect((await doctor(output, env, '--offline')).finding('key')).toBeUndefined();
  expect(bytesOf(output)).toEqual(held);
});

test('blames the state if another process holds it locked', async () => {
  const { output, env } = await polled();
  const state = new DatabaseSync(join(output, '.oddslake/state.sqlite'));
  state.exec('begin immediate');
  const { code, finding } = await doctor(output, env, '--offline');
  state.close();
  expect([code, finding('state')]).toMatchObject([
    5,
    { exit_code: 5, message: expect.stringMatching(/^Another process kept .*state\.sqlite locked/) },
  ]);
});

test('sends one request for one market and one for its ticks, without retries, and stores neither', async () => {
  const { output, box, env } = await polled();
  const { finding: found } = await doctor(output, env);
  expect(found('ticks')).toMatchObject({
    severity: 'ok',
    message: expect.stringMatching(/^the service sends those of \S+$/),
  });
  expect(box.stats().requests).toBe(2);
  box.set({ faultShare: 1, faults: ['500'] });
  const { code, finding } = await doctor(output, env);
  expect([code, finding('key')?.severity, box.stats().requests]).toEqual([4, 'action_required', 3]);
});

test.each<[check: string, code: number, text: RegExp, env: Variables, ...flags: string[]]>([
  ['key', 3, /HTTP 401.*ODDSLAKE_API_KEY/, { ODDSLAKE_API_KEY: 'another-key' }],
  ['key', 2, /ODDSLAKE_API_KEY_FILE/, { ODDSLAKE_API_KEY: '' }],
  ['reachable', 7, /connection refused/, access('http://127.0.0.1:9')],
  ['reachable', 7, /host name not found/, access('http://nobody.invalid')],
  ['address', 2, /ODDSLAKE_BASE_URL/, { ODDSLAKE_BASE_URL: '' }],
  ['settings', 2, /poll\.page_limit/, {}, '--set', 'poll.page_limit=many'],
  ['archive', 2, /of the upstream box, not of another/, {}, '--set', 'source.name=another'],
])('the check of %s fails with exit code %i and %s', async (check, code, text, changes, ...more) => {
  const { output, env } = await polled();
  const found = await doctor(output, { ...env, ...changes }, ...more);
  expect([found.code, found.finding(check)]).toMatchObject([code, { severity: 'action_required', exit_code: code }]);
  expect(`${found.finding(check)!.message} ${found.finding(check)!.action}`).toMatch(text);
  expect(found.finding('node')).toMatchObject({ severity: 'ok' });
  // The key of a service that cannot be reached is not tried.
  if (check === 'reachable') expect(found.finding('key')).toBeUndefined();
});

/** A service whose clock is `aheadMs` ahead, and which states a rate limit. */
async function skewed(aheadMs: number): Promise<string> {
  const server = createServer((request, response) => {
    response.sendDate = false;
    response.setHeader('date', new Date(Date.now() + aheadMs).toUTCString());
    response.setHeader('ratelimit-policy', '"key";q=2;w=1');
    const { pathname, searchParams } = new URL(request.url!, 'http://x');
    const symbol = decodeURIComponent(pathname.split('/').at(-1)!);
    const [from, to] = ['from', 'to'].map((name) => Number(searchParams.get(name)));
    // The fields that the archive has received from its service: a page without them is a failed request.
    const list = { markets: [], total: 0, view: 'matched', generated_at: Date.now() };
    const page = { ...list, symbol: searchParams.get('symbol') ?? symbol, ticks: [], count: 0, from, to };
    response.setHeader('content-type', 'application/json').end(JSON.stringify(page));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a clock off by more than poll.future_skew_seconds is a problem, by less a warning', async () => {
  const { output } = await polled();
  const off = await doctor(output, access(await skewed(-3_600_000)));
  expect([off.code, off.finding('clock')]).toMatchObject([1, { severity: 'action_required', group: 'machine' }]);
  expect(off.finding('clock')?.message).toMatch(/^(1 h|59 min \d+ s) ahead of the service,/);
  const slightly = await doctor(output, access(await skewed(60_000)));
  expect([slightly.code, slightly.finding('clock')?.severity]).toEqual([0, 'warning']);
  expect(slightly.finding('clock')?.message).toContain('behind the service');
});

test(
  'a certificate that nobody vouches for is what a run ends with 7 for, and nothing is sent',
  needsCommands('openssl'),
  async () => {
    const { output } = await polled();
    const at = folder();
    const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'key', '-out', 'cert', '-days', '3'];
    expect(spawnSync('openssl', [...made, '-subj', '/CN=localhost'], { cwd: at }).status).toBe(0);
    let requests = 0;
    const keys = { key: readFileSync(join(at, 'key')), cert: readFileSync(join(at, 'cert')) };
    const server = createTlsServer(keys, (_request, response) => {
      requests++;
      response.setHeader('content-type', 'application/json').end('{"markets": []}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const url = `https://localhost:${(server.address() as AddressInfo).port}`;
    const { code, finding } = await doctor(output, access(url));
    expect([code, requests]).toEqual([7, 0]);
    expect(finding('reachable')?.message).toContain('its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)');
    expect(finding('key')).toBeUndefined();
    // Where its authority is known, it is only near its end.
    const trusting = { ...access(url), NODE_EXTRA_CA_CERTS: join(at, 'cert'), PATH: process.env.PATH! };
    const reported = await runProcess(['doctor', '--json', '--output', output, ...flags], trusting);
    const { findings } = JSON.parse(reported.stdout) as Diagnosis;
    expect(findings.find(({ check }) => check === 'reachable')).toMatchObject({
      severity: 'warning',
      message: expect.stringMatching(/; its certificate expires in 2 days$/),
    });
  },
);

test('a rate above the stated limit is a warning, exit code 4 with --strict', async () => {
  const { output } = await polled();
  const env = access(await skewed(0));
  const { code, finding } = await doctor(output, env);
  expect([code, finding('rate')?.severity]).toEqual([0, 'warning']);
  expect(finding('rate')?.action).toMatch(/^Set upstream\.requests_per_second to 2,/);
  expect((await doctor(output, env, '--strict')).code).toBe(4);
});

test('a key file readable by others and a key in a config are warnings', async () => {
  const { output, box } = await polled();
  const key = join(output, '..', 'key');
  const config = join(output, '..', 'own.yaml');
  writeFileSync(key, 'sandbox-key\n', { mode: 0o644 });
  const env = { ODDSLAKE_BASE_URL: box.url, ODDSLAKE_API_KEY_FILE: key };
  expect((await doctor(output, env)).finding('secrets')).toMatchObject({
    severity: 'warning',
    action: `chmod 600 ${key}`,
  });
  chmodSync(key, 0o600);
  expect((await doctor(output, env)).finding('secrets')).toBeUndefined();
  writeFileSync(config, `upstream: {base_url: "${box.url}", api_key: sandbox-key}\n`, { mode: 0o640 });
  const found = await doctor(output, {}, '--config', config);
  expect(found.finding('secrets')).toMatchObject({ action: `chmod 600 ${config}` });
  expect(JSON.stringify(found.diagnosis)).not.toContain('sandbox-key');
});

test('damage is a problem with exit code 6: files, manifest and state', async () => {
  const { output, env } = await polled();
  const path = globSync('symbols/*.parquet', { cwd: output })[0]!;
  const intact = readFileSync(join(output, path));
  const flipped = Buffer.from(intact);
  flipped[100]! ^= 1;
  for (const bytes of [flipped, Buffer.concat([intact, intact])]) {
    writeFileSync(join(output, path), bytes);
    const { code, finding } = await doctor(output, env);
    expect([code, finding('finding')?.message]).toEqual([6, `1 file damaged: ${path} (checksum mismatch)`]);
  }
  rmSync(join(output, path));
  expect((await doctor(output, env)).code).toBe(6);
  writeFileSync(join(output, path), intact);
  await expectDone(doctor(output, env));

  const manifest = readFileSync(join(output, 'manifest.json'), 'utf8');
  writeFileSync(join(output, 'manifest.json'), manifest.replace('"watermark"', '"water"'));
  expect((await doctor(output, env)).finding('state')).toMatchObject({ exit_code: 6 });
  writeFileSync(join(output, 'manifest.json'), manifest.slice(0, 100));
  expect((await doctor(output, env)).finding('archive')).toMatchObject({ exit_code: 6 });
  writeFileSync(join(output, 'manifest.json'), manifest);

  const state = join(output, '.oddslake/state.sqlite');
  const sound = readFileSync(state);
  writeFileSync(state, 'no database at all, but more than nothing');
  expect((await doctor(output, env)).finding('state')).toMatchObject({ severity: 'action_required', exit_code: 6 });
  writeFileSync(state, sound);
  rmSync(state);
  const lost = await doctor(output, env);
  expect([lost.code, lost.finding('state')?.severity]).toEqual([0, 'warning']);
});

test('a long pause is a problem, a file of a repair a warning, and journaled ticks need nothing', async () => {
  const { output, env } = await polled();
  const state = new DatabaseSync(join(output, '.oddslake/state.sqlite'));
  state.exec(
    "insert into journal_ticks (id, record_id, symbol, day, n, t, p, checksum) values (1, 1, 'A', 0, 12, x'', x'', 0)",
  );
  state.close();
  const { code, diagnosis } = await doctor(output, env, '--set', 'service.lag_seconds_max=0');
  const found = (start: string) => diagnosis.findings.find(({ message }) => message.startsWith(start));
  expect([code, found('nothing was collected since ')?.severity]).toEqual([4, 'action_required']);
  expect(found('12 ticks not published yet')).toMatchObject({ severity: 'ok' });
  mkdirSync(join(output, '.oddslake/damaged'));
  writeFileSync(join(output, '.oddslake/damaged/one'), '');
  expect((await doctor(output, env)).finding('quarantined')).toMatchObject({ severity: 'warning' });
});

test('a folder without an archive is a problem with exit code 2, and no folder is none', async () => {
  const env = access('http://127.0.0.1:9');
  const files = folder();
  writeFileSync(join(files, 'holiday.jpg'), '');
  expect((await doctor(files, env, '--offline')).finding('archive')).toMatchObject({ exit_code: 2 });
  const none = await doctor(join(files, 'none'), env, '--offline');
  expect([none.code, none.finding('archive')?.severity]).toEqual([0, 'ok']);
  expect(globSync('*', { cwd: files })).toEqual(['holiday.jpg']);
  const unnamed = await run(['doctor', '--json', '--offline'], env, files);
  expect((JSON.parse(unnamed.stdout) as Diagnosis).findings).toContainEqual(
    expect.objectContaining({ check: 'archive', exit_code: 2, action: expect.stringContaining('oddslake init') }),
  );
});

test('an unreachable database is a problem of the service', async () => {
  const { output, env } = await polled();
  const away = { ...env, ODDSLAKE_DATABASE_URL: 'postgres://me:secret-word@127.0.0.1:1/keys' };
  const { code, diagnosis, finding } = await doctor(output, away);
  expect([code, finding('database')]).toMatchObject([1, { severity: 'action_required', group: 'service' }]);
  expect(JSON.stringify(diagnosis)).not.toContain('secret-word');
  await expectDone(run(['keys', 'create', '--name', 'one', '--output', output]));
  expect((await doctor(output, env)).finding('database')).toMatchObject({
    severity: 'ok',
    message: expect.not.stringMatching('not created'),
  });
});

test('a key that expires soon is a warning without its secret, unless it is revoked', async () => {
  const { output, env } = await polled();
  const keys = (...args: string[]) => run(['keys', ...args, '--output', output]);
  const { stdout: key } = await keys('create', '--name', 'near', '--expires', '2d', '--quiet');
  const id = key.slice(4, 16);
  const { diagnosis, finding } = await doctor(output, env);
  expect(finding('api keys')).toMatchObject({
    severity: 'warning',
    message: expect.stringContaining(`"near" (${id})`),
  });
  expect(JSON.stringify(diagnosis)).not.toContain(key.trim().slice(-43));
  await expectDone(keys('revoke', id));
  expect((await doctor(output, env)).finding('api keys')).toMatchObject({ severity: 'ok' });
});

const isRoot = process.getuid?.() === 0;

const needsRoot = skipWithReason(isRoot ? null : 'only root may mount a small disk');

test('a full disk is a problem with exit code 1', needsRoot, async (context) => {
  const at = join(folder(), 'small');
  mkdirSync(at);
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', at]).status !== 0)
    return context.skip('nothing may be mounted here');
  try {
    const { code, finding } = await doctor(join(at, 'lake'), access('http://127.0.0.1:1'), '--offline');
    expect([code, finding('space')]).toMatchObject([1, { severity: 'action_required' }]);
    expect(finding('file system')).toMatchObject({ severity: 'warning', message: 'tmpfs, which is in memory' });
  } finally {
    spawnSync('umount', [at]);
  }
});

test('a folder without write permission is a problem with exit code 1', async (context) => {
  const { output } = await polled();
  const args = ['doctor', '--json', '--offline', '--output', output, ...flags];
  chmodSync(output, 0o555);
  onTestFinished(() => chmodSync(output, 0o755));
  const reported = isRoot ? asNobody(args, output) : (await run(args, access('http://x.invalid'))).stdout;
  if (reported === null) return context.skip('there is no way to be another user');
  const { findings } = JSON.parse(reported) as Diagnosis;
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: 'permissions',
      severity: 'action_required',
      exit_code: 1,
      message: expect.stringContaining('this user cannot write to'),
    }),
  );
});

/** Runs as another user, the owner of the archive, because root can write anywhere; null if other users cannot read the program. */
function asNobody(args: readonly string[], output: string): string | null {
  for (const path of [join(output, '..'), ...globSync('**', { cwd: output }).map((name) => join(output, name))])
    chmodSync(path, statSync(path).isDirectory() ? 0o555 : 0o444);
  spawnSync('chown', ['-R', '65534:65534', output]);
  const main = new URL('../../bin/main.ts', import.meta.url).pathname;
  const { stdout } = spawnSync(process.execPath, [main, ...args], {
    uid: 65534,
    gid: 65534,
    encoding: 'utf8',
    cwd: '/',
    env: { PATH: process.env.PATH, ...access('http://x.invalid') },
  });
  return stdout === null || stdout === '' ? null : stdout;
}

test('prints findings with marks and advice, without colour if there is no terminal', async () => {
  const { stdout: text } = await run(['doctor', '--offline', '--output', '/nowhere/at/all', ...flags]);
  expect(text).toMatch(/^ {2}✓ node {9}v\d+/m);
  expect(text).toMatch(/^ {2}✗ address {6}the address of the market .*\n {17}→ Set ODDSLAKE_BASE_URL/m);
  expect(text).toMatch(/\n\d problems?, \d warnings?, \d+ ok\. A run would end with exit code 2\.\n$/);
  expect(text).not.toContain('\u001b');
});
