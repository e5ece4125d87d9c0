import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { exitCodes } from '../contract/promises.ts';
import { needsCommands } from '../harness/needs.ts';
import { expectCurrent, project } from './kept-current.ts';
import { escaped, manPage } from './man-page.ts';
import { commandsOf, program } from './program.ts';

const { version, man, files } = JSON.parse(readFileSync(`${project}package.json`, 'utf8'));
const page = () => manPage(program(), version, exitCodes);

test('man/oddslake.1 is made of the commands as they are', () => {
  expectCurrent('man/oddslake.1', page());
});

test('the package has the man page, and says so to npm', () => {
  expect(man).toEqual(['man/oddslake.1']);
  expect(files).toContain('man');
  expect(existsSync(`${project}man/oddslake.1`)).toBe(true);
});

test('the man page has every command, and each of its flags', () => {
  const text = page();
  for (const [name, command] of commandsOf(program())) {
    expect(text).toContain(`.SS "${escaped(name)}`);
    for (const option of command.options.filter(({ hidden }) => !hidden))
      expect(text, `${name} ${option.long}`).toContain(escaped(option.long!));
  }
});

test('what looks like a request of roff is text', () => {
  expect(escaped(".SH\n'br\n\\n a-b …é")).toBe("\\&.SH\n\\&'br\n\\en a\\-b ...\\[u00E9]");
});

/** The page is made from the program as it is, which has no date. */
const noDate = 'WARNING: missing date, using "": TH';

const linters: readonly (readonly [program: string, ...args: string[]])[] = [
  ['mandoc', '-T', 'lint', '-W', 'warning'],
  ['groff', '-man', '-ww', '-z', '-K', 'utf8'],
];

for (const [linter, ...args] of linters) {
  test(`${linter} finds nothing wrong with the man page`, needsCommands(linter), () => {
    const { stdout, stderr } = spawnSync(linter, [...args, `${project}man/oddslake.1`], { encoding: 'utf8' });
    const found = (stdout + stderr).split('\n').filter((line) => line !== '' && !line.includes(noDate));
    expect(found).toEqual([]);
  });
}
