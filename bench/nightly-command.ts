import { join } from 'node:path';
import type { Bench } from './bench.ts';
import type { Command } from './measure.ts';
import type { BenchedSandbox } from './sandbox.ts';

/** Concurrent requests of oddslake and of the bare client. */
const concurrency = 4;

/** A rate that delays no request. */
const unlimitedRate = 100_000;

/** Runs `oddslake nightly` into `out`, which may not exist yet, as fast as `rate` allows. */
export function nightly(
  { launcher, folder, env }: Bench,
  { url, key }: Pick<BenchedSandbox, 'url' | 'key'>,
  out: string,
  flags: readonly string[] = [],
  rate = unlimitedRate,
): Command {
  const set = [`upstream.requests_per_second=${rate}`, `upstream.concurrency=${concurrency}`, 'source.name=bench'];
  return {
    argv: [launcher, 'nightly', '--output', out, '--quiet', ...flags, ...set.flatMap((one) => ['--set', one])],
    cwd: folder,
    env: { ...env, ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: key },
  };
}

/** Sends the requests in a file of paths, one per line, with a client that only reads the bodies. */
export const bareClient = ({ folder, env }: Bench, { url, key }: BenchedSandbox, requested: string): Command => ({
  argv: [process.execPath, join(import.meta.dirname, 'bare-client.ts'), url, key, requested, String(concurrency)],
  cwd: folder,
  env,
});
