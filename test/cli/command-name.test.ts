import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { wrapAdvice } from '../../src/cli/table.ts';
import { createCommandCompleter, findCommandName } from '../../src/context/command-name.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'command-name-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function addFile(path: string, text = ''): string {
  const whole = join(folder, path);
  mkdirSync(dirname(whole), { recursive: true });
  writeFileSync(whole, text);
  return whole;
}

/** A folder with a link named oddslake, as npm makes it. */
function addLink(path: string, target: string): string {
  const whole = join(folder, path);
  mkdirSync(dirname(whole), { recursive: true });
  symlinkSync(target, whole);
  return dirname(whole);
}

test('a checkout is called by its path: relative below the working folder, else absolute and quoted', () => {
  const launcher = addFile("o'neil's tree/bin/oddslake");
  const env = { PATH: '/usr/bin' };
  expect(findCommandName({ launcher, env, cwd: join(folder, "o'neil's tree") })).toBe('bin/oddslake');
  expect(findCommandName({ launcher, env, cwd: folder })).toBe("'o'\\''neil'\\''s tree/bin/oddslake'");
  expect(findCommandName({ launcher, env, cwd: join(folder, 'elsewhere') })).toBe(
    `'${folder}/o'\\''neil'\\''s tree/bin/oddslake'`,
  );
});

test('on the PATH it is called by name, but not if another oddslake comes first', () => {
  const launcher = addFile('lib/node_modules/oddslake/bin/oddslake');
  const bin = addLink('bin/oddslake', launcher);
  const other = dirname(addFile('other/oddslake'));
  const cwd = join(folder, 'work');
  expect(findCommandName({ launcher, env: { PATH: `/nowhere:${bin}:${other}` }, cwd })).toBe('oddslake');
  expect(findCommandName({ launcher, env: { PATH: `${other}:${bin}` }, cwd })).toBe(launcher);
  expect(findCommandName({ launcher, env: {}, cwd })).toBe(launcher);
});

test('under npx it is called by npx with the same packages, as its PATH ends with it', () => {
  const launcher = addFile('_npx/3aedb32f/node_modules/oddslake/bin/oddslake');
  const bin = addLink('_npx/3aedb32f/node_modules/.bin/oddslake', launcher);
  const env = { PATH: bin, npm_lifecycle_event: 'npx' };
  const note = '_npx/3aedb32f/package.json';
  const named = (packages: unknown) => {
    addFile(note, JSON.stringify({ _npx: { packages } }));
    return findCommandName({ launcher, env, cwd: folder });
  };
  expect(named(['./oddslake-0.1.0.tgz'])).toBe('npx --package=./oddslake-0.1.0.tgz oddslake');
  expect(named(['oddslake@0.1.0', 'a b'])).toBe("npx --package=oddslake@0.1.0 '--package=a b' oddslake");
  // What npm may change: still a command that works.
  for (const unknown of [undefined, 'x', [1]]) expect(named(unknown)).toBe('oddslake');
  addFile(note, 'no JSON');
  expect(findCommandName({ launcher, env, cwd: folder })).toBe('oddslake');
});

const completer = (...args: string[]) => createCommandCompleter(() => 'bin/oddslake', args);

test.each([
  // Message, arguments of the run, what is printed.
  ['Run oddslake verify.', [], 'Run bin/oddslake verify'],
  ['Run oddslake verify.', ['gaps', '--output', "it's"], "Run bin/oddslake verify --output 'it'\\''s'"],
  ['to repair: oddslake verify --repair', ['--archive=a b'], "to repair: bin/oddslake verify --repair --output 'a b'"],
  [
    'oddslake gaps. To accept: oddslake gaps accept',
    ['--config', 'c.yaml', '--json', '--output', 'lake'],
    'bin/oddslake gaps --config c.yaml --output lake. To accept: bin/oddslake gaps accept --config c.yaml --output lake',
  ],
  [
    'oddslake keys create --name NAME',
    ['--set', 'archive.output=x'],
    'bin/oddslake keys create --set archive.output=x --name NAME',
  ],
  // A command that names its archive, and commands that need none or make one.
  ['oddslake nightly --set a=1 --output x', ['--output', 'y'], 'bin/oddslake nightly --set a=1 --output x'],
  ['next: oddslake import a.csv --output x', ['--output', 'x'], 'next: bin/oddslake import a.csv --output x'],
  ['oddslake init', ['--config', 'c.yaml', '--output', 'lake'], 'bin/oddslake init --output lake'],
  ['oddslake pull s3://a DIR', ['--config', 'c', '--output', 'l'], 'bin/oddslake pull --config c s3://a DIR'],
  ['oddslake demo, oddslake sql --help', ['--output', 'l'], 'bin/oddslake demo, bin/oddslake sql --help'],
  // No commands.
  ['oddslake 0.1 wrote it; /x/oddslake gaps; oddslake verifies', ['--output', 'l'], null],
  // No secret is repeated.
  ['oddslake gaps', ['--set', 'upstream.api_key=secret'], 'bin/oddslake gaps'],
] as const)('completes the commands of a message so that they can be pasted: %s', (message, args, printed) => {
  expect(completer(...args)(message)).toBe(printed ?? message);
});

test('a command in wrapped advice stays on one line', () => {
  const complete = completer('--config', 'a folder/oddslake.yaml');
  expect(
    wrapAdvice(
      'The next run fetches the missing windows. To list them: oddslake gaps',
      { complete, width: 40 },
      '→ ',
      '  ',
    ),
  ).toEqual([
    '→ The next run fetches the missing',
    '  windows. To list them:',
    "  bin/oddslake gaps --config 'a folder/oddslake.yaml'",
  ]);
});
