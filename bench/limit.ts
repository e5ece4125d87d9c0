import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The limit program, bench/limit: the least work that gives the ticks that `oddslake import` publishes. */

const folder = join(import.meta.dirname, 'limit');
const program = join(folder, 'target', 'release', 'limit');
/** Part files of a day: the default of archive.parts. */
const parts = 4;

/** The stages of the program, in the order in which it prints their nanoseconds. */
export type LimitStage = 'read' | 'decode' | 'merge' | 'encode' | 'write';

/** The program as a peer of `oddslake import`, see peers.ts. */
interface LimitPeer {
  readonly name: 'limit';
  readonly version: string;
  argv(...args: readonly string[]): readonly [string, ...string[]];
}

/**
 * Builds the program, unless it is built. The first build downloads the crates that Cargo.lock names, and takes some
 * minutes.
 */
export function findLimit(tell: (line: string) => void): LimitPeer | { readonly missing: string } {
  const cargo = (...args: readonly string[]) => spawnSync('cargo', args, { cwd: folder, encoding: 'utf8' });
  const version = cargo('--version');
  if (version.error !== undefined || version.status !== 0) return { missing: 'cargo is not installed' };
  tell('building bench/limit with cargo');
  const built = cargo('build', '--release', '--locked', '--quiet');
  if (built.status !== 0) {
    tell(built.stderr.trim());
    return { missing: `cargo build failed: ${/^error.*$/m.exec(built.stderr)?.[0] ?? 'unknown'}` };
  }
  return {
    name: 'limit',
    version: `limit (${findCrates(readFileSync(join(folder, 'Cargo.toml'), 'utf8'))}; ${version.stdout.split(' ', 2).join(' ')})`,
    argv: (...args) => [program, ...args, String(parts)],
  };
}

/** The crates that do the work, e.g. `sonic-rs 0.5.10, parquet 60.1.0`. */
export function findCrates(manifest: string): string {
  return ['sonic-rs', 'parquet']
    .map((name) => `${name} ${new RegExp(`^${name} = .*?"=([\\d.]+)"`, 'm').exec(manifest)?.[1] ?? 'unknown'}`)
    .join(', ');
}
