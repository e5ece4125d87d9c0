import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { SMTPServer } from 'smtp-server';
import { describe, expect, onTestFinished, test } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import { runHere } from './here.ts';
import {
  access,
  type Ended,
  fixedDay,
  fixedNow,
  folder,
  jobArgs,
  launch,
  minuteMs,
  sandbox,
  sequentialFlags,
  start,
} from './lake.ts';

const input = { seed: 5, nowMs: fixedNow, markets: 2, ticksPerDay: 20 };
const secretPath = '/ping/0f2a9c3e-nobody-may-see-this';
const password = 'p4ss%20w:rd';

/** Neither the address nor the password is in any printed or logged text. */
function expectNoSecret({ stdout, stderr }: Ended): void {
  for (const secret of [secretPath, password, 'p4ss w:rd', 'sandbox-key'])
    expect(stdout + stderr).not.toContain(secret);
}

/** A dead man's switch on loopback, and the pings that it got. */
async function openSwitch(status = 200) {
  const pings: { readonly path: string; readonly body: string }[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      pings.push({ path: request.url!, body: Buffer.concat(pieces).toString() });
      response.writeHead(status).end('OK');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${secretPath}`, pings };
}

describe('a dead man’s switch', () => {
  test('is pinged at the start and at the end of a job, with failure at its own address', async () => {
    const [box, output, { url, pings }] = [await sandbox(input), folder(), await openSwitch()];
    const env = { ...access(box.url), ODDSLAKE_PING_URL: url };
    const done = await launch(jobArgs('nightly', output, '--date', fixedDay), env).ended;
    expect(done.code, done.stderr).toBe(0);
    expect(pings.map(({ path }) => path)).toEqual([`${secretPath}/start`, secretPath]);
    expect(pings[1]!.body).toMatch(/^oddslake nightly on .*: done \(exit 0\)\. [\d,]+ new ticks, generation 1\.$/);
    // Another job leaves the switch alone, unless it is named.
    expect((await runHere(jobArgs('publish', output), env)).code).toBe(0);
    expect(pings).toHaveLength(2);
    box.set({ faultSymbols: { [box.symbols()[0]!]: 404 } });
    const backfill = ['--from', '2025-06-10', '--to', '2025-06-12', '--symbol', box.symbols()[0]!, '--all-known'];
    const failUrl = url.replace(secretPath, `${secretPath}/own?code=7`);
    const jobs = ['--set', 'notify.ping_jobs=nightly,backfill', '--set', `notify.ping_fail_url=${failUrl}`];
    const failed = await runHere(jobArgs('backfill', output, ...backfill, ...jobs), env);
    expect(failed.code).toBe(4);
    expect(pings.slice(2).map(({ path }) => path)).toEqual([`${secretPath}/start`, `${secretPath}/own?code=7`]);
    expect(pings[3]!.body).toMatch(/backfill on .*: done, but incomplete \(exit 4\)\. Missing: .*404/);
    for (const ended of [done, failed]) expectNoSecret(ended);
  });

  test('hears of a job that did not start, and of one that SIGTERM stopped', async () => {
    const [box, { url, pings }] = [await sandbox({ ...input, latencyMs: 60_000 }), await openSwitch()];
    expect((await runHere(jobArgs('nightly', folder()), { ODDSLAKE_PING_URL: url })).code).toBe(2);
    expect(pings.at(-1)).toMatchObject({ path: `${secretPath}/fail`, body: expect.stringContaining('did not start') });
    const running = start(jobArgs('nightly', folder(), ...sequentialFlags), {
      ...access(box.url),
      ODDSLAKE_PING_URL: url,
    });
    await waitFor(() => box.stats().requests > 0, 'a request of the run');
    running.child.kill('SIGTERM');
    const ended = await running.ended;
    expect(ended.code, ended.stderr).toBe(143);
    expect(pings.slice(-2).map(({ path }) => path)).toEqual([`${secretPath}/start`, `${secretPath}/fail`]);
  });

  test('of a schedule is pinged by its jobs', async () => {
    const [box, output, { url, pings }] = [await sandbox({ ...input, nowMs: null }), folder(), await openSwitch()];
    // A job that was missed is started at once.
    const missed = new Date(Date.now() - 90 * minuteMs);
    const cron = `${missed.getUTCMinutes()} ${missed.getUTCHours()} * * *`;
    const every = ['--set', `schedule.nightly=${cron}`, '--set', 'schedule.jitter_seconds=0'];
    const env = { ...access(box.url), ODDSLAKE_PING_URL: url };
    expect((await runHere(jobArgs('nightly', output), access(box.url))).code).toBe(0);
    const db = new DatabaseSync(join(output, '.oddslake', 'state.sqlite'));
    db.exec(`update runs set started_at = started_at - ${3 * 60 * minuteMs}`);
    db.close();
    const running = start(jobArgs('schedule', output, ...every), env);
    onTestFinished(() => void running.child.kill('SIGKILL'));
    await waitFor(() => pings.length >= 2, 'two pings');
    running.child.kill('SIGTERM');
    const ended = await running.ended;
    expect(ended.code, ended.stderr).toBe(0);
    expect(pings.slice(0, 2).map(({ path }) => path)).toEqual([`${secretPath}/start`, secretPath]);
    expectNoSecret(ended);
  });

  test('that fails changes no exit code and is a warning without its address', async () => {
    const [box, refusing] = [await sandbox(input), await openSwitch(410)];
    for (const url of [refusing.url, `http://127.0.0.1:9${secretPath}`]) {
      const args = jobArgs('nightly', folder(), '--date', fixedDay);
      const ended = await runHere(args, { ...access(box.url), ODDSLAKE_PING_URL: url });
      expect(ended.code, ended.stderr).toBe(0);
      expect(ended.stderr).toMatch(
        /"level":"warn".*Could not notify the ping address: it (responded with 410|could not)/,
      );
      expectNoSecret(ended);
    }
  });
});

/** A real SMTP server on loopback that requires the password, and the mails that it got. */
async function openMailServer() {
  const mails: { readonly from: string; readonly to: readonly string[]; readonly text: string }[] = [];
  const server = new SMTPServer({
    authOptional: false,
    allowInsecureAuth: true,
    disabledCommands: ['STARTTLS'],
    onAuth: ({ username, password: given }, _session, done) =>
      done(username === 'ops' && given === 'p4ss w:rd' ? null : new Error('wrong password'), { user: username }),
    onData(stream, { envelope }, done) {
      const pieces: Buffer[] = [];
      stream.on('data', (piece: Buffer) => pieces.push(piece));
      stream.on('end', () => {
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
        const to = envelope.rcptTo.map(({ address }) => address);
        mails.push({ from, to, text: Buffer.concat(pieces).toString() });
        done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.server.address() as AddressInfo;
  return { url: (secret: string) => `smtp://ops:${secret}@127.0.0.1:${port}`, mails };
}

const addresses = [
  '--set',
  'notify.email.to=a@example.org,b@example.org',
  '--set',
  'notify.email.from=lake@example.org',
];

describe('a mail', () => {
  test('is sent by SMTP about a run that failed, and about others only if enabled', async () => {
    const [box, output, { url, mails }] = [await sandbox(input), folder(), await openMailServer()];
    const file = join(folder(), 'smtp-url');
    writeFileSync(file, `${url(password)}\n`);
    const env = { ...access(box.url), ODDSLAKE_SMTP_URL_FILE: file };
    const nightly = jobArgs('nightly', output, '--date', fixedDay, ...addresses);
    expect((await runHere(nightly, env)).code).toBe(0);
    expect(mails).toEqual([]);
    const told = await launch([...nightly, '--set', 'notify.email.when=always'], env).ended;
    expect(told.code, told.stderr).toBe(0);
    expect(mails).toHaveLength(1);
    const [symbol] = box.symbols();
    box.set({ faultSymbols: { [symbol!]: 404 } });
    const backfill = ['--from', '2025-06-10', '--to', '2025-06-12', '--symbol', symbol!, '--all-known'];
    const failed = await runHere(jobArgs('backfill', output, ...backfill, ...addresses), env);
    expect(failed.code).toBe(4);
    expect(mails[1]).toMatchObject({ from: 'lake@example.org', to: ['a@example.org', 'b@example.org'] });
    expect(mails[1]!.text).toMatch(/^Subject: oddslake backfill on .*: incomplete \(exit 4\)\r$/m);
    expect(mails[1]!.text).toContain(`${symbol}  2025-06-10T00:00:00Z`);
    for (const ended of [told, failed]) expectNoSecret(ended);
    for (const { text } of mails) for (const secret of [password, 'p4ss w:rd']) expect(text).not.toContain(secret);
    const refused = await runHere([...nightly, '--set', 'notify.email.when=always'], {
      ...access(box.url),
      ODDSLAKE_SMTP_URL: url('wrong-secret'),
    });
    expect(refused.code).toBe(0);
    expect(refused.stderr).toMatch(/"level":"warn".*Could not send the mail: .*wrong password/);
    expect(refused.stderr).not.toContain('wrong-secret');
    expect(mails).toHaveLength(2);
  });

  test('is passed to a local sendmail, whose failure is a warning', async () => {
    const [output, at] = [folder(), folder()];
    const [program, kept] = [join(at, 'sendmail'), join(at, 'mail.txt')];
    writeFileSync(program, `#!/bin/sh\n{ echo "$@"; cat; } > ${kept}\n`);
    chmodSync(program, 0o755);
    const args = (path: string) => jobArgs('nightly', output, ...addresses, '--set', `notify.email.sendmail=${path}`);
    expect((await runHere(args(program))).code).toBe(2);
    const [command, ...mail] = readFileSync(kept, 'utf8').split('\n');
    expect(command).toBe('-i -f lake@example.org a@example.org b@example.org');
    expect(mail.join('\n')).toMatch(/^To: a@example.org, b@example.org$/m);
    expect(mail.join('\n')).toMatch(/^Subject: oddslake nightly on .*: usage \(exit 2\)$/m);
    const failing = await runHere(args('/bin/false'));
    expect(failing.code).toBe(2);
    expect(failing.stderr).toMatch(/Could not send the mail: \/bin\/false ended with exit code 1\./);
    const missing = await runHere(args('/nonexistent/sendmail'));
    expect(missing.stderr).toMatch(/\/nonexistent\/sendmail could not be started \(ENOENT\)/);
  });

  test.each([
    ['without a sender', ['notify.email.to=a@b.org', 'notify.email.sendmail=/bin/true'], /needs notify.email.from/],
    ['without a way to send it', ['notify.email.to=a@b.org', 'notify.email.from=c@d.org'], /smtp_url or notify/],
    ['by two ways', ['notify.email.sendmail=/bin/true', 'notify.email.smtp_url=smtp://x'], /not both/],
    ['to what is no address', ['notify.email.to=a@b.org\nBcc: x@y.org'], /is not an address/],
    ['by an address of another kind', ['notify.email.smtp_url=http://secret@host'], /is \(hidden\): expected smtp:/],
  ])('%s is refused', async (_, set, message) => {
    const ended = await runHere(jobArgs('publish', folder(), ...set.flatMap((one) => ['--set', one])));
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(message);
  });
});
