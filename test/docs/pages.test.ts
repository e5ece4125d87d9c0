import { existsSync, globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { blocksOf, pages, shells, textOf, typedIn, typedOn } from './blocks.ts';
import { inlineIn, misspelt } from './invocations.ts';
import { project } from './kept-current.ts';
import { linesNotRun, reasonOf } from './not-run.ts';
import { program } from './program.ts';

// README.md and every page of docs/: what they name is there. pages.long.test.ts types what they tell their readers to type.

test('every command and flag of oddslake that a page names is there', () => {
  const wrong = pages.flatMap((page) => {
    const text = textOf(page);
    const typed = typedOn(page).map(({ code }) => code);
    return [...typed, ...inlineIn(text)].flatMap((code) =>
      misspelt(code).map((what) => `${page}: ${code.trim()}: ${what}`),
    );
  });
  expect(wrong).toEqual([]);
});

test('the table of commands in README has every one of them, with flags that it has', () => {
  const rows = [...textOf('README.md').matchAll(/^\| (`[a-z].*?) \| /gm)].map(([, cell]) => cell!);
  const told = rows.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code!.replaceAll('\\|', ' ')));
  expect(told.flatMap((code) => misspelt(`oddslake ${code}`))).toEqual([]);
  const named = new Set(told.map((code) => code.split(' ')[0]));
  expect(
    program()
      .commands.map((command) => command.name())
      .filter((name) => !named.has(name)),
  ).toEqual([]);
});

/** A line that begins as people type it: a prompt, a program that pages speak of, a variable that is set for one. */
const isTyped =
  /^\s*(\$ |(\w+=\S+ )*(sudo (-u \w+ )?)?((\S*\/)?oddslake|curl|make|npm|npx|node|python3|pip|docker|systemctl|kubectl|duckdb|cd|export) )/m;

test('shell is called sh, so that none of it is passed over', () => {
  const typed = ['$ anything', '  make run', 'A=1 B=2 oddslake status', 'sudo -u oddslake bin/oddslake status'];
  expect(typed.filter((line) => !isTyped.test(`{}\n${line}\n`))).toEqual([]);
  expect(isTyped.test('lake/\n  README.md\noddslake.timer\nmakes = 1\n')).toBe(false);
  const unnamed = pages.flatMap((page) =>
    blocksOf(textOf(page))
      .filter(({ language, code }) => !shells.includes(language) && isTyped.test(code))
      .map(({ line, language }) => `${page}:${line} (${language})`),
  );
  expect(unnamed).toEqual([]);
});

test('no line is left out that is nowhere', () => {
  const stray = linesNotRun.filter(
    ({ page, begins }) => pages.includes(page) && !typedOn(page).some(({ code }) => code.startsWith(begins)),
  );
  expect(stray).toEqual([]);
});

test.each(['ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', ...pages])(
  'every link of %s leads somewhere',
  (page) => {
    const text = textOf(page).replace(/^```[\s\S]*?^```/gm, '');
    for (const [, target, anchor] of text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)) {
      const at = target === '' ? page : join(dirname(page), target!);
      expect(existsSync(join(project, at)), `${page}: ${target}`).toBe(true);
      if (anchor !== undefined && at.endsWith('.md'))
        expect(anchorsOf(textOf(at)), `${page}: ${target}`).toContain(anchor);
    }
  },
);

test('docs/README.md lists every page', () => {
  const listed = [...textOf('docs/README.md').matchAll(/\]\(([^)#]+)\)/g)].map(([, target]) => join('docs', target!));
  expect(pages.filter((page) => page !== 'README.md' && page !== 'docs/README.md' && !listed.includes(page))).toEqual(
    [],
  );
});

/** As GitHub names headings. */
const anchorsOf = (text: string): string[] =>
  [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

describe('the reading of pages', () => {
  const lines = (code: string) => typedIn({ language: 'sh', code, line: 10 });

  test('takes what belongs together for one line', () => {
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
  ])('knows the calls in: %s', (code, wrong) => {
    expect(misspelt(code)).toEqual(wrong);
  });

  test('knows why a line is left out', () => {
    expect(reasonOf('docs/X.md', 'FOO=1 systemctl daemon-reload')).toContain('systemd');
    expect(reasonOf('docs/X.md', 'oddslake snapshot x && rsync -a x there:')).toContain('machine');
    expect(reasonOf('docs/X.md', 'oddslake status --output lake')).toBeUndefined();
  });
});

/** Sources that a page names, by the end of their path: it says where they are by what is said around it. */
const sourcesIn = (text: string): string[] =>
  [...text.replace(/^```[\s\S]*?^```/gm, '').matchAll(/`([\w/-]+\.ts)`/g)].map(([, path]) => path!);

test.each(['ARCHITECTURE.md', ...pages])('every source that %s names is there', (page) => {
  const all = globSync('{src,test,jobs,bin,bench}/**/*.ts', { cwd: project }).concat(
    globSync('*.ts', { cwd: project }),
  );
  expect(sourcesIn(textOf(page)).filter((path) => !all.some((each) => `/${each}`.endsWith(`/${path}`)))).toEqual([]);
});
