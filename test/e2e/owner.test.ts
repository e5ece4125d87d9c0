import { chmodSync, chownSync, existsSync, globSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { skipWithReason } from '../harness/needs.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { access, expectDone, folder, jobArgs, sandbox } from './lake.ts';
import { run } from './run-program.ts';

// A command that writes runs as the owner of the archive, or is refused.

const isRoot = process.geteuid?.() === 0;
const needsRoot = skipWithReason(isRoot ? null : 'only root can give an archive to another user');
/** A user without a name. */
const owner = 54_321;

const listPaths = (root: string): string[] => [
  ...new Set(['.', ...globSync('**/*', { cwd: root }), ...globSync('.oddslake/**', { cwd: root })]),
];

/** Every path with its owner, when it was changed, and its contents. */
const look = (root: string): string[] =>
  listPaths(root)
    .sort()
    .map((path) => {
      const stats = lstatSync(join(root, path));
      const bytes = stats.isFile() ? readFileSync(join(root, path)).toString('base64') : '';
      return `${path} ${stats.uid} ${stats.ctimeMs} ${bytes}`;
    });

/** An archive of another user. */
async function makeForeign() {
  const box = await sandbox({ seed: 5, nowMs: null, markets: 4, ticksPerDay: 20 });
  const output = join(folder(), 'lake');
  await expectDone(run(jobArgs('nightly', output), access(box.url)));
  for (const path of listPaths(output)) chownSync(join(output, path), owner, owner);
  return { output, env: access(box.url) };
}

const window = ['--from', '2026-01-01', '--to', '2026-01-02'];

const writing: readonly (readonly string[])[] = [
  ['nightly', '--json'],
  ['markets'],
  ['ticks'],
  ['orderbook'],
  ['backfill', ...window],
  ['publish'],
  ['verify'],
  ['verify', '--repair'],
  ['import', '/etc/hostname', '--format', 'csv'],
  ['symbols', 'retry'],
  ['symbols', 'forget', 'A'],
  ['symbols', 'watch', 'A'],
  ['gaps', 'accept', 'A', ...window, '--reason', 'it was down'],
  ['gaps', 'revoke', 'A'],
  ['push', 's3://nowhere/lake'],
  ['report'],
  ['schedule', '--set', 'schedule.nightly=0 3 1 1 1'],
  ['serve', '--set', 'service.port=0'],
  ['keys', 'create', '--name', 'a'],
  ['keys', 'list'],
];

test('a command that writes is refused with the command that works, and changes nothing', needsRoot, async () => {
  const { output, env } = await makeForeign();
  const before = look(output);
  for (const args of writing) {
    const secret = ['--set', 'upstream.api_key=of-nobody'];
    const { code, stderr, stdout } = await run([...args, '--output', output, ...secret], env);
    const name = args.join(' ');
    expect([name, code]).toEqual([name, 2]);
    expect(stdout + stderr, name).toContain(`${output} belongs to #${owner}, and files of root in it would`);
    const quoted = args.map((arg) => (/^[\w/:=.-]+$/.test(arg) ? arg : `'${arg}'`)).join(' ');
    const command = /: (sudo -u '#54321' --preserve-env=(\S+) \S*oddslake (.*))$/m.exec(stderr)!;
    expect(command[2]!.split(',')).toEqual(expect.arrayContaining(Object.keys(env)));
    expect(command[3]).toBe(`${quoted} --output ${output}`);
    expect(stdout + stderr, name).not.toContain('of-nobody');
    expect(look(output), name).toEqual(before);
  }
});

test('what only reads is not refused, and keeps the owner from nothing', needsRoot, async () => {
  const { output, env } = await makeForeign();
  const out = folder();
  for (const args of [
    ['status'],
    ['gaps'],
    ['symbols'],
    ['sql', 'SELECT count(*) FROM ticks'],
    ['export', '--out', join(out, 'a.csv')],
    ['snapshot', join(out, 'copy')],
    ['report', '--out', join(out, 'a.html')],
    ['changes', '--since', '0'],
    ['nightly', '--dry-run'],
    ['backfill', ...window, '--dry-run'],
    ['doctor', '--offline'],
  ])
    expect(
      (await run([...args, '--output', output, '--set', 'source.name=box'], env)).stderr,
      args.join(' '),
    ).not.toContain('belongs to');
  expect(existsSync(join(out, 'a.csv'))).toBe(true);
  expect(look(output).filter((line) => line.split(' ')[1] === '0')).toEqual([]);
  const doctor = async () => {
    const { stdout } = await run(['doctor', '--offline', '--json', '--output', output], env);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; message: string; action: string }[] };
    return findings.find(({ check }) => check === 'permissions')!;
  };
  expect((await doctor()).action).toBe(`Run as the owner: sudo -u '#${owner}'`);
  for (const path of [scratchRoot, dirname(output)]) chmodSync(path, 0o711);
  process.seteuid!(owner);
  onTestFinished(() => process.seteuid!(0));
  await expectDone(run(jobArgs('nightly', output), env));
  expect((await doctor()).message).toBe('this user can write to the archive');
  // What a run of root left.
  process.seteuid!(0);
  chownSync(join(output, 'candles_1h', readdirSync(join(output, 'candles_1h'))[0]!), 0, 0);
  process.seteuid!(owner);
  const left = await doctor();
  expect(left.message).toMatch(/candles_1h\/date=\S+ does not belong to #54321, the owner of the archive$/);
  expect(left.action).toBe(`sudo chown -R '#${owner}' ${output}`);
  const other = await run(['publish', '--output', out], env);
  expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('belongs to root')]);
});
