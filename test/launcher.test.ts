import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const launcher = new URL('../bin/oddslake', import.meta.url).pathname;
/** Folders with sh's own tools but, on most machines, no Node that is new enough. */
const tools = '/usr/bin:/bin';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'launcher with space-'));
  file('bin/oddslake', '');
  copyFileSync(launcher, join(folder, 'bin/oddslake'));
  chmodSync(join(folder, 'bin/oddslake'), 0o755);
  file('package.json', '{"type": "module"}');
});
afterEach(() => rmSync(folder, { recursive: true }));

function file(path: string, text: string): string {
  const whole = join(folder, path);
  mkdirSync(dirname(whole), { recursive: true });
  writeFileSync(whole, text);
  return whole;
}

/** A program that stands in for Node and says what it was called with. */
function fakeNode(path: string, version: string): string {
  const script = `#!/bin/sh\n[ "$1" = --version ] && { echo ${version}; exit; }\necho "${version} $*"\n`;
  chmodSync(file(path, script), 0o755);
  return dirname(join(folder, path));
}

interface Run {
  readonly path?: string;
  readonly env?: Record<string, string>;
  readonly cwd?: string;
}

const environment = ({ path = dirname(process.execPath), env = {} }: Run) => ({
  PATH: `${path}:${tools}`,
  HOME: join(folder, 'home'),
  ...env,
});

function run(command: string, args: readonly string[] = [], how: Run = {}) {
  const env = environment(how);
  return spawnSync(command, args, { cwd: how.cwd ?? folder, env, encoding: 'utf8' });
}

const program = `const text: string = process.argv.slice(2).join('|');
console.log(text);
process.exitCode = 7;
`;

describe('the launcher', () => {
  test('runs the program from source, arguments, exit code and streams untouched', () => {
    file('bin/main.ts', program);
    const { stdout, stderr, status } = run(join(folder, 'bin/oddslake'), ['sql', 'SELECT "a b"', '', '*']);
    expect({ stdout, stderr, status }).toEqual({ stdout: 'sql|SELECT "a b"||*\n', stderr: '', status: 7 });
  });

  test('works from any folder, by relative path, through PATH and through links to links', () => {
    file('bin/main.ts', program);
    mkdirSync(join(folder, 'elsewhere/deep'), { recursive: true });
    symlinkSync(join(folder, 'bin/oddslake'), join(folder, 'elsewhere/absolute'));
    symlinkSync('../absolute', join(folder, 'elsewhere/deep/oddslake'));
    const at = (cwd: string) => ({ cwd: join(folder, cwd) });
    expect(run('bin/oddslake').status).toBe(7);
    expect(run('./oddslake', [], at('bin')).status).toBe(7);
    expect(run('../../bin/oddslake', [], at('elsewhere/deep')).status).toBe(7);
    expect(run('elsewhere/deep/oddslake').status).toBe(7);
    expect(run('sh', ['oddslake'], at('bin')).status).toBe(7);
    const path = `${join(folder, 'elsewhere/deep')}:${dirname(process.execPath)}`;
    expect(run('oddslake', [], { path, cwd: '/' }).status).toBe(7);
  });

  test('inside the npm package, where there is no source, runs the built program', () => {
    cpSync(join(folder, 'bin'), join(folder, 'node_modules/oddslake/bin'), { recursive: true });
    file('node_modules/oddslake/package.json', '{"type": "module"}');
    file('node_modules/oddslake/dist/program/main.js', 'process.exitCode = 9;');
    mkdirSync(join(folder, 'node_modules/.bin'));
    symlinkSync('../oddslake/bin/oddslake', join(folder, 'node_modules/.bin/oddslake'));
    expect(run('node_modules/.bin/oddslake').status).toBe(9);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('passes %s straight to the program', async (signal) => {
    file(
      'bin/main.ts',
      `process.once('${signal}', () => process.exit(42));\nsetInterval(() => {}, 1000);\nconsole.log('up');`,
    );
    const child = spawn(join(folder, 'bin/oddslake'), { env: environment({}), stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([42, null]);
  });
});

describe('the Node that it takes', () => {
  test.each(['v24.0.0', 'v26.1.0', 'v100.0.0'])("is the machine's where that is new enough: %s", (version) => {
    const path = fakeNode('machine/node', version);
    file('bin/main.ts', '');
    expect(run('bin/oddslake', ['status'], { path }).stdout).toMatch(new RegExp(`^${version} .*bin/main.ts status\n$`));
  });

  test.each(['v20.20.2', 'v23.99.0', 'v4.0.0'])("is the checkout's where the machine's is too old: %s", (version) => {
    const path = fakeNode('machine/node', version);
    fakeNode('.node/bin/node', 'v24.21.0');
    expect(run('bin/oddslake', [], { path }).stdout).toMatch(/^v24.21.0 /);
  });

  test.each(['v20.20.2', 'nonsense', ''])(
    'missing altogether is reported with what to do in a checkout, with npm and without it: %j',
    (version) => {
      const path = fakeNode('machine/node', version);
      const { status, stdout, stderr } = run('bin/oddslake', [], { path });
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
      expect(stderr).toMatch(
        /^oddslake needs Node 24 or newer; found: .*\. In a checkout, run: make setup\. With npm or npx, .*\nnewer.*tarball.*\n$/,
      );
    },
  );

  test('missing from the machine is reported in the same way', () => {
    const path = fakeNode('machine/node', 'v20.0.0');
    writeFileSync(join(path, 'node'), '#!/bin/sh\nexit 127\n');
    expect(run('bin/oddslake', [], { path }).stderr).toContain('found: none.');
  });
});

describe('the compile cache', () => {
  const cacheOf = (env: Record<string, string>) => {
    file('bin/main.ts', 'console.log(JSON.stringify(process.env.NODE_COMPILE_CACHE ?? null));');
    return JSON.parse(run('bin/oddslake', [], { env }).stdout) as string | null;
  };

  test('lies in the folder that the user keeps caches in', () => {
    expect(cacheOf({})).toBe(join(folder, 'home/.cache/oddslake'));
    expect(cacheOf({ XDG_CACHE_HOME: join(folder, 'xdg') })).toBe(join(folder, 'xdg/oddslake'));
  });

  test('stays where the user put it, and is off where there is no home', () => {
    expect(cacheOf({ NODE_COMPILE_CACHE: join(folder, 'own') })).toBe(join(folder, 'own'));
    expect(cacheOf({ NODE_COMPILE_CACHE: '' })).toBe('');
    expect(cacheOf({ HOME: '' })).toBeNull();
  });
});
