import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import { issueUserToken } from '../../src/server/workspace/user-tokens.ts';
import { answer, append, day0, dayMs, hourMs, market, opened, publishNow } from '../archive/scratch.ts';
import { folder, hashes } from '../e2e/lake.ts';
import { keyOf, serve } from '../e2e/served-archive.ts';
import { waitFor } from '../harness/limits.ts';
import { skipWithReason } from '../harness/needs.ts';
import { secret } from '../server/forged-tokens.ts';
import { poll } from '../server/historical-archive.ts';
import { findBlocks, readPage } from './blocks.ts';
import { project } from './kept-current.ts';

// The results of the commands and programs of docs/SERVICE.md.

const text = readPage('docs/SERVICE.md');
const blocks = (language: string): string[] => findBlocks(text, language);

const tokens = { issuer: 'oddslake', audience: 'oddslake', jwksUrl: null, jwksFile: null };

/** `ODDSLAKE_PYTHON`: a Python with pandas, polars, pyarrow and duckdb. */
const python = process.env.ODDSLAKE_PYTHON ?? 'python3';
const has = (code: string): boolean => spawnSync(python, ['-c', code]).status === 0;
const noPython = !has('import urllib.request') || spawnSync('curl', ['--version']).status !== 0;
const libraries = 'import duckdb, pandas, polars, pyarrow';

const days = [day0, day0 + dayMs];
const ticks = days.flatMap((day) =>
  Array.from({ length: 1500 }, (_, i): [number, number] => [day + i * 40_000, (i % 100) / 100]),
);

/** A working folder with an archive, named as on the page. */
async function lake(): Promise<string> {
  const cwd = folder();
  const archive = opened({ root: join(cwd, 'lake') });
  poll(archive, day0 + hourMs, [market('KXBTC', { question: 'Will BTC rise?' })]);
  for (const day of days)
    append(
      archive,
      answer(
        'KXBTC',
        ticks.filter(([t]) => day <= t && t < day + dayMs),
        { windows: [{ from: day, to: day + dayMs }] },
      ),
    );
  await publishNow(archive);
  archive.close();
  return cwd;
}

test(
  'the commands and programs of docs/SERVICE.md do what the page says',
  skipWithReason(noPython ? 'Python 3 or curl is missing' : null),
  async () => {
    const cwd = await lake();
    const path = `${join(project, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`;
    const run = promisify(execFile);
    const env: Record<string, string> = { PATH: path, HOME: cwd, LC_ALL: 'C.UTF-8' };
    const [start, requestBlock, streamBlock, ...later] = blocks('sh');

    const [create, serving, ...more] = start!.trimEnd().split('\n');
    expect(serving).toMatch(/^oddslake serve --output lake +#/);
    expect(more).toEqual([]);
    await run('sh', ['-euc', create!], { cwd, env });
    const key = readFileSync(join(cwd, 'notebooks.key'), 'utf8').trim();
    expect(key).toMatch(/^olk_\w+/);
    const { url } = await serve(join(cwd, 'lake'), key, '--set', `service.tokens.secret=${secret}`);

    expect(requestBlock).toContain('http://127.0.0.1:8080');
    const command = requestBlock!.replace('http://127.0.0.1:8080', url);
    const { stdout } = await run('sh', ['-euc', command], { cwd, env });
    expect(stdout).toMatch(/"status":"ok".*"symbol":"KXBTC".*"count":100,.*"markets":\[\{/s);
    expect(readFileSync(join(cwd, 'ticks.parquet')).toString('latin1', 0, 4)).toBe('PAR1');

    const streamed = await run('sh', ['-euc', streamBlock!], { cwd, env: { ...env, URL: url, KEY: key } });
    expect(streamed.stdout).toMatch(/^retry: \d+\nid: \S+\nevent: ready\ndata: \{"symbols":\["KXBTC"\],.*\}\n\n/);

    const isSync = (code: string): boolean => code.startsWith('# sync.py');
    const needsLibraries = (code: string): boolean => code.startsWith('import duckdb');
    const codes = blocks('python');
    expect([codes.filter(isSync).length, codes.filter(needsLibraries).length]).toEqual([1, 1]);
    const hasLibraries = has(libraries);
    if (!hasLibraries) console.warn('The data frames of docs/SERVICE.md are not tested: set ODDSLAKE_PYTHON.');
    const code = codes.filter((code) => !isSync(code) && (hasLibraries || !needsLibraries(code)));
    const same = 'rows == [{"symbol": "KXBTC", **tick} for tick in latest]';
    const printResult = `print(json.dumps([len(rows), ${same}, [point["parameters"] for point in points]]))`;
    env.URL = url;
    env.KEY = key;
    const nowMs = systemClock.nowMs();
    const user = { user: 'alice', workspace: null, scopes: ['research'], expiresAt: nowMs + hourMs };
    env.TOKEN = await issueUserToken({ ...tokens, secret }, user, nowMs);
    const result = await run(python, ['-W', 'error', '-c', [...code, printResult].join('\n')], { cwd, env });
    expect(JSON.parse(result.stdout)).toEqual([
      ticks.length,
      true,
      [0.3, 0.4, 0.5].map((sell_above) => ({ sell_above })),
    ]);

    writeFileSync(join(cwd, 'sync.py'), codes.find(isSync)!);
    expect(later).toHaveLength(1);
    const line = later[0]!.replace('python3', python);
    const first = await run('sh', ['-euc', line], { cwd, env });
    expect(first.stdout).toMatch(/^\d+ files, generation 1\n$/);
    expect(hashes(join(cwd, 'copy'), 'ticks', 'symbols', 'candles_1h')).toEqual(
      hashes(join(cwd, 'lake'), 'ticks', 'symbols', 'candles_1h'),
    );
    expect((await run('sh', ['-euc', line], { cwd, env })).stdout).toBe('0 files, generation 1\n');
    expect(globSync('copy/**/*.new', { cwd })).toEqual([]);

    // Copies also remove the files that a repair removes.
    const part = globSync('lake/ticks/*/*.parquet', { cwd })[0]!;
    writeFileSync(join(cwd, part), 'nothing that was published');
    const repair = ['verify', '--repair', '--output', 'lake'];
    await run(join(project, 'bin/oddslake'), repair, { cwd, env }).catch(() => {});
    expect(existsSync(join(cwd, part))).toBe(false);
    expect((await run('sh', ['-euc', line], { cwd, env })).stdout).toMatch(/, generation 2\n$/);
    expect(hashes(join(cwd, 'copy'), 'ticks', 'symbols', 'candles_1h')).toEqual(
      hashes(join(cwd, 'lake'), 'ticks', 'symbols', 'candles_1h'),
    );
  },
);

const nginx = ['/usr/sbin/nginx', '/usr/bin/nginx', '/usr/local/sbin/nginx'].find((path) => existsSync(path));

const noNginx = skipWithReason(nginx === undefined ? 'nginx is not installed' : null);

test('responses are complete behind the proxy of docs/SERVICE.md', noNginx, async () => {
  const cwd = await lake();
  const key = await keyOf(join(cwd, 'lake'));
  const { url, ask: requestBlock } = await serve(join(cwd, 'lake'), key);
  const socket = join(cwd, 'proxy.sock');
  const [block] = blocks('nginx');
  expect(block).toContain('http://127.0.0.1:8080');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((n) => `${n}_temp_path ${cwd}/${n};`);
  writeFileSync(
    join(cwd, 'nginx.conf'),
    `daemon off; pid ${cwd}/nginx.pid; error_log ${cwd}/error.log; ${process.getuid?.() === 0 ? 'user root;' : ''}
    events {} http { access_log off; ${temporary.join(' ')} server { listen unix:${socket};
    ${block!.replace('http://127.0.0.1:8080', url)} } }`,
  );
  const proxy = spawn(nginx!, ['-p', cwd, '-c', 'nginx.conf'], { stdio: 'ignore' });
  const waitForExit = new Promise((resolve) => proxy.once('close', resolve));
  onTestFinished(async () => {
    proxy.kill('SIGTERM');
    await waitForExit;
  });
  await waitFor(() => existsSync(socket), 'the socket of the proxy');
  const path = '/api/v1/historical/ticks?format=csv';
  const headers = ['-H', `Authorization: Bearer ${key}`];
  const command = ['-sf', '--unix-socket', socket, ...headers, `http://lake.example${path}`];
  const { stdout } = await promisify(execFile)('curl', command, { maxBuffer: 1e8 });
  expect(stdout).toBe(await (await requestBlock(path)).text());
  expect(stdout.trimEnd().split('\n')).toHaveLength(1 + ticks.length);
});
