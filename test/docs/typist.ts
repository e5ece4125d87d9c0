import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { processEnv } from '../e2e/lake.ts';
import { limitMs, MachineTooSlow } from '../harness/limits.ts';
import { project } from './kept-current.ts';

/** A shell in a folder that runs one command after another. */
export interface Shell {
  readonly cwd: string;
  /** The environment of the shell. Exports of a command are in it afterwards. */
  readonly env: Record<string, string>;
  /** Runs a command and waits for its end, or for the first output of a command that keeps running. Rejects if it fails. */
  type(code: string): Promise<{ stdout: string; stderr: string }>;
}

/** Commands that run until they are stopped. */
const keepsRunning = /^\s*(?:\w+=\S*\s+)*(?:\S*\/)?oddslake\s+(serve|schedule|sandbox)\b(?![^#]*--help)/;
const msMax = limitMs / 2;

/** `replace`: replacements for text of the page, such as addresses. */
export function openShell(
  cwd: string,
  environment: Record<string, string>,
  replace: readonly (readonly [string, string])[],
): Shell {
  // Pages use bin/oddslake for a checkout, and oddslake for an installation.
  for (const name of ['bin', 'config', 'deploy', 'docs', 'man'])
    if (existsSync(join(project, name)) && !existsSync(join(cwd, name)))
      symlinkSync(join(project, name), join(cwd, name));
  const path = `${join(project, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`;
  const env: Record<string, string> = { ...processEnv, PATH: path, HOME: cwd, LC_ALL: 'C.UTF-8', ...environment };
  const exportsFolder = mkdtempSync(join(tmpdir(), 'oddslake-typist-'));
  let folder = cwd;
  return {
    cwd,
    env,
    async type(code) {
      const command = replace.reduce((text, [from, to]) => text.replaceAll(from, to), code);
      mkdirSync(exportsFolder, { recursive: true });
      const isStaying = keepsRunning.test(command);
      const after = isStaying ? '' : `\nenv -0 > ${exportsFolder}/env; pwd > ${exportsFolder}/cwd\n`;
      const child = spawn('bash', ['-euo', 'pipefail', '-c', isStaying ? `exec ${command.trim()}` : command + after], {
        cwd: folder,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      if (isStaying) return await waitForOutput(child, command);
      const output = await waitForExit(child, command);
      for (const pair of readFileSync(join(exportsFolder, 'env'), 'utf8').split('\0')) {
        const [, name, value] = /^([A-Za-z_]\w*)=(.*)$/s.exec(pair) ?? [];
        if (name !== undefined && !['_', 'SHLVL', 'PWD', 'OLDPWD'].includes(name)) env[name] = value!;
      }
      folder = readFileSync(join(exportsFolder, 'cwd'), 'utf8').trim();
      return output;
    },
  };
}

interface CommandOutput {
  stdout: string;
  stderr: string;
}

function collectOutput(child: ChildProcess): CommandOutput {
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name]!.setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  return output;
}

/** Kills the child and rejects if it takes too long. */
function startTimeout(child: ChildProcess, waitedFor: string, reject: (error: Error) => void): NodeJS.Timeout {
  return setTimeout(() => {
    child.kill('SIGKILL');
    reject(new MachineTooSlow(waitedFor, msMax));
  }, msMax);
}

function waitForExit(child: ChildProcess, code: string): Promise<CommandOutput> {
  const output = collectOutput(child);
  return new Promise((resolve, reject) => {
    const hang = startTimeout(child, `the end of ${code.trim()}`, reject);
    child.once('close', (status, signal) => {
      clearTimeout(hang);
      if (status === 0) resolve(output);
      else
        reject(
          new Error(
            `${code.trim()}\nended with ${status ?? signal}\n${output.stdout.slice(-2000)}\n${output.stderr.slice(-2000)}`,
          ),
        );
    });
  });
}

/** The word that a schedule logs for each job. It prints nothing until a job has ended. */
const scheduled = /\bscheduled\b/;

/** Waits for the first output of a command that keeps running. It has to exit with 0 when it is stopped after the test. */
function waitForOutput(child: ChildProcess, code: string): Promise<CommandOutput> {
  const output = collectOutput(child);
  const exited = new Promise<number | null>((resolve) => child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGTERM');
    const status = await exited;
    if (status !== 0) throw new Error(`${code.trim()}\nwas stopped and ended with ${status}\n${output.stderr}`);
  });
  return new Promise((resolve, reject) => {
    const hang = startTimeout(child, `output of ${code.trim()}`, reject);
    const settled = (): void => {
      clearTimeout(hang);
      resolve(output);
    };
    child.stdout!.once('data', settled);
    child.stderr!.on('data', () => {
      if (scheduled.test(output.stderr)) settled();
    });
    void exited.then((status) => {
      clearTimeout(hang);
      reject(new Error(`${code.trim()}\nended with ${status}\n${output.stderr}`));
    });
  });
}

/** Writes a file into a folder, and creates the folders above it. */
export function writeInto(cwd: string, name: string, text: string): void {
  mkdirSync(dirname(join(cwd, name)), { recursive: true });
  writeFileSync(join(cwd, name), text);
}
