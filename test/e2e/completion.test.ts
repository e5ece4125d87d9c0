import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { settingSchemas } from '../../src/settings/layers.ts';
import { program } from '../docs/program.ts';
import { limitMs } from '../harness/limits.ts';
import { needsCommands } from '../harness/needs.ts';
import { access, expectDone, folder, jobArgs, processEnv, sandbox } from './lake.ts';
import { run } from './run-program.ts';

// The scripts in real shells. Each driver prints the candidates of one line per block, as the shell's own function finds them.

const shells = ['bash', 'zsh', 'fish'] as const;
const scripts: Partial<Record<(typeof shells)[number], string>> = {};
beforeAll(async () => {
  for (const shell of shells) scripts[shell] = (await run(['completion', shell])).stdout;
});

const drivers: Readonly<Record<(typeof shells)[number], string>> = {
  // readline splits words at colons and equals signs too.
  bash: `
while IFS= read -r line; do
  COMP_LINE=$line COMP_POINT=\${#line}
  split=\${line//:/ : } split=\${split//=/ = }
  read -ra COMP_WORDS <<<"$split"
  [[ $line == *[[:space:]] ]] && COMP_WORDS+=('')
  COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _oddslake
  printf '%s\\n' "\${COMPREPLY[@]}" ==
done`,
  // What would offer candidates prints them: the completion system runs only in the line editor.
  zsh: `
PREFIX=
_describe() { print -rl -- "\${(@)\${(@P)4}}" }
_files() { print -r -- "files $*" }
compset() { : }
while IFS= read -r line; do
  words=("\${(@s: :)line}") CURRENT=$#words
  _oddslake
  print -r -- '=='
done`,
  fish: `
while read -l line
  complete -C "$line"
  echo ==
end`,
};

/** The candidates of each line, without descriptions. */
function complete(shell: (typeof shells)[number], lines: readonly string[], cwd: string): string[][] {
  symlinkSync(new URL('../../bin/oddslake', import.meta.url).pathname, join(cwd, 'oddslake'));
  const before = shell === 'zsh' ? 'compdef() { : }\n' : '';
  writeFileSync(join(cwd, 'script'), `${before}${scripts[shell]}\n${drivers[shell]}\n`);
  const flags = { bash: ['--norc'], zsh: ['-f'], fish: ['--no-config'] }[shell];
  const { stdout, stderr, status } = spawnSync(shell, [...flags, 'script'], {
    cwd,
    input: `${lines.join('\n')}\n`,
    encoding: 'utf8',
    env: { ...processEnv, HOME: cwd, PATH: `${cwd}:${process.env.PATH}` },
  });
  expect([status, stderr]).toEqual([0, '']);
  const isDescribed = shell === 'zsh' ? /(?<!\\):.*/ : /\t.*/;
  const blocks = stdout.split('==\n').slice(0, -1);
  expect(blocks.length).toBe(lines.length);
  return blocks.map((block) =>
    block
      .split('\n')
      .map((line) => line.replace(isDescribed, '').replaceAll('\\:', ':'))
      .filter((line) => line !== ''),
  );
}

describe.each(shells)('%s', (shell) => {
  test('completes commands, subcommands, flags and values', needsCommands(shell), () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'lake.yaml'), '');
    const commands = program.commands.map((command) => command.name());
    const lines = [
      'oddslake ',
      'oddslake gaps ',
      'oddslake keys create --',
      'oddslake sql --format ',
      'oddslake sql --format=c',
      'oddslake status --log-level ',
      'oddslake export --dataset candles_1',
      'oddslake nightly --set poll.page',
      'oddslake completion ',
      'oddslake help stat',
      'oddslake nightly --config la',
      'oddslake status --max-lag ',
      `oddslake status --log-level $(touch hacked)`,
    ];
    const found = complete(shell, lines, cwd);
    const isOffered = (i: number, ...words: string[]): void =>
      expect([...found[i]!].sort(), lines[i]).toEqual(words.sort());
    isOffered(0, ...commands, 'help');
    isOffered(1, 'accept', 'revoke');
    expect(found[2]).toEqual(expect.arrayContaining(['--name', '--expires', '--output', '--json', '--help']));
    isOffered(3, 'table', 'csv', 'json', 'parquet');
    // bash completes what follows the equals sign.
    isOffered(4, shell === 'bash' ? 'csv' : '--format=csv');
    isOffered(5, 'trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent');
    isOffered(6, 'candles_1d', 'candles_1h');
    isOffered(7, 'poll.page_limit=');
    isOffered(8, 'bash', 'zsh', 'fish');
    isOffered(9, 'status');
    // zsh offers files itself.
    expect(found[10]).toEqual([shell === 'zsh' ? 'files ' : 'lake.yaml']);
    expect(found[11]).toEqual([]);
    expect(spawnSync('ls', [cwd], { encoding: 'utf8' }).stdout).not.toContain('hacked');
  });
});

test('completes symbols of the archive on the command line', needsCommands(...shells), async () => {
  const box = await sandbox({ markets: 4, ticksPerDay: 20 });
  const lake = join(folder(), 'lake');
  await expectDone(run(jobArgs('nightly', lake), access(box.url)));
  const listed = await run(['symbols', '--output', lake, '--json']);
  const symbols = (JSON.parse(listed.stdout).symbols as { symbol: string }[]).map(({ symbol }) => symbol);
  const start = symbols[0]!.slice(0, 4);
  const expected = symbols.filter((symbol) => symbol.startsWith(start)).sort();
  const lines = [
    `oddslake gaps --output ${lake} --symbol ${start}`,
    `oddslake gaps accept --output ${lake} ${start}`,
    'oddslake gaps --output none --symbol ',
  ];
  for (const shell of shells) {
    // One line for the others: each starts the program.
    const found = complete(shell, shell === 'bash' ? lines : lines.slice(0, 1), folder());
    expect(found.map((words) => words.sort())).toEqual([expected, expected, []].slice(0, found.length));
  }
});

test('bash quotes what an upstream put into the name of a symbol', needsCommands('bash'), async () => {
  const cwd = folder();
  const lake = join(cwd, 'lake');
  writeFileSync(join(cwd, 'ticks.csv'), 'symbol,t,p\nQ$(touch hacked) `x`,1795824000000,0.5\n');
  await expectDone(run(['import', join(cwd, 'ticks.csv'), '--output', lake, '--set', 'source.name=own']));
  expect(complete('bash', [`oddslake gaps --output ${lake} --symbol Q`], cwd)).toEqual([
    ['Q\\$\\(touch\\ hacked\\)\\ \\`x\\`'],
  ]);
});

test('completes every setting, and the commands of the program', async () => {
  const list = async (...words: string[]): Promise<string[]> => {
    const { stdout } = await run(['completion', 'bash', '--json', '--', ...words]);
    return (JSON.parse(stdout).candidates as { word: string }[]).map(({ word }) => word);
  };
  expect(await list('nightly', '--set', '')).toEqual([...settingSchemas.keys()].map((key) => `${key}=`));
  expect(await list('')).toEqual([...program.commands.map((command) => command.name()), 'help']);
  expect(await list('export', '--format=p')).toEqual(['--format=parquet']);
});

test('bash adds nothing to a word that is complete', needsCommands('bash'), () => {
  expect(complete('bash', ['oddslake nightly --set poll.page_limit='], folder())).toEqual([[]]);
});

test('zsh completes a line in its editor, with the script in a folder of fpath', needsCommands('zsh'), async () => {
  const cwd = folder();
  const names = ['kalshi:KX-1', 'Q$(touch hacked) `x`'];
  writeFileSync(join(cwd, 'ticks.csv'), `symbol,t,p\n${names.map((name) => `${name},1795824000000,0.5\n`).join('')}`);
  await expectDone(run(['import', 'ticks.csv', '--output', 'lake', '--set', 'source.name=own'], {}, cwd));
  symlinkSync(new URL('../../bin/oddslake', import.meta.url).pathname, join(cwd, 'oddslake'));
  mkdirSync(join(cwd, '.zfunc'));
  writeFileSync(join(cwd, '.zfunc', '_oddslake'), scripts.zsh!);
  const lines = [
    ['oddslake nigh', 'oddslake nightly '],
    ['oddslake gaps acc', 'oddslake gaps accept '],
    ['oddslake sql --format=c', 'oddslake sql --format=csv '],
    ['oddslake nightly --set poll.page', 'oddslake nightly --set poll.page_limit='],
    ['oddslake import tic', 'oddslake import ticks.csv '],
    ['oddslake status --output=la', 'oddslake status --output=lake/'],
    ['oddslake gaps --output lake --symbol ka', 'oddslake gaps --output lake --symbol kalshi:KX-1 '],
    [
      'oddslake gaps --output lake --symbol Q',
      'oddslake gaps --output lake --symbol Q\\$\\(touch\\ hacked\\)\\ \\`x\\` ',
    ],
  ] as const;
  // A zsh on a terminal of its own. Ctrl-G appends the line, as the editor has it then, to a file.
  const driver = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'fpath=(~/.zfunc $fpath); autoload -Uz compinit && compinit -u'
zpty -w shell 'keep() { print -r -- "$BUFFER" >>lines; BUFFER= }; zle -N keep; bindkey "^G" keep'
${lines.map(([line]) => `zpty -w -n shell '${line}'$'\\t\\a'`).join('\n')}
zpty -w shell exit
while zpty -r shell shown; do :; done`;
  const env = { ...processEnv, HOME: cwd, TERM: 'xterm', PATH: `${cwd}:${process.env.PATH}` };
  const { stderr } = spawnSync('zsh', ['-fc', driver], { cwd, encoding: 'utf8', env, timeout: limitMs });
  expect(stderr).toBe('');
  expect(readFileSync(join(cwd, 'lines'), 'utf8')).toBe(lines.map(([, full]) => `${full}\n`).join(''));
  expect(existsSync(join(cwd, 'hacked'))).toBe(false);
});
