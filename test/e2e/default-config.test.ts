import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { access, expectDone, folder, sandbox } from './lake.ts';
import { run } from './run-program.ts';

// The config file that a command reads if no flag names one.

const said = 'the settings are those of oddslake.yaml in this folder';

/** A folder with an archive at `lake`, and a config that names it. */
async function configuredFolder(): Promise<string> {
  const [cwd, box] = [folder(), await sandbox({ markets: 3, ticksPerDay: 20 })];
  await expectDone(run(['markets', '--output', 'lake', '--json'], access(box.url), cwd));
  writeFileSync(join(cwd, 'oddslake.yaml'), `upstream: {base_url: ${box.url}}\narchive: {output: lake}\n`);
  return cwd;
}

describe('oddslake.yaml in the working folder', () => {
  test('is read by jobs and readers without a flag, and one line says so', async () => {
    const cwd = await configuredFolder();
    const polled = await expectDone(run(['markets'], { ODDSLAKE_API_KEY: 'sandbox-key' }, cwd));
    expect(polled.stdout).toContain(` · ${join(cwd, 'lake')}\n`);
    expect(polled.stderr.split(said)).toHaveLength(2);
    const status = await expectDone(run(['status'], {}, cwd));
    expect(status.stdout).toContain(join(cwd, 'lake'));
    expect(status.stderr.trimEnd().split('\n')).toEqual([expect.stringContaining(said)]);
    const shown = await expectDone(run(['config', 'show'], {}, cwd));
    expect([shown.stdout.split('\n')[0], shown.stderr]).toEqual(['config file oddslake.yaml', '']);
  });

  test.each([['--quiet'], ['--json'], ['--log-level', 'warn']])('is not announced with %s', async (...flags) => {
    const cwd = await configuredFolder();
    const { stderr } = await expectDone(run(['status', ...flags], {}, cwd));
    expect(stderr).toBe('');
  });

  test('is not read where --config or ODDSLAKE_CONFIG names another, whose folder is where the root starts', async () => {
    const cwd = await configuredFolder();
    mkdirSync(join(cwd, 'etc'));
    writeFileSync(join(cwd, 'etc', 'other.yaml'), 'archive: {output: its}\n');
    for (const [flags, env] of [
      [['--config', 'etc/other.yaml'], {}],
      [[], { ODDSLAKE_CONFIG: 'etc/other.yaml' }],
    ] as const) {
      const { code, stderr } = await run(['status', ...flags], env, cwd);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`no archive at ${join(cwd, 'etc', 'its')}.`)]);
      expect(stderr).not.toContain(said);
    }
  });

  test('is refused if it is wrong, as a named one is', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'oddslake.yaml'), 'archive: {outptu: lake}\n');
    const { code, stderr } = await run(['status'], {}, cwd);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/oddslake\.yaml:1: unknown setting archive\.outptu/)]);
  });

  test('does not change the demo', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'oddslake.yaml'), 'sources: {alpha: {base_url: "http://127.0.0.1:9"}}\n');
    await expectDone(run(['demo'], {}, cwd));
    expect(readdirSync(join(cwd, 'output'))).toEqual(['demo']);
  });
});
