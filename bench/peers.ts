import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { findLimit } from './limit.ts';

/** The scripts that oddslake is compared with, and the packages they need. */
const packagesOf = {
  duckdb: ['duckdb'],
  polars: ['polars'],
  pandas: ['pandas', 'pyarrow'],
  dlt: ['dlt'],
} as const;

type ScriptName = keyof typeof packagesOf;

/** `limit` is no tool that anybody uses instead of oddslake, but the measure of all of them: see limit.ts. */
export type PeerName = ScriptName | 'limit';

/** Scripts that serve ticks over HTTP, and the packages they need. */
const serverPackagesOf = {
  postgres: ['fastapi', 'uvicorn', 'asyncpg', 'uvloop', 'httptools', 'orjson', 'duckdb'],
  duckdb: ['fastapi', 'uvicorn', 'duckdb', 'uvloop', 'httptools', 'orjson'],
} as const;

export type PeerServerName = keyof typeof serverPackagesOf;

interface PeerServer {
  /** The command of its script, bench/peers/serve_NAME.py, with these arguments. */
  argv(...args: readonly string[]): readonly [string, ...string[]];
  /** E.g. `fastapi 0.165.0, uvicorn 0.54.0`. */
  readonly version: string;
}

export interface Peer {
  readonly name: PeerName;
  /** The command with its arguments: a folder of pages, and a folder for Parquet day partitions. */
  argv(...args: readonly string[]): readonly [string, ...string[]];
  /** E.g. `duckdb 1.5.5`. */
  readonly version: string;
}

export interface Peers {
  /** A peer that can run on this machine, or why it cannot. */
  find(name: PeerName): Peer | { readonly missing: string };
  /** A peer of the HTTP service that can run on this machine, or why it cannot. */
  findServer(name: PeerServerName): PeerServer | { readonly missing: string };
  /** Compares the day partitions below `ticks` in both folders; null if they are equal, else the difference. */
  differ(ours: string, theirs: string): string | null;
  /**
   * The output of a script in bench/peers, or the reason for its failure. The reason completes a sentence that starts
   * with its name.
   */
  run(script: string, args: readonly string[]): { readonly printed: string } | { readonly failed: string };
}

const folder = join(import.meta.dirname, 'peers');

/** @param given a Python to use instead of bench/peers/.venv */
export function findPeers(given: string | undefined, tell: (line: string) => void): Peers {
  // Programs start in other working directories.
  const python = given?.includes('/') ? resolve(given) : (given ?? join(folder, '.venv', 'bin', 'python'));
  const run: Peers['run'] = (script, args) => {
    const { status, stdout, stderr, error } = spawnSync(python, [join(folder, script), ...args], { encoding: 'utf8' });
    if (status === 0) return { printed: stdout };
    return { failed: (error?.message ?? `${stdout}${stderr}`.trim().slice(-1000)) || `exited with ${status}` };
  };
  let limit: ReturnType<typeof findLimit> | undefined;
  return {
    find(name) {
      if (name === 'limit') {
        limit ??= findLimit(tell);
        return limit;
      }
      const script = join(folder, `${name}_pages.py`);
      if (!existsSync(script)) return { missing: `${name}_pages.py does not exist` };
      const result = versionsOf(python, packagesOf[name]);
      return 'missing' in result
        ? result
        : { name, version: result.version, argv: (...args) => [python, script, ...args] };
    },
    findServer(name) {
      const result = versionsOf(python, serverPackagesOf[name]);
      if ('missing' in result) return result;
      return { version: result.version, argv: (...args) => [python, join(folder, `serve_${name}.py`), ...args] };
    },
    differ(ours, theirs) {
      const result = run('check.py', [ours, theirs]);
      return 'failed' in result ? result.failed : null;
    },
    run,
  };
}

/** Imports the packages instead of only locating them, because a package can be half installed. */
function versionsOf(
  python: string,
  packages: readonly string[],
): { readonly version: string } | { readonly missing: string } {
  const script = `import importlib, importlib.metadata as m, sys
for name in sys.argv[1:]: importlib.import_module(name)
print(', '.join(f'{name} {m.version(name)}' for name in sys.argv[1:]))`;
  const { status, stdout, stderr, error } = spawnSync(python, ['-c', script, ...packages], { encoding: 'utf8' });
  if (error !== undefined) return { missing: 'bench/peers/.venv has no Python, and PEERS_PYTHON is not set' };
  return status === 0 ? { version: stdout.trim() } : { missing: stderr.trim().split('\n').at(-1) ?? 'unknown' };
}
