import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** The scripts that oddslake is measured against, and the packages that each needs. */
const packagesOf = {
  duckdb: ['duckdb'],
  polars: ['polars'],
  pandas: ['pandas', 'pyarrow'],
  dlt: ['dlt'],
} as const;

export type PeerName = keyof typeof packagesOf;

export interface Peer {
  readonly name: PeerName;
  /** Turns a folder of pages into day partitions of Parquet in `out`. */
  argv(pages: string, out: string): readonly [string, ...string[]];
  /** E.g. `duckdb 1.5.5`. */
  readonly version: string;
}

export interface Peers {
  /** A peer that can run here, or why it cannot. */
  find(name: PeerName): Peer | { readonly missing: string };
  /** Whether the day partitions below `ticks` in both folders hold the same: null, or what differs. */
  differ(ours: string, theirs: string): string | null;
  /** What a script of bench/peers prints, or why it does not: completes a sentence of its name. */
  run(script: string, args: readonly string[]): { readonly printed: string } | { readonly failed: string };
}

const folder = join(import.meta.dirname, 'peers');

/** @param given another Python than that of bench/peers/.venv */
export function findPeers(given: string | undefined): Peers {
  // Programs are started from other folders than this one.
  const python = given?.includes('/') ? resolve(given) : (given ?? join(folder, '.venv', 'bin', 'python'));
  const run: Peers['run'] = (script, args) => {
    const { status, stdout, stderr, error } = spawnSync(python, [join(folder, script), ...args], { encoding: 'utf8' });
    if (status === 0) return { printed: stdout };
    return { failed: (error?.message ?? `${stdout}${stderr}`.trim().slice(-1000)) || `ended with ${status}` };
  };
  return {
    find(name) {
      const script = join(folder, `${name}_pages.py`);
      if (!existsSync(script)) return { missing: `there is no ${name}_pages.py` };
      const found = versionsOf(python, packagesOf[name]);
      return 'missing' in found
        ? found
        : { name, version: found.version, argv: (pages, out) => [python, script, pages, out] };
    },
    differ(ours, theirs) {
      const found = run('check.py', [ours, theirs]);
      return 'failed' in found ? found.failed : null;
    },
    run,
  };
}

/** Imports the packages, not only looks them up: a half installed one is missing too. */
function versionsOf(
  python: string,
  packages: readonly string[],
): { readonly version: string } | { readonly missing: string } {
  const script = `import importlib, importlib.metadata as m, sys
for name in sys.argv[1:]: importlib.import_module(name)
print(', '.join(f'{name} {m.version(name)}' for name in sys.argv[1:]))`;
  const { status, stdout, stderr, error } = spawnSync(python, ['-c', script, ...packages], { encoding: 'utf8' });
  if (error !== undefined) return { missing: 'there is no Python in bench/peers/.venv, nor one named by PEERS_PYTHON' };
  return status === 0 ? { version: stdout.trim() } : { missing: stderr.trim().split('\n').at(-1) ?? 'unknown' };
}
