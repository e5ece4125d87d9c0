import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { access, fixedDay, fixedNow, folder, job, jobArgs, sandboxProcess } from './lake.ts';

// On a terminal of its own (script, of util-linux), and off one.

const main = new URL('../../bin/main.ts', import.meta.url).pathname;
const hasTerminal = spawnSync('script', ['--version']).status === 0;
const esc = '\u001b';
const colour = new RegExp(`${esc}\\[\\d+m`);

function said(args: readonly string[], env: Record<string, string>, onTerminal: boolean): string {
  const words = [process.execPath, '--disable-warning=ExperimentalWarning', main, ...args];
  const quoted = words.map((word) => `'${word}'`).join(' ');
  const ended = onTerminal
    ? spawnSync('script', ['-qec', `stty cols 80; ${quoted}`, '/dev/null'], options(env))
    : spawnSync(words[0]!, words.slice(1), options(env));
  return ended.stdout + ended.stderr;
}

const options = (env: Record<string, string>) =>
  ({ encoding: 'utf8', env: { PATH: process.env.PATH, TERM: 'xterm-256color', ...env } }) as const;

test.skipIf(!hasTerminal)(
  'colours are for terminals that know them; NO_COLOR, FORCE_COLOR and TERM=dumb are heard, and --json has none',
  async () => {
    // In a process of its own: this one waits for each command.
    const flags = ['--now', String(fixedNow), '--market-count', '4', '--ticks-per-day', '50'];
    const box = await sandboxProcess(flags);
    const lake = join(folder(), 'lake');
    expect((await job('nightly', box.url, lake, '--date', fixedDay)).code).toBe(0);
    const markets = jobArgs('markets', lake).filter((arg) => arg !== '--json');
    const symbols = ['symbols', '--output', lake];
    for (const args of [markets, symbols]) {
      const on = (env: Record<string, string> = {}) => said(args, { ...access(box.url), ...env }, true);
      const off = (env: Record<string, string> = {}) => said(args, { ...access(box.url), ...env }, false);
      expect(on()).toMatch(colour);
      expect(on({ NO_COLOR: '1' })).not.toMatch(colour);
      expect(on({ FORCE_COLOR: '0' })).not.toMatch(colour);
      // One that is dumb draws no bar either.
      expect(on({ TERM: 'dumb' })).not.toContain(esc);
      expect(off()).not.toContain(esc);
      expect(off({ FORCE_COLOR: '1' })).toMatch(colour);
    }
    for (const args of [jobArgs('markets', lake), [...symbols, '--json']])
      expect(said([...args, '--quiet'], { ...access(box.url), FORCE_COLOR: '1' }, true)).not.toContain(esc);
  },
  120_000,
);
