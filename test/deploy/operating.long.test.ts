import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { hashes, manifestOf, sandbox } from '../e2e/lake.ts';
import { run as runProgram } from '../e2e/run-program.ts';
import { findCalls } from './command-lines.ts';

const page = readFileSync(new URL('../../docs/OPERATING.md', import.meta.url), 'utf8');

/** The command lines of one section, with paths in a folder that replaces the machine. */
function linesOf(section: string, at: string): string[][] {
  const body = page.split(/^## /m).find((one) => one.startsWith(`${section}\n`))!;
  return [...body.matchAll(/```sh\n(.*?)```/gs)]
    .flatMap(([, block]) => findCalls(block!))
    .map((args) => args.map((text) => text.replace(/(^|=)\/(?=(etc|var|srv)\/)/, `$1${at}/`)));
}

/** Sets up a machine as the page describes it, with its config and a service to poll. */
async function machine() {
  const at = mkdtempSync(join(tmpdir(), 'oddslake-operating-'));
  onTestFinished(() => rmSync(at, { recursive: true, force: true }));
  const box = await sandbox({ seed: 9, markets: 4, ticksPerDay: 60 });
  const config = join(at, 'etc/oddslake/oddslake.yaml');
  cpSync(new URL('../../deploy/oddslake.yaml', import.meta.url), config);
  const text = readFileSync(config, 'utf8')
    .replace('https://example.org', box.url)
    .replace('/var/lib', join(at, 'var/lib'))
    .replace('requests_per_second: 5', 'requests_per_second: 2000');
  writeFileSync(config, text);
  writeFileSync(join(at, 'etc/oddslake/api-key'), 'sandbox-key\n');
  const lake = join(at, 'var/lib/oddslake/lake');
  const run = async (args: readonly string[], env = {}) => {
    const result = await runProgram(args, env);
    expect(result.code, `${args.join(' ')}\n${result.stdout}\n${result.stderr}`).toBe(0);
    return result;
  };
  return { at, box, lake, run };
}

test('the commands for installation and monitoring run on a machine set up by the page', async () => {
  const { at, lake, run } = await machine();
  for (const section of ['Install', 'Monitor it']) for (const args of linesOf(section, at)) await run(args);
  expect(manifestOf(lake).generation).toBeGreaterThan(0);
});

test('a backup made by the page restores the archive, which continues', async () => {
  const { at, lake, run } = await machine();
  const [snapshot, verify, nightly] = linesOf('Backup and restore', at);
  await run(nightly!);
  const before = hashes(lake, 'ticks', 'coverage', 'markets', 'symbols');
  await run(snapshot!);
  // Copies as rsync would.
  cpSync(join(at, 'var/lib/oddslake/snapshot'), join(at, 'backup'), { recursive: true });
  rmSync(join(at, 'var/lib/oddslake/snapshot'), { recursive: true });
  renameSync(lake, join(at, 'lost'));
  cpSync(join(at, 'backup'), lake, { recursive: true });
  await run(verify!);
  expect(hashes(lake, 'ticks', 'coverage', 'markets', 'symbols')).toEqual(before);
  await run(nightly!);
  await run(verify!);
  // A moved archive continues at another path.
  cpSync(lake, join(at, 'elsewhere'), { recursive: true });
  await run([...nightly!, '--output', join(at, 'elsewhere')]);
});

test('merges two archives, and restores lost data from the other one', async () => {
  const { at, run } = await machine();
  const [unite, repair] = linesOf('Two machines', at);
  await run(linesOf('Install', at)[0]!);
  const other = join(at, 'srv/other-lake');
  await run(['nightly', '--config', join(at, 'etc/oddslake/oddslake.yaml'), '--output', other]);
  await run(unite!);
  await run(repair!, { ODDSLAKE_FROM_API_KEY: 'key' });
});
