import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock } from '../../src/base/system.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { access, folder, run, startStanding, type Variables } from '../e2e/lake.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { filesOf, textOf } from './blocks.ts';
import { project } from './kept-current.ts';
import { place, type Typist, typist } from './typist.ts';

// What a reader of the pages has: a market data service, a key of it, an archive named `lake`, and curl.

export const secret = 'a secret of more than 32 characters, for tests';

/** The symbol that pages ask for. */
const symbol = 'KXBTC';
const day0 = Date.UTC(2026, 10, 19);

export interface World {
  readonly box: Sandbox;
  /** An archive that is copied for every page. */
  readonly lake: string;
  end(): Promise<void>;
}

const quickly: Variables = { ODDSLAKE_REQUESTS_PER_SECOND: '1000' };

/** A simulated service and an archive of a night of it, with some ticks of the symbol that pages name. */
export async function world(): Promise<World> {
  const box = await startSandbox({ markets: 8, ticksPerDay: 40 }, { clock: systemClock });
  const root = mkdtempSync(join(scratchRoot, 'oddslake-pages-'));
  const lake = join(root, 'lake');
  const env = { ...access(box.url), ...quickly };
  const rows = Array.from({ length: 500 }, (_, i) => `${symbol},${day0 + i * 60_000},${(i % 100) / 100}`);
  place(root, 'ticks.csv', `symbol,t,p\n${rows.join('\n')}\n`);
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

/** What a page needs besides, and what is typed in place of what it says. */
export interface Besides {
  prepare?(cwd: string, world: World): Promise<void> | void;
  readonly replace?: readonly (readonly [was: string, is: string])[];
  /** Whether it makes `lake` itself. */
  readonly startsWithout?: boolean;
}

const besides: Readonly<Record<string, Besides>> = {
  // A key that ends lies ahead, whenever this is run.
  'docs/CREDENTIALS.md': { replace: [['2027-01-01', '2099-12-31']] },
  'README.md': { startsWithout: true },
  'docs/COLLECTING.md': { prepare: recordings },
  // What it has its reader fill, which takes a minute.
  'docs/for-data-scientists.md': {
    prepare: (cwd, { lake }) => cpSync(lake, join(cwd, 'output/study'), { recursive: true }),
  },
};

/** Where a machine keeps what, and where a reader does who has no machine. */
const machine = [
  ['/etc/oddslake', 'etc'],
  ['/var/lib/oddslake', ''],
  ['/var/lib/prometheus/node-exporter', ''],
  ['/srv/other-lake', 'lake'],
] as const;

/** Files as somebody may have them from elsewhere. */
async function recordings(cwd: string, { box, lake }: World): Promise<void> {
  const headers = { authorization: 'Bearer sandbox-key' };
  const listed = await fetch(`${box.url}/api/v1/markets?limit=5`, { headers });
  const { markets } = (await listed.json()) as { markets: { symbol?: string; venues?: { ticker: string }[] }[] };
  const [name] = markets.flatMap(({ symbol: own, venues }) => own ?? venues?.map(({ ticker }) => ticker) ?? []);
  const answer = await fetch(`${box.url}/api/v1/ticks?symbol=${encodeURIComponent(name!)}`, { headers });
  place(cwd, 'saved-pages/one.json', await answer.text());
  const parquet: Readonly<Record<string, string>> = {
    ticks: `SELECT '${symbol}' AS symbol, TIMESTAMP '2026-07-11 12:00:00' AS t, 0.5::DOUBLE AS p`,
    markets: `SELECT '${symbol}' AS symbol, 1.0::DOUBLE AS resolved_yes, 'Will it?' AS question`,
  };
  const code = '"$0" sql --output "$1" --format parquet "$2" > "$3"';
  for (const [file, sql] of Object.entries(parquet))
    await promisify(execFile)('sh', ['-c', code, join(cwd, 'bin/oddslake'), lake, sql, join(cwd, `${file}.parquet`)]);
}

/** Somebody who has read nothing but this page, in a folder of their own. */
export async function readerOf(page: string, there: World): Promise<Typist> {
  const cwd = folder();
  const { prepare, replace = [], startsWithout = false } = besides[page] ?? {};
  const text = textOf(page);
  mkdirSync(cwd, { recursive: true });
  if (!startsWithout) cpSync(there.lake, join(cwd, 'lake'), { recursive: true });
  for (const name of ['key.txt', 'etc/key', 'etc/api-key']) place(cwd, name, 'sandbox-key\n');
  const config = join(project, 'deploy/oddslake.yaml');
  if (existsSync(config)) {
    const own = machine.reduce((all, [was, is]) => all.replaceAll(was, join(cwd, is)), readFileSync(config, 'utf8'));
    place(cwd, 'etc/oddslake.yaml', own.replaceAll('https://example.org', there.box.url));
  }
  for (const { name, code } of filesOf(text)) place(cwd, name, code);
  const port = await freePort();
  const env: Record<string, string> = { ...quickly, ODDSLAKE_TOKEN_SECRET: secret };
  if (!startsWithout) Object.assign(env, access(there.box.url), { ODDSLAKE_OUTPUT: join(cwd, 'lake') });
  // Another oddslake, with what this one may have lost.
  const other = text.includes('https://other.example') ? await served(there.lake) : {};
  if (other.KEY !== undefined) env.ODDSLAKE_FROM_API_KEY = other.KEY;
  const reader = typist(cwd, env, [
    ...replace,
    // What it does, once all is installed: .ci/run types it in a clean clone.
    ['make run ', 'bin/oddslake demo --quiet '],
    // Here everybody is the user that the archive belongs to.
    ['sudo -u oddslake ', ''],
    ['https://example.org', there.box.url],
    ['https://other.example', other.URL ?? ''],
    ...machine.map(([was, is]) => [was, join(cwd, is)] as const),
    ['127.0.0.1:8080', `127.0.0.1:${port}`],
    ['oddslake serve ', `oddslake serve --set service.port=${port} `],
  ]);
  await prepare?.(cwd, there);
  // What other pages say how to have.
  if (/\$(URL|KEY|TOKEN)\b/.test(text) && !/^\s*(\S*\/)?oddslake serve/m.test(text))
    Object.assign(reader.env, await served(join(cwd, 'lake')));
  if (/\$TOKEN\b/.test(text)) reader.env.TOKEN = await tokenOf();
  return reader;
}

/** The archive at a root over HTTP: where, and a key for it. */
async function served(root: string): Promise<{ URL?: string; KEY?: string }> {
  const args = ['serve', '--output', root, '--set', 'service.port=0', '--json'];
  const { first } = await startStanding(args, { ODDSLAKE_TOKEN_SECRET: secret });
  const KEY = (await run(['keys', 'create', '--name', 'reader', '--output', root])).stdout.trim();
  return { URL: (JSON.parse(first) as { url: string }).url, KEY };
}

async function tokenOf(): Promise<string> {
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
