import { cpSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { jobHere, runHere } from '../e2e/here.ts';
import { hashes, manifestOf, sandbox } from '../e2e/lake.ts';
import { callsIn } from './command-lines.ts';

const page = readFileSync(new URL('../../docs/OPERATING.md', import.meta.url), 'utf8');

/** The command lines of one section, to be run in a folder that stands for the machine. */
function linesOf(section: string, at: string): string[][] {
  const body = page.split(/^## /m).find((one) => one.startsWith(`${section}\n`))!;
  return [...body.matchAll(/```sh\n(.*?)```/gs)]
    .flatMap(([, block]) => callsIn(block!))
    .map((args) => args.map((text) => text.replace(/(^|=)\/(?=(etc|var|srv)\/)/, `$1${at}/`)));
}

/** A machine as the page describes it, with its config, and a service to poll. */
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
  cpSync(new URL('../../deploy/oddslake.yaml', import.meta.url), join(at, 'var/lib/prometheus/node-exporter/x'));
  const run = async (args: readonly string[], env = {}) => {
    const ended = await runHere(args, env);
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}\n${ended.stderr}`).toBe(0);
    return ended;
  };
  return { at, box, lake, run };
}

test('what the page says to run by hand, and to watch with, runs on a machine that is set up as it says', async () => {
  const { at, lake, run } = await machine();
  for (const section of ['Install', 'Notice that it stopped', 'Upgrade, and back'])
    for (const args of linesOf(section, at)) await run(args);
  expect(manifestOf(lake).generation).toBeGreaterThan(0);
  expect(globSync('var/lib/prometheus/node-exporter/*.prom', { cwd: at })).toHaveLength(1);
});

test('a backup taken as the page says is, restored, the archive as it was, and goes on', async () => {
  const { at, lake, run } = await machine();
  const [take, verify, nightly] = linesOf('Backup, and back again', at);
  await run(nightly!);
  const before = hashes(lake, 'ticks', 'coverage', 'markets', 'symbols');
  await run(take!);
  // As rsync does.
  cpSync(join(at, 'var/lib/oddslake/snapshot'), join(at, 'backup'), { recursive: true });
  rmSync(join(at, 'var/lib/oddslake/snapshot'), { recursive: true });
  renameSync(lake, join(at, 'lost'));
  cpSync(join(at, 'backup'), lake, { recursive: true });
  await run(verify!);
  expect(hashes(lake, 'ticks', 'coverage', 'markets', 'symbols')).toEqual(before);
  await run(nightly!);
  await run(verify!);
  // Moved with all that is in it, it goes on at another path.
  cpSync(lake, join(at, 'elsewhere'), { recursive: true });
  await run([...nightly!, '--output', join(at, 'elsewhere')]);
});

test('two archives become one, and one asks the other for what it lost', async () => {
  const { at, box, run } = await machine();
  const [repair, take] = linesOf('Two machines', at);
  await run(linesOf('Install', at)[0]!);
  const other = join(at, 'srv/other-lake');
  expect((await jobHere('nightly', box.url, other)).code).toBe(0);
  await run(take!);
  await run(repair!, { ODDSLAKE_FROM_API_KEY: 'key' });
});
