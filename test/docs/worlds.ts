import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock } from '../../src/base/system.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { access, folder, startLongRunning, type Variables } from '../e2e/lake.ts';
import { run } from '../e2e/run-program.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { findFiles, readPage } from './blocks.ts';
import { project } from './kept-current.ts';
import { openShell, type Shell, writeInto } from './typist.ts';

// The environment of a reader of the pages: a market data service, a key for it, an archive named `lake`, and curl.

const secret = 'a secret of more than 32 characters, for tests';

/** The symbol that pages use. */
const symbol = 'KXBTC';
const day0 = Date.UTC(2026, 10, 19);

export interface PageSetup {
  readonly box: Sandbox;
  /** An archive; each page gets a copy. */
  readonly lake: string;
  end(): Promise<void>;
}

const fastFlags: Variables = { ODDSLAKE_REQUESTS_PER_SECOND: '1000' };

/** Starts a simulated service and collects one night of it, with some ticks of the symbol that pages use. */
export async function openWorld(): Promise<PageSetup> {
  const box = await startSandbox({ markets: 8, ticksPerDay: 40 }, { clock: systemClock });
  const root = mkdtempSync(join(scratchRoot, 'oddslake-pages-'));
  const lake = join(root, 'lake');
  const env = { ...access(box.url), ...fastFlags };
  const rows = Array.from({ length: 500 }, (_, i) => `${symbol},${day0 + i * 60_000},${(i % 100) / 100}`);
  writeInto(root, 'ticks.csv', `symbol,t,p\n${rows.join('\n')}\n`);
  for (const args of [['nightly'], ['import', join(root, 'ticks.csv'), '--covers', '2026-11-19..2026-11-20']]) {
    const { code, stderr } = await run([...args, '--output', lake, '--quiet'], env);
    if (code !== 0) throw new Error(stderr);
  }
  return {
    box,
    lake,
    async end() {
      await box.stop();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** What a page needs in addition, and replacements for its text. */
interface PageNeeds {
  prepare?(cwd: string, world: PageSetup): Promise<void> | void;
  readonly replace?: readonly (readonly [was: string, is: string])[];
  /** Whether its commands create `lake`. */
  readonly startsWithout?: boolean;
}

const pageNeeds: Readonly<Record<string, PageNeeds>> = {
  // The expiry time of a key has to be in the future.
  'docs/CREDENTIALS.md': { replace: [['2027-01-01', '2099-12-31']] },
  'README.md': { startsWithout: true },
  'docs/COLLECTING.md': { prepare: writeRecordings },
  'docs/OPERATING.md': { prepare: (cwd, { lake }) => cpSync(lake, join(cwd, 'other-lake'), { recursive: true }) },
  // The page creates this archive with a command that takes a minute.
  'docs/for-data-scientists.md': {
    prepare: (cwd, { lake }) => cpSync(lake, join(cwd, 'output/study'), { recursive: true }),
  },
};

/** Paths on an installed machine, and their replacement in the folder of the test. */
const machine = [
  ['/etc/oddslake', 'etc'],
  ['/var/lib/oddslake', ''],
  ['/srv/other-lake', 'other-lake'],
] as const;

/** Writes files to import. */
async function writeRecordings(cwd: string, { box, lake }: PageSetup): Promise<void> {
  const headers = { authorization: 'Bearer sandbox-key' };
  const listed = await fetch(`${box.url}/api/v1/markets?limit=5`, { headers });
  const { markets } = (await listed.json()) as { markets: { symbol?: string; venues?: { ticker: string }[] }[] };
  const [name] = markets.flatMap(({ symbol: own, venues }) => own ?? venues?.map(({ ticker }) => ticker) ?? []);
  const response = await fetch(`${box.url}/api/v1/ticks?symbol=${encodeURIComponent(name!)}`, { headers });
  writeInto(cwd, 'saved-pages/one.json', await response.text());
  const parquet: Readonly<Record<string, string>> = {
    ticks: `SELECT '${symbol}' AS symbol, TIMESTAMP '2026-07-11 12:00:00' AS t, 0.5::DOUBLE AS p`,
    markets: `SELECT '${symbol}' AS symbol, 1.0::DOUBLE AS resolved_yes, 'Will it?' AS question`,
  };
  const code = '"$0" sql --output "$1" --format parquet "$2" > "$3"';
  for (const [file, sql] of Object.entries(parquet))
    await promisify(execFile)('sh', ['-c', code, join(cwd, 'bin/oddslake'), lake, sql, join(cwd, `${file}.parquet`)]);
}

/** Prepares the environment of one page in its own folder. */
export async function openReader(page: string, world: PageSetup): Promise<Shell> {
  const cwd = folder();
  const { prepare, replace = [], startsWithout = false } = pageNeeds[page] ?? {};
  const text = readPage(page);
  mkdirSync(cwd, { recursive: true });
  if (!startsWithout) cpSync(world.lake, join(cwd, 'lake'), { recursive: true });
  for (const name of ['key.txt', 'etc/key', 'etc/api-key']) writeInto(cwd, name, 'sandbox-key\n');
  const config = join(project, 'deploy/oddslake.yaml');
  if (existsSync(config)) {
    const own = machine.reduce((all, [from, to]) => all.replaceAll(from, join(cwd, to)), readFileSync(config, 'utf8'));
    writeInto(cwd, 'etc/oddslake.yaml', own.replaceAll('https://example.org', world.box.url));
  }
  for (const { name, code } of findFiles(text)) writeInto(cwd, name, code);
  const port = await freePort();
  const env: Record<string, string> = { ...fastFlags, ODDSLAKE_TOKEN_SECRET: secret };
  if (!startsWithout) Object.assign(env, access(world.box.url), { ODDSLAKE_OUTPUT: join(cwd, 'lake') });
  // Another oddslake, to restore lost data from.
  const other = text.includes('https://other.example') ? await serveArchive(world.lake) : {};
  if (other.KEY !== undefined) env.ODDSLAKE_FROM_API_KEY = other.KEY;
  const reader = openShell(cwd, env, [
    ...replace,
    // What `make run` does after the installation. .ci/run runs it in a clean clone.
    ['make run ', 'bin/oddslake demo --quiet '],
    // The user of the test owns the archive.
    ['sudo -u oddslake ', ''],
    ['https://example.org', world.box.url],
    ['https://other.example', other.URL ?? ''],
    ...machine.map(([from, to]) => [from, join(cwd, to)] as const),
    ['127.0.0.1:8080', `127.0.0.1:${port}`],
    ['oddslake serve ', `oddslake serve --set service.port=${port} `],
  ]);
  await prepare?.(cwd, world);
  // The variables that other pages explain.
  if (/\$(URL|KEY|TOKEN)\b/.test(text) && !/^\s*(\S*\/)?oddslake serve/m.test(text))
    Object.assign(reader.env, await serveArchive(join(cwd, 'lake')));
  if (/\$TOKEN\b/.test(text)) reader.env.TOKEN = await issueToken();
  return reader;
}

/** Serves the archive at a root; its address and a key for it. */
async function serveArchive(root: string): Promise<{ URL?: string; KEY?: string }> {
  const args = ['serve', '--output', root, '--set', 'service.port=0', '--json'];
  const { first } = await startLongRunning(args, { ODDSLAKE_TOKEN_SECRET: secret });
  const KEY = (await run(['keys', 'create', '--name', 'reader', '--output', root])).stdout.trim();
  return { URL: (JSON.parse(first) as { url: string }).url, KEY };
}

async function issueToken(): Promise<string> {
  const args = ['tokens', 'issue', '--user', 'local', '--scope', 'research'];
  return (await run(args, { ODDSLAKE_TOKEN_SECRET: secret })).stdout.trim();
}

function freePort(): Promise<number> {
  const server = createServer();
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    }),
  );
}
