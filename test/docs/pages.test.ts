import { existsSync, globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { listCommands, pages, parseBlocks, parseCommands, readPage, shells } from './blocks.ts';
import { findInlineCalls, findUnknownCalls } from './invocations.ts';
import { project } from './kept-current.ts';
import { findReason, linesNotRun } from './not-run.ts';
import { program } from './program.ts';

// README.md and every page of docs/: commands, flags, links and sources that they name exist. pages.long.test.ts runs their commands.

test('pages name only commands and flags that exist', () => {
  const wrong = pages.flatMap((page) => {
    const text = readPage(page);
    const typed = listCommands(page).map(({ code }) => code);
    return [...typed, ...findInlineCalls(text)].flatMap((code) =>
      findUnknownCalls(code).map((what) => `${page}: ${code.trim()}: ${what}`),
    );
  });
  expect(wrong).toEqual([]);
});

test('the table of commands in README lists every command, with flags that exist', () => {
  const rows = [...readPage('README.md').matchAll(/^\| (`[a-z].*?) \| /gm)].map(([, cell]) => cell!);
  const cells = rows.flatMap((cell) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code!.replaceAll('\\|', ' ')),
  );
  expect(cells.flatMap((code) => findUnknownCalls(`oddslake ${code}`))).toEqual([]);
  const named = new Set(cells.map((code) => code.split(' ')[0]));
  expect(program.commands.map((command) => command.name()).filter((name) => !named.has(name))).toEqual([]);
});

/** A line that starts like a shell command: a prompt, a program that pages mention, or an assignment before one. */
const commandStart =
  /^\s*(\$ |(\w+=\S+ )*(sudo (-u \w+ )?)?((\S*\/)?oddslake|curl|make|npm|npx|node|python3|pip|docker|systemctl|kubectl|duckdb|cd|export) )/m;

test('blocks of shell commands are marked sh', () => {
  const typed = ['$ anything', '  make run', 'A=1 B=2 oddslake status', 'sudo -u oddslake bin/oddslake status'];
  expect(typed.filter((line) => !commandStart.test(`{}\n${line}\n`))).toEqual([]);
  expect(commandStart.test('lake/\n  README.md\noddslake.timer\nmakes = 1\n')).toBe(false);
  const unnamed = pages.flatMap((page) =>
    parseBlocks(readPage(page))
      .filter(({ language, code }) => !shells.includes(language) && commandStart.test(code))
      .map(({ line, language }) => `${page}:${line} (${language})`),
  );
  expect(unnamed).toEqual([]);
});

test('every line in not-run.ts is on its page', () => {
  const stray = linesNotRun.filter(
    ({ page, begins }) => pages.includes(page) && !listCommands(page).some(({ code }) => code.startsWith(begins)),
  );
  expect(stray).toEqual([]);
});

const developers = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'bench/README.md', 'test/README.md'];

test.each(['CHANGELOG.md', ...developers, ...pages])('every link of %s has a target', (page) => {
  const text = readPage(page).replace(/^```[\s\S]*?^```/gm, '');
  for (const [, target, anchor] of text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)) {
    const at = target === '' ? page : join(dirname(page), target!);
    expect(existsSync(join(project, at)), `${page}: ${target}`).toBe(true);
    if (anchor !== undefined && at.endsWith('.md'))
      expect(listAnchors(readPage(at)), `${page}: ${target}`).toContain(anchor);
  }
});

test('the pages have at most 55,000 words together', () => {
  const words = pages.flatMap((page) => readPage(page).trim().split(/\s+/));
  expect(words.length).toBeGreaterThan(10_000);
  expect(words.length).toBeLessThanOrEqual(55_000);
});

test('docs/README.md lists every page', () => {
  const listed = [...readPage('docs/README.md').matchAll(/\]\(([^)#]+)\)/g)].map(([, target]) => join('docs', target!));
  expect(pages.filter((page) => page !== 'README.md' && page !== 'docs/README.md' && !listed.includes(page))).toEqual(
    [],
  );
});

/** The anchors of headings, as GitHub generates them. */
const listAnchors = (text: string): string[] =>
  [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

describe('parsing of pages', () => {
  const lines = (code: string) => parseCommands({ language: 'sh', code, line: 10 });

  test('joins lines that form one command', () => {
    expect(lines("# a note\na \\\n  b\n\nc 'd\ne' f  # g\n")).toEqual([
      { code: 'a \\\n  b\n', line: 11 },
      { code: "c 'd\ne' f  # g\n", line: 14 },
    ]);
    expect(lines('for i in 1 2; do\n  echo $i\ndone\ncat > x <<E\na\nE\n').map(({ line }) => line)).toEqual([10, 13]);
  });

  test.each([
    ['oddslake nightly --output lake', []],
    ['bin/oddslake keys create --name x > y; oddslake tokens issue --user u', []],
    ['docker run --rm oddslake nightly --output=/lake', []],
    ['systemctl enable --now oddslake.timer', []],
    ['sudo -u oddslake oddslake nightly --form x', ['nightly has no --form']],
    ['kubectl create secret generic oddslake --from-file=key', []],
    ['oddslake keys create|list|revoke', []],
    ['oddslake COMMAND --help', []],
    ['oddslake nightly --from x', ['nightly has no --from']],
    ['oddslake nightlyy', ['there is no command nightlyy']],
    ['A=1 oddslake status | oddslake keys make', ['there is no command keys make']],
    ['docker run oddslake verify --mend', ['verify has no --mend']],
  ])('checks the calls in: %s', (code, wrong) => {
    expect(findUnknownCalls(code)).toEqual(wrong);
  });

  test('finds the reason why a line is not run', () => {
    expect(findReason('docs/X.md', 'FOO=1 systemctl daemon-reload')).toContain('systemd');
    expect(findReason('docs/X.md', 'oddslake snapshot x && rsync -a x there:')).toContain('machine');
    expect(findReason('docs/X.md', 'oddslake status --output lake')).toBeUndefined();
  });
});

/** Sources that a page names, by the end of their path: the text around them gives their folder. */
const findSources = (text: string): string[] =>
  [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/`([\w/-]+\.ts)`/g)].map(([, path]) => path!);

test.each(['ARCHITECTURE.md', ...pages])('every source that %s names exists', (page) => {
  const all = globSync('{src,test,jobs,bin,bench}/**/*.ts', { cwd: project }).concat(
    globSync('*.ts', { cwd: project }),
  );
  expect(findSources(readPage(page)).filter((path) => !all.some((each) => `/${each}`.endsWith(`/${path}`)))).toEqual(
    [],
  );
});
