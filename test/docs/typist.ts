import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { processEnv } from '../e2e/lake.ts';
import { limitMs, MachineTooSlow } from '../harness/limits.ts';
import { project } from './kept-current.ts';

/** Somebody at a shell in a folder, who types one command after another. */
export interface Typist {
  readonly cwd: string;
  /** What the shell knows; what commands export is in it afterwards. */
  readonly env: Record<string, string>;
  /** Types a command and waits for its end, or for its first words where it is one that stays. Rejects where it fails. */
  type(code: string): Promise<{ stdout: string; stderr: string }>;
}

/** Commands that stay until they are stopped. */
const stays = /^\s*(?:\w+=\S*\s+)*(?:\S*\/)?oddslake\s+(serve|schedule|sandbox)\b(?![^#]*--help)/;
const msMax = limitMs / 2;

/** `replace`: what is typed in place of what the page has, as addresses and keys of its own. */
export function typist(
  cwd: string,
  given: Record<string, string>,
  replace: readonly (readonly [string, string])[],
): Typist {
  // Pages speak of bin/oddslake in a checkout, and of oddslake where it is installed.
  for (const name of ['bin', 'config', 'deploy', 'docs', 'man'])
    if (existsSync(join(project, name)) && !existsSync(join(cwd, name)))
      symlinkSync(join(project, name), join(cwd, name));
  const path = `${join(project, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`;
  const env: Record<string, string> = { ...processEnv, PATH: path, HOME: cwd, LC_ALL: 'C.UTF-8', ...given };
  const memory = mkdtempSync(join(tmpdir(), 'oddslake-typist-'));
  let place = cwd;
  return {
    cwd,
    env,
    async type(code) {
      const typed = replace.reduce((text, [was, is]) => text.replaceAll(was, is), code);
      mkdirSync(memory, { recursive: true });
      const isStaying = stays.test(typed);
      const after = isStaying ? '' : `\nenv -0 > ${memory}/env; pwd > ${memory}/cwd\n`;
      const child = spawn('bash', ['-euo', 'pipefail', '-c', isStaying ? `exec ${typed.trim()}` : typed + after], {
        cwd: place,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      if (isStaying) return await firstWords(child, typed);
      const told = await ended(child, typed);
      for (const pair of readFileSync(join(memory, 'env'), 'utf8').split('\0')) {
        const [, name, value] = /^([A-Za-z_]\w*)=(.*)$/s.exec(pair) ?? [];
        if (name !== undefined && !['_', 'SHLVL', 'PWD', 'OLDPWD'].includes(name)) env[name] = value!;
      }
      place = readFileSync(join(memory, 'cwd'), 'utf8').trim();
      return told;
    },
  };
}

interface Told {
  stdout: string;
  stderr: string;
}

function heard(child: ChildProcess): Told {
  const told = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name]!.setEncoding('utf8').on('data', (text: string) => {
      told[name] += text;
    });
  return told;
}

/** Rejects what is waited for where it takes too long, and kills the child. */
function hanging(child: ChildProcess, waitedFor: string, reject: (error: Error) => void): NodeJS.Timeout {
  return setTimeout(() => {
    child.kill('SIGKILL');
    reject(new MachineTooSlow(waitedFor, msMax));
  }, msMax);
}

function ended(child: ChildProcess, code: string): Promise<Told> {
  const told = heard(child);
  return new Promise((resolve, reject) => {
    const hang = hanging(child, `the end of ${code.trim()}`, reject);
    child.once('close', (status, signal) => {
      clearTimeout(hang);
      if (status === 0) resolve(told);
      else
        reject(
          new Error(
            `${code.trim()}\nended with ${status ?? signal}\n${told.stdout.slice(-2000)}\n${told.stderr.slice(-2000)}`,
          ),
        );
    });
  });
}

/** What a schedule logs of each of its jobs: it prints nothing until one of them has ended. */
const scheduled = /\bscheduled\b/;

/** What stays says something, and ends well when it is stopped after the test. */
function firstWords(child: ChildProcess, code: string): Promise<Told> {
  const told = heard(child);
  const over = new Promise<number | null>((resolve) => child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGTERM');
    const status = await over;
    if (status !== 0) throw new Error(`${code.trim()}\nwas stopped and ended with ${status}\n${told.stderr}`);
  });
  return new Promise((resolve, reject) => {
    const hang = hanging(child, `a word of ${code.trim()}`, reject);
    const settled = (): void => {
      clearTimeout(hang);
      resolve(told);
    };
    child.stdout!.once('data', settled);
    child.stderr!.on('data', () => {
      if (scheduled.test(told.stderr)) settled();
    });
    void over.then((status) => {
      clearTimeout(hang);
      reject(new Error(`${code.trim()}\nended with ${status}\n${told.stderr}`));
    });
  });
}

/** Writes a file into the typist's folder, and the folders above it. */
export function place(cwd: string, name: string, text: string): void {
  mkdirSync(dirname(join(cwd, name)), { recursive: true });
  writeFileSync(join(cwd, name), text);
}
