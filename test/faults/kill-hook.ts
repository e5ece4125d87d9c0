import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { isMainThread, Worker } from 'node:worker_threads';

// Loaded into the real program by `node --import`, without its knowledge. Counts the calls that change files and
// databases, and at one of them kills or stops the process. Environment:
// - HALT_OF: which calls count: `file`, `state`, `rate`, `lock`, separated by commas; default all
// - HALT_AT: the number of the call, from 1; 0: none
// - HALT_HOW: `before` it, `after` it, or `half` way through a write or a call of SQLite (before any other)
// - HALT_SIGNAL: SIGKILL by default; after SIGSTOP the process resumes with SIGCONT
// - HALT_REPORT: file for the call at which it halted, or for the counts if it did not
// - CALL_PAUSE: milliseconds to wait before every `file` call, so that other processes interleave
// - CLOCK_BACK: milliseconds by which the program's clock is behind the machine's

export type CallKind = 'file' | 'state' | 'rate' | 'lock';
export type HaltHow = 'before' | 'after' | 'half';

export interface HaltReport {
  readonly counts: Readonly<Record<CallKind, number>>;
  /** The call at which it halted; null if it exited by itself. */
  readonly halted: string | null;
}

const { HALT_OF = 'file,state,rate,lock', HALT_AT = '0', HALT_HOW = 'before', HALT_REPORT } = process.env;
const { HALT_SIGNAL = 'SIGKILL', CALL_PAUSE = '0', CLOCK_BACK } = process.env;
const counted = new Set(HALT_OF.split(','));
const at = Number(HALT_AT);
const pauseMs = Number(CALL_PAUSE);
const counts: Record<CallKind, number> = { file: 0, state: 0, rate: 0, lock: 0 };
const usual = { ...fs };
let n = 0;

const wait = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** Written atomically, so that a reader finds a complete report. */
function report(halted: string | null): void {
  if (HALT_REPORT === undefined) return;
  usual.writeFileSync(`${HALT_REPORT}.next`, JSON.stringify({ counts, halted } satisfies HaltReport));
  usual.renameSync(`${HALT_REPORT}.next`, HALT_REPORT);
}

function halt(location: string): void {
  report(location);
  process.kill(process.pid, HALT_SIGNAL);
  // SIGKILL takes effect asynchronously: do nothing more before it.
  while (HALT_SIGNAL === 'SIGKILL') wait(1000);
}

/**
 * Kills from another thread while this one makes a call, some ten microseconds after its start; the same delay for each
 * number.
 */
function killDuring(location: string, make: () => unknown): never {
  report(location);
  const ready = new Int32Array(new SharedArrayBuffer(4));
  const source = `
    const { workerData: { ready, pid, us } } = require('node:worker_threads');
    Atomics.store(ready, 0, 1);
    Atomics.notify(ready, 0);
    const end = process.hrtime.bigint() + BigInt(us) * 1000n;
    while (process.hrtime.bigint() < end);
    process.kill(pid, 'SIGKILL');`;
  new Worker(source, { eval: true, workerData: { ready, pid: process.pid, us: (at * 7919) % 150 } });
  Atomics.wait(ready, 0, 0);
  make();
  for (;;) wait(1000);
}

/** Makes a call, and halts at the selected one. `half` makes the first half and returns the rest. */
function call<T>(kind: CallKind, name: string, describe: () => string, make: () => T, half?: () => () => T): T {
  counts[kind]++;
  if (kind === 'file' && pauseMs > 0) wait(pauseMs);
  if (!counted.has(kind) || ++n !== at) return make();
  const location = (how: string): string => `${how} ${kind} call ${n}: ${name} ${describe()}`;
  if (HALT_HOW === 'half' && half !== undefined) {
    const rest = half();
    halt(location('half way through'));
    return rest();
  }
  if (HALT_HOW === 'half' && kind !== 'file' && HALT_SIGNAL === 'SIGKILL') return killDuring(location('amid'), make);
  if (HALT_HOW !== 'after') {
    halt(location('before'));
    return make();
  }
  const result = make();
  halt(location('after'));
  return result;
}

type Call = (...args: unknown[]) => unknown;

/** Replaces a method of an object by the counted call. */
function wrap(of: object, name: string, replacement: (usually: Call, self: unknown, args: unknown[]) => unknown): void {
  const usually = (of as Record<string, Call>)[name]!;
  (of as Record<string, Call>)[name] = function (this: unknown, ...args: unknown[]) {
    return replacement(usually, this, args);
  };
}

function wrapFiles(): void {
  for (const name of ['fsyncSync', 'renameSync', 'linkSync', 'unlinkSync', 'mkdirSync', 'rmdirSync', 'rmSync'])
    wrap(fs, name, (usually, self, args) =>
      call(
        'file',
        name,
        () => args.slice(0, 2).join(' '),
        () => usually.apply(self, args),
      ),
    );
  wrap(fs, 'openSync', (usually, self, args) => {
    const make = () => usually.apply(self, args);
    return args[1] === 'w' ? call('file', 'openSync', () => String(args[0]), make) : make();
  });
  wrap(fs, 'writeSync', (usually, self, args) => {
    const [file, bytes] = args as [number, Uint8Array];
    const make = () => usually.apply(self, args);
    // Standard output and error are not part of the archive.
    if (file <= 2 || !(bytes instanceof Uint8Array)) return make();
    const half = () => {
      const written = usual.writeSync(file, bytes.subarray(0, Math.floor(bytes.length / 2)));
      return () => written + usual.writeSync(file, bytes.subarray(written));
    };
    return call('file', 'writeSync', () => `${bytes.length} bytes`, make, half);
  });
  syncBuiltinESMExports();
}

function kindOf(db: DatabaseSync): CallKind {
  const path = db.location() ?? '';
  if (path.endsWith('rate.sqlite')) return 'rate';
  return path.endsWith('lock.sqlite') ? 'lock' : 'state';
}

function wrapDatabases(): void {
  const kinds = new WeakMap<object, CallKind>();
  const texts = new WeakMap<object, string>();
  wrap(DatabaseSync.prototype, 'prepare', (usually, self, args) => {
    const statement = usually.apply(self, args) as StatementSync;
    kinds.set(statement, kindOf(self as DatabaseSync));
    texts.set(statement, String(args[0]));
    return statement;
  });
  for (const name of ['exec', 'close'])
    wrap(DatabaseSync.prototype, name, (usually, self, args) =>
      call(
        kindOf(self as DatabaseSync),
        name,
        () => String(args[0]).slice(0, 80),
        () => usually.apply(self, args),
      ),
    );
  wrap(StatementSync.prototype, 'run', (usually, self, args) =>
    call(
      kinds.get(self as object) ?? 'state',
      'run',
      () => (texts.get(self as object) ?? '').slice(0, 80),
      () => usually.apply(self, args),
    ),
  );
}

if (isMainThread) {
  if (CLOCK_BACK !== undefined) {
    const now = Date.now.bind(Date);
    Date.now = () => now() - Number(CLOCK_BACK);
  }
  wrapFiles();
  wrapDatabases();
  process.on('exit', () => report(null));
}
