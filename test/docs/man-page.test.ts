import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { exitCodes } from '../contract/promises.ts';
import { needsCommands } from '../harness/needs.ts';
import { expectUpToDate, project } from './kept-current.ts';
import { escapeRoff, formatManPage } from './man-page.ts';
import { mapCommands, program } from './program.ts';

const { version, man, files } = JSON.parse(readFileSync(`${project}package.json`, 'utf8'));
const page = () => formatManPage(program, version, exitCodes);

test('man/oddslake.1 is current', () => {
  expectUpToDate('man/oddslake.1', page());
});

test('the package contains the man page and declares it to npm', () => {
  expect(man).toEqual(['man/oddslake.1']);
  expect(files).toContain('man');
  expect(existsSync(`${project}man/oddslake.1`)).toBe(true);
});

test('the man page has every command and flag', () => {
  const text = page();
  for (const [name, command] of mapCommands(program)) {
    expect(text).toContain(`.SS "${escapeRoff(name)}`);
    for (const option of command.options.filter(({ hidden }) => !hidden))
      expect(text, `${name} ${option.long}`).toContain(escapeRoff(option.long!));
  }
});

test('text that looks like a roff request is escaped', () => {
  expect(escapeRoff(".SH\n'br\n\\n a-b …é")).toBe("\\&.SH\n\\&'br\n\\en a\\-b ...\\[u00E9]");
});

/** The page is generated without a date. */
const noDate = 'WARNING: missing date, using "": TH';

const linters: readonly (readonly [program: string, ...args: string[]])[] = [
  ['mandoc', '-T', 'lint', '-W', 'warning'],
  ['groff', '-man', '-ww', '-z', '-K', 'utf8'],
];

for (const [linter, ...args] of linters) {
  test(`${linter} reports nothing for the man page`, needsCommands(linter), () => {
    const { stdout, stderr } = spawnSync(linter, [...args, `${project}man/oddslake.1`], { encoding: 'utf8' });
    const findings = (stdout + stderr).split('\n').filter((line) => line !== '' && !line.includes(noDate));
    expect(findings).toEqual([]);
  });
}
