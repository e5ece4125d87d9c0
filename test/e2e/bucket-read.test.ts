import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { day0, hourMs } from '../archive/scratch.ts';
import { startFaultProxy } from '../bucket/fault-proxy.ts';
import { publishedArchive, publishMore, pushNow } from '../bucket/pushed.ts';
import { openStore } from '../bucket/server.ts';
import { waitFor } from '../harness/limits.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { backtestLake } from './backtest-lake.ts';
import { useBucketServer } from './bucket-server.ts';
import { type Ended, expectDone, folder, runProcess, start, startLongRunning, type Variables } from './lake.ts';
import { run } from './run-program.ts';

describe('commands over an archive in a bucket', needsObjectStorage(), () => {
  const server = useBucketServer();
  let prefixes = 0;
  const access = (cache: string, endpoint = server.endpoint): Variables =>
    server.bucketAccess(endpoint, undefined, { XDG_CACHE_HOME: cache });
  const readersOf = (cache: string): string[] => {
    const at = join(cache, 'oddslake', 'objects', 'readers');
    return existsSync(at) ? readdirSync(at) : [];
  };
  const filesOf = (cache: string): string[] => readdirSync(join(cache, 'oddslake', 'objects', 'files'));

  /** A pushed archive, and a pulled copy of it. */
  async function pushed() {
    const output = await backtestLake();
    const prefix = `read${++prefixes}`;
    const url = `s3://lakes/${prefix}`;
    const cache = folder();
    const env = access(cache);
    await expectDone(run(['push', url, '--output', output], env));
    const pulled = join(folder(), 'pulled');
    await expectDone(run(['pull', url, pulled], env));
    return { output, prefix, url, cache, env, pulled };
  }

  /** Output without what differs between two runs on the same archive: its name, and the time. */
  const toComparable = ({ code, stdout }: Ended, name: string) => ({
    code,
    stdout: stdout.replaceAll(name, 'NAME').replace(/"lag_ms":\d+/, '"lag_ms":0'),
  });

  test('each command prints what it prints for a pulled copy', async () => {
    const { url, env, pulled, cache } = await pushed();
    const commands = [
      ['status', '--json'],
      ['symbols', '--json'],
      ['gaps', '--json', '--from', '2026-06-01', '--to', '2026-06-02'],
      ['gaps', '--json', '--dataset', 'quotes'],
      ['sql', 'SELECT symbol, epoch_ms(t), p FROM ticks ORDER BY 1, 2', '--format', 'csv'],
      ['sql', 'SELECT count(*) FROM ticks_with_markets', '--json'],
      ['sql', 'SHOW TABLES', '--format', 'csv'],
      ['backtest', 'run', 'buy_and_hold', '--json', '--quiet'],
      [
        'backtest',
        'run',
        'buy_and_hold',
        '--json',
        '--quiet',
        '--from',
        String(day0),
        '--to',
        String(day0 + 2 * hourMs),
      ],
    ];
    for (const words of commands) {
      const local = await run([...words, '--output', pulled], env);
      const remote = await run([...words, '--archive', url], env);
      expect(local.code, local.stderr).toBe(0);
      expect(remote.code, remote.stderr).toBe(0);
      expect(toComparable(remote, url), words.join(' ')).toEqual(toComparable(local, pulled));
    }
    expect(readersOf(cache)).toEqual([]);
  });

  test('export writes the same bytes, report a page, and both name the address', async () => {
    const { url, env, pulled } = await pushed();
    const out = folder();
    const exportTo = (file: string, ...flags: string[]) =>
      run(['export', '--out', join(out, file), '--from', '2026-06-01', '--to', '2026-06-02', ...flags], env);
    await expectDone(exportTo('local.parquet', '--output', pulled));
    // The address may stand where a folder stands.
    await expectDone(exportTo('remote.parquet', '--output', url));
    const read = (file: string): Buffer => readFileSync(join(out, file));
    expect(read('remote.parquet').equals(read('local.parquet'))).toBe(true);
    const page = join(out, 'page.html');
    const report = await expectDone(run(['report', '--archive', url, '--out', page, '--json'], env));
    expect(JSON.parse(report.stdout)).toMatchObject({ path: page, generation: 1 });
    expect(readFileSync(page, 'utf8')).toContain(`Archive ${url}, generation 1`);
  });

  test('processes at once share the cache, and a window is downloaded without the rest', async () => {
    const { url, env, cache } = await pushed();
    const count = ['sql', 'SELECT count(*) FROM ticks', '--format', 'csv', '--archive', url];
    await expectDone(run(['status', '--archive', url], env));
    const before = filesOf(cache).length;
    const both = await Promise.all([runProcess(count, env), runProcess(count, env)]);
    for (const { code, stdout, stderr } of both)
      expect([code, stdout.trim().split('\n').at(-1), stderr]).toEqual([0, '9', '']);
    expect(filesOf(cache).length).toBeGreaterThan(before);
    const proxy = await startFaultProxy(server.endpoint, {});
    onTestFinished(() => proxy.stop());
    await expectDone(run(count, access(cache, proxy.endpoint)));
    expect(proxy.seen).toHaveLength(1);
    // A window without ticks needs no file of ticks.
    const other = folder();
    const none = ['export', '--archive', url, '--out', join(folder(), 'none.csv'), '--from', '2026-06-05'];
    await expectDone(run(none, access(other, proxy.endpoint)));
    expect(proxy.seen.filter(({ path }) => path.includes('/data/ticks/'))).toEqual([]);
  });

  test('a push while a command runs does not change its answer', async () => {
    const archive = await publishedArchive();
    const prefix = `read${++prefixes}`;
    const store = await openStore({ endpoint: server.endpoint, prefix });
    await pushNow(archive, store);
    let hasRead = false;
    let isPushed = false;
    const proxy = await startFaultProxy(server.endpoint, {
      // The files are downloaded after the push: the command tries again.
      choose: (_, { path }) => {
        if (path.includes('/manifest.json')) hasRead = true;
        return path.includes('/data/') && !isPushed ? '503' : null;
      },
    });
    onTestFinished(() => proxy.stop());
    const select = ['sql', 'SELECT p FROM ticks', '--format', 'csv', '--archive', `s3://lakes/${prefix}`];
    const cache = folder();
    const { ended } = start(select, access(cache, proxy.endpoint));
    await waitFor(() => hasRead, 'the read of the manifest');
    await publishMore(archive, 0, 0.75);
    await pushNow(archive, store);
    isPushed = true;
    const during = await ended;
    expect([during.code, during.stdout], during.stderr).toEqual([0, 'p\n0.5\n0.5\n']);
    const after = await run(select, access(cache));
    expect(after.stdout).toContain('0.75');
  });

  test('a damaged object ends a command with 6, and a refused credential with 3', async () => {
    const { url, env, prefix, cache } = await pushed();
    const [object] = globSync('data/ticks/*/*.parquet', { cwd: server.folderOf(prefix) });
    const at = join(server.folderOf(prefix), object!);
    const bytes = readFileSync(at);
    bytes[10]! ^= 1;
    writeFileSync(at, bytes);
    const read = (more: Variables) => run(['sql', 'SELECT count(*) FROM ticks', '--archive', url], { ...env, ...more });
    const damaged = await read({});
    expect([damaged.code, damaged.stderr]).toEqual([6, expect.stringContaining(`${url}/${object} differs`)]);
    expect((await read({ AWS_SECRET_ACCESS_KEY: 'not-this-one' })).code).toBe(3);
    expect((await run(['status', '--archive', 's3://no-such-bucket'], env)).code).toBe(2);
    expect((await run(['status', '--archive', 's3://x'], env)).code).toBe(2);
    expect(readersOf(cache)).toEqual([]);
  });

  test('commands that write refuse an address, and say what to do', async () => {
    const { url, env, cache } = await pushed();
    const database = `service.database_url=sqlite:${join(folder(), 'service.sqlite')}`;
    const csv = join(folder(), 'ticks.csv');
    writeFileSync(csv, 'symbol,t,p\n');
    // The address is the last word.
    const commands: readonly (readonly [line: string, message: RegExp])[] = [
      ['nightly --output', /oddslake pull s3:.*oddslake push/],
      ['nightly --json --archive', /oddslake pull s3:.*oddslake push/],
      [`import ${csv} --output`, /oddslake pull/],
      ['publish --archive', /oddslake pull/],
      ['verify --repair --archive', /oddslake pull/],
      ['doctor --archive', /oddslake pull/],
      [`push ${url} --output`, /oddslake pull/],
      ['gaps accept RAIN --from 2026-06-01 --to 2026-06-02 --reason x --archive', /pull/],
      ['keys create --name x --archive', /oddslake pull/],
      ['backtest run buy_and_hold --save --archive', /oddslake pull/],
      ['report --archive', /--out FILE/],
      ['serve --archive', /service\.database_url/],
      [`serve --set ${database} --set service.live.enabled=true --archive`, /live reads/],
      ['status --output x --archive', /not both/],
    ];
    for (const [line, message] of commands) {
      const { code, stdout, stderr } = await run([...line.split(' '), url], env);
      expect([code, stdout + stderr], line).toEqual([2, expect.stringMatching(message)]);
    }
    expect(readersOf(cache)).toEqual([]);
  });

  test('serve answers from the generation of its start, without a server of objects', async () => {
    const { url, env, cache } = await pushed();
    const database = ['--set', `service.database_url=sqlite:${join(folder(), 'service.sqlite')}`];
    const made = await run(['keys', 'create', '--archive', url, '--name', 'test', ...database], env);
    const key = made.stdout.trim();
    const proxy = await startFaultProxy(server.endpoint, {});
    const args = ['serve', '--archive', url, '--json', '--set', 'service.port=0', ...database];
    const serving = await startLongRunning(args, access(cache, proxy.endpoint));
    await proxy.stop();
    const { url: base, archive } = JSON.parse(serving.first) as { url: string; archive: string };
    expect(archive).toBe(url);
    expect(serving.printed.stderr).toContain('serving this one generation');
    const ask = async (path: string) => {
      const response = await fetch(`${base}${path}`, { headers: { authorization: `Bearer ${key}` } });
      return { status: response.status, body: (await response.json()) as { ticks?: { t: number; p: number }[] } };
    };
    const ticks = await ask(`/api/v1/ticks?symbol=RAIN&from=${day0}&to=${day0 + 4 * hourMs}`);
    expect(ticks.status).toBe(200);
    expect(ticks.body.ticks?.map(({ p }) => p)).toEqual([0.3, 0.4, 0.6]);
    const history = await ask(`/api/v1/historical/ticks?symbol=RAIN&from=${day0}&to=${day0 + 4 * hourMs}`);
    expect(history.status).toBe(200);
    expect(readersOf(cache)).not.toEqual([]);
    serving.child.kill('SIGTERM');
    await expectDone(serving.ended);
    expect(readersOf(cache)).toEqual([]);
    // It starts again, as the same archive of the database.
    const again = await startLongRunning(args, env);
    again.child.kill('SIGTERM');
    await expectDone(again.ended);
  });

  test('a signal and a closed pipe remove the folder of a command, and the next command that of a killed one', async () => {
    const { url, env, cache } = await pushed();
    const database = ['--set', `service.database_url=sqlite:${join(folder(), 'service.sqlite')}`];
    const args = ['serve', '--archive', url, '--json', '--set', 'service.port=0', ...database];
    const killed = await startLongRunning(args, env);
    const [left] = readersOf(cache);
    killed.child.kill('SIGKILL');
    await killed.ended;
    expect(readersOf(cache)).toContain(left);
    await expectDone(run(['status', '--archive', url], env));
    expect(readersOf(cache)).toEqual([]);
    const stopped = start(['sql', 'SELECT sum(range) FROM range(1000000000000)', '--archive', url], env);
    await waitFor(() => readersOf(cache).length > 0, 'the folder of the command');
    stopped.child.kill('SIGTERM');
    expect((await stopped.ended).code).toBe(143);
    expect(readersOf(cache)).toEqual([]);
    const piped = start(['sql', 'SELECT * FROM range(10000000)', '--format', 'csv', '--archive', url], env);
    piped.child.stdout!.once('data', () => piped.child.stdout!.destroy());
    await expectDone(piped.ended);
    expect(readersOf(cache)).toEqual([]);
  });
});
