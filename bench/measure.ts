import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A whole process from start to exit. */
export interface Measured {
  readonly wallMs: number;
  /** User and system time; null if the machine cannot measure it. */
  readonly cpuMs: number | null;
  /** Peak resident memory, MiB; null as for `cpuMs`. */
  readonly peakMiB: number | null;
}

export interface Command {
  /** The program, then its arguments. */
  readonly argv: readonly [string, ...string[]];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
}

/** A command prefix that measures a child process and writes "user system KiB" to `file`. */
export interface Accounting {
  readonly name: string;
  prefix(file: string): readonly string[];
}

/** wait4(2) of the child alone. Linux reports memory in KiB, macOS in bytes. */
const wait4 = `import os, sys
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
kib = used.ru_maxrss // (1024 if sys.platform == 'darwin' else 1)
with open(sys.argv[1], 'w') as out: out.write(f'{used.ru_utime} {used.ru_stime} {kib}')
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)`;

const candidates: readonly Accounting[] = [
  { name: 'GNU time', prefix: (file) => ['/usr/bin/time', '-q', '-f', '%U %S %M', '-o', file] },
  { name: 'wait4 by Python', prefix: (file) => ['python3', '-c', wait4, file] },
];

const noAccounting: Accounting = { name: 'none: neither GNU time nor python3', prefix: () => [] };

/** The first that works on this machine. */
export function findAccounting(): Accounting {
  const folder = mkdtempSync(join(tmpdir(), 'oddslake-accounting-'));
  try {
    const works = ({ prefix }: Accounting, i: number): boolean => {
      const file = join(folder, String(i));
      const [program, ...args] = [...prefix(file), 'true'];
      return spawnSync(program!, args).status === 0 && /^[\d.]+ [\d.]+ \d+\s*$/.test(readFileSync(file, 'utf8'));
    };
    return candidates.find(works) ?? noAccounting;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The command exited with a code other than 0, or could not be started. */
export class CommandFailed extends Error {
  override name = 'CommandFailed';
  /** The end of its output. */
  readonly output: string;

  constructor(message: string, output: string) {
    super(message);
    this.output = output;
  }
}

const outputCharactersMax = 4096;

/**
 * Runs one command to its end and discards its output.
 * @throws CommandFailed
 */
export async function measure({ argv, cwd, env }: Command, accounting: Accounting): Promise<Measured> {
  const file = join(cwd, 'measured.txt');
  const [program, ...args] = [...accounting.prefix(file), ...argv];
  const startedAt = performance.now();
  // A process group, so that an interrupted benchmark also ends the program behind the prefix.
  const child = spawn(program!, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const endChild = (): void => endGroup(child);
  process.prependOnceListener('exit', endChild);
  try {
    let output = '';
    const hear = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-outputCharactersMax);
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    const [code, signal] = await once(child, 'close').catch((error: Error) => {
      throw new CommandFailed('could not be started', error.message);
    });
    const wallMs = performance.now() - startedAt;
    if (code !== 0) throw new CommandFailed(`exited with ${code ?? signal}`, output.trim());
    return { wallMs, ...(accounting === noAccounting ? { cpuMs: null, peakMiB: null } : readUsed(file)) };
  } finally {
    process.off('exit', endChild);
    rmSync(file, { force: true });
  }
}

function readUsed(file: string): Pick<Measured, 'cpuMs' | 'peakMiB'> {
  const [user, system, kib] = readFileSync(file, 'utf8').trim().split(' ').map(Number);
  return { cpuMs: (user! + system!) * 1000, peakMiB: kib! / 1024 };
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // Already exited.
  }
}
