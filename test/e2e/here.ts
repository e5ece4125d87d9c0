import { main } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/job.ts';
import { access, type Ended, endedOf, jobArgs, type Variables } from './lake.ts';

// Runs the command line in this process, for tests that do not need a separate process. Starts in a few milliseconds instead
// of half a second.

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

let isRunning = false;

/** Like `run` of a process, one at a time, in the working folder of this process. */
export async function runHere(args: readonly string[], env: Variables = {}): Promise<Ended> {
  if (isRunning) throw new Error('one at a time: a process has one standard output');
  isRunning = true;
  const texts = { stdout: '', stderr: '' };
  const before = variables();
  const { stdout, stderr } = process;
  const writes = { stdout: stdout.write, stderr: stderr.write };
  setVariables(env);
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].write = ((text: string | Uint8Array, ...rest: unknown[]): boolean => {
      texts[name] += typeof text === 'string' ? text : Buffer.from(text).toString('utf8');
      const then = rest.at(-1);
      if (typeof then === 'function') process.nextTick(then as () => void);
      return true;
    }) as typeof stdout.write;
  }
  // Each run listens for errors of both streams, as a process does once.
  const listeners = [stdout, stderr].map((stream) => stream.listeners('error'));
  try {
    const code = await main(['node', 'oddslake', ...args], jobs);
    return endedOf({ code, signal: null, ...texts });
  } finally {
    for (const [i, stream] of [stdout, stderr].entries())
      for (const listener of stream.listeners('error'))
        if (!listeners[i]!.includes(listener)) stream.off('error', listener as () => void);
    stdout.write = writes.stdout;
    stderr.write = writes.stderr;
    setVariables(before);
    isRunning = false;
  }
}

/** Environment of the program. */
const variables = (): Variables =>
  Object.fromEntries(Object.entries(process.env).flatMap(([name, value]) => (isOurs(name) ? [[name, value!]] : [])));

function setVariables(wanted: Variables): void {
  for (const name of Object.keys(process.env).filter(isOurs)) delete process.env[name];
  Object.assign(process.env, wanted);
}

const isOurs = (name: string): boolean => name.startsWith('ODDSLAKE_');

/** Like `job` of a process. */
export const jobHere = (name: string, url: string, output: string, ...flags: string[]): Promise<Ended> =>
  runHere(jobArgs(name, output, ...flags), access(url));
