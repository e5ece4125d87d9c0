import { main } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/job.ts';
import { access, type Ended, endedOf, jobArgs, type Variables } from './lake.ts';

// Runs the program in this process: it starts in a few milliseconds instead of half a second. Tests of signals, of several
// runs at a time, of the launcher and of the exit code of a process start one (lake.ts).

/** The same as in bin/main.ts. */
const jobs: JobLoaders = {
  nightly: async () => (await import('../../jobs/nightly.ts')).job,
  markets: async () => (await import('../../jobs/markets.ts')).job,
  ticks: async () => (await import('../../jobs/ticks.ts')).job,
  orderbook: async () => (await import('../../jobs/orderbook.ts')).job,
  backfill: async () => (await import('../../jobs/backfill.ts')).job,
  import: async () => (await import('../../jobs/import.ts')).job,
  publish: async () => (await import('../../jobs/publish.ts')).job,
  verify: async () => (await import('../../jobs/verify.ts')).job,
  repair: async () => (await import('../../jobs/repair.ts')).job,
};

let last: Promise<unknown> = Promise.resolve();

/**
 * Like `runProcess`, one run after another: a process has one environment, working folder and standard output, which are
 * those of the program until it ends.
 */
export function run(args: readonly string[], env: Variables = {}, cwd?: string): Promise<Ended> {
  const ended = last.then(() => runAlone(args, env, cwd));
  last = ended.catch(() => {});
  return ended;
}

async function runAlone(args: readonly string[], env: Variables, cwd: string | undefined): Promise<Ended> {
  const texts = { stdout: '', stderr: '' };
  const { stdout, stderr } = process;
  const writes = { stdout: stdout.write, stderr: stderr.write };
  // Each run listens for errors of both streams, as a process does once.
  const listeners = [stdout, stderr].map((stream) => stream.listeners('error'));
  const restoreVariables = replaceVariables(env);
  const folderBefore = process.cwd();
  if (cwd !== undefined) process.chdir(cwd);
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].write = ((text: string | Uint8Array, ...rest: unknown[]): boolean => {
      texts[name] += typeof text === 'string' ? text : Buffer.from(text).toString('utf8');
      const then = rest.at(-1);
      if (typeof then === 'function') process.nextTick(then as () => void);
      return true;
    }) as typeof stdout.write;
  }
  try {
    const code = await main(['node', 'oddslake', ...args], jobs);
    return endedOf({ code, signal: null, ...texts });
  } finally {
    for (const [i, stream] of [stdout, stderr].entries())
      for (const listener of stream.listeners('error'))
        if (!listeners[i]!.includes(listener)) stream.off('error', listener as () => void);
    stdout.write = writes.stdout;
    stderr.write = writes.stderr;
    process.chdir(folderBefore);
    restoreVariables();
  }
}

/** Sets the variables of the program and no others of its own. Returns the function that restores the former ones. */
function replaceVariables(env: Variables): () => void {
  const replaced = [...Object.keys(process.env).filter((name) => name.startsWith('ODDSLAKE_')), ...Object.keys(env)];
  const before = new Map(replaced.map((name) => [name, process.env[name]]));
  for (const name of replaced) delete process.env[name];
  Object.assign(process.env, env);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

/** Like `runJobProcess`. */
export const runJob = (name: string, url: string, output: string, ...flags: string[]): Promise<Ended> =>
  run(jobArgs(name, output, ...flags), access(url));
