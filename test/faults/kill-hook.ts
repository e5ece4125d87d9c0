import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { isMainThread } from 'node:worker_threads';

// Loaded into the real program by `node --import`, which knows nothing of it: it counts the calls by which files and
// databases change, and at one of them ends the process with SIGKILL. The environment says at which:
//   KILL_OF      which calls count: `file`, `state`, `rate`, `lock`; several with commas; all of them by default
//   KILL_AT      the number of the call, from 1; 0 kills never
//   KILL_HOW     `before` it, `after` it, or `half` way through a write (of any other call: before)
//   KILL_REPORT  file for what it died at, or the counts of a process that ended by itself
//   CLOCK_BACK   milliseconds by which the program's clock is behind the machine's

export type CallKind = 'file' | 'state' | 'rate' | 'lock';
export type KillHow = 'before' | 'after' | 'half';

export interface KillReport {
  readonly counts: Readonly<Record<CallKind, number>>;
  /** What it died at; null where it ended by itself. */
  readonly died: string | null;
}

const { KILL_OF = 'file,state,rate,lock', KILL_AT = '0', KILL_HOW = 'before', KILL_REPORT, CLOCK_BACK } = process.env;
const counted = new Set(KILL_OF.split(','));
const at = Number(KILL_AT);
const counts: Record<CallKind, number> = { file: 0, state: 0, rate: 0, lock: 0 };
const usual = { ...fs };
let n = 0;

function report(died: string | null): void {
  if (KILL_REPORT === undefined) return;
  usual.writeFileSync(KILL_REPORT, JSON.stringify({ counts, died } satisfies KillReport));
}

function die(where: string): void {
  report(where);
  process.kill(process.pid, 'SIGKILL');
  // It comes when the system gives the process its turn: nothing more is to happen before.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
}

/** Makes a call, unless it is the one to die at. */
function call<T>(kind: CallKind, name: string, told: () => string, make: () => T, half?: () => void): T {
  counts[kind]++;
  if (!counted.has(kind) || ++n !== at) return make();
  const where = (how: string): string => `${how} ${kind} call ${n}: ${name} ${told()}`;
  if (KILL_HOW === 'half' && half !== undefined) {
    half();
    die(where('half way through'));
  }
  if (KILL_HOW !== 'after') die(where('before'));
  const result = make();
  die(where('after'));
  return result;
}

type Call = (...args: unknown[]) => unknown;

/** Puts the counted call in the place of one of an object. */
function wrap(of: object, name: string, by: (usually: Call, self: unknown, args: unknown[]) => unknown): void {
  const usually = (of as Record<string, Call>)[name]!;
  (of as Record<string, Call>)[name] = function (this: unknown, ...args: unknown[]) {
    return by(usually, this, args);
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
    // Standard output and error are nobody's archive.
    if (file <= 2 || !(bytes instanceof Uint8Array)) return make();
    const half = () => void usual.writeSync(file, bytes.subarray(0, Math.floor(bytes.length / 2)));
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
