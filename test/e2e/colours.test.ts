import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { limitMs, MachineTooSlow } from '../harness/limits.ts';
import { needsCommands } from '../harness/needs.ts';
import {
  access,
  expectDone,
  fixedDay,
  fixedNow,
  folder,
  jobArgs,
  processEnv,
  sandbox,
  type Variables,
} from './lake.ts';
import { runJob } from './run-program.ts';

// With a pseudo-terminal (script of util-linux), and without.

const main = new URL('../../bin/main.ts', import.meta.url).pathname;
const esc = '\u001b';
const colour = new RegExp(`${esc}\\[\\d+m`);

/** Output of a command, both streams. */
async function printed(args: readonly string[], env: Variables, onTerminal: boolean): Promise<string> {
  const words = [process.execPath, '--disable-warning=ExperimentalWarning', main, ...args];
  const quoted = words.map((word) => `'${word}'`).join(' ');
  const [command, ...rest] = onTerminal ? ['script', '-qec', `stty cols 80; ${quoted}`, '/dev/null'] : words;
  const child = spawn(command!, rest, {
    env: { ...processEnv, TERM: 'xterm-256color', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: limitMs / 2,
    killSignal: 'SIGKILL',
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.signalCode !== null) throw new MachineTooSlow(`the end of ${args.join(' ')}`, limitMs / 2);
  return stdout + stderr;
}

test(
  'colours are for terminals that know them; NO_COLOR, FORCE_COLOR and TERM=dumb are respected, and --json has none',
  needsCommands('script'),
  async () => {
    const box = await sandbox({ nowMs: fixedNow, markets: 4, ticksPerDay: 50 });
    const lake = join(folder(), 'lake');
    await expectDone(runJob('nightly', box.url, lake, '--date', fixedDay));
    const markets = jobArgs('markets', lake).filter((arg) => arg !== '--json');
    const symbols = ['symbols', '--output', lake];
    const terminal = async (args: readonly string[]) => {
      const on = (env: Variables = {}) => printed(args, { ...access(box.url), ...env }, true);
      const off = (env: Variables = {}) => printed(args, { ...access(box.url), ...env }, false);
      expect(await on()).toMatch(colour);
      expect(await on({ NO_COLOR: '1' })).not.toMatch(colour);
      expect(await on({ FORCE_COLOR: '0' })).not.toMatch(colour);
      // A dumb terminal gets no bar either.
      expect(await on({ TERM: 'dumb' })).not.toContain(esc);
      expect(await off()).not.toContain(esc);
      expect(await off({ FORCE_COLOR: '1' })).toMatch(colour);
    };
    await Promise.all([terminal(markets), terminal(symbols)]);
    for (const args of [jobArgs('markets', lake), [...symbols, '--json']])
      expect(await printed([...args, '--quiet'], { ...access(box.url), FORCE_COLOR: '1' }, true)).not.toContain(esc);
  },
);
