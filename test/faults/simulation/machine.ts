import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { createDisk, type Disk } from '../../../src/archive/disk/file-system.ts';
import { type FileSystemCalls, systemCalls } from '../../../src/archive/disk/syscalls.ts';
import { type Database, type OpenDatabase, openDatabase } from '../../../src/archive/journal/database.ts';
import { systemError } from '../fault-disk.ts';
import { type Loss, type PowerModel, powerModel } from '../power-loss.ts';
import type { Draw } from '../seeds.ts';
import { watched } from './watched-database.ts';

// The machine that the jobs run on: processes that can be killed, a disk that can fail, and the power that can go.

/** Thrown by whatever a process does after it died. */
export class Killed extends Error {}

/**
 * What strikes at the n-th change of disk or state from now on.
 * - `kill`: the process that makes it dies · `crash`: all of them do · `power`: and what was not synced is gone
 * - `EIO`, `ENOSPC`: the call fails, once; databases are spared
 */
export interface Strike {
  readonly at: number;
  readonly kind: 'kill' | 'crash' | 'power' | 'EIO' | 'ENOSPC';
  /** Where in the call, for those that die; torn: a write that takes half of its bytes. */
  readonly when: 'before' | 'after' | 'torn';
}

export interface Process {
  readonly disk: Disk;
  readonly openDatabase: OpenDatabase;
  readonly signal: AbortSignal;
  isDead(): boolean;
  /** As SIGTERM does, `reason` being what the signal's handler would say. */
  stop(reason: Error): void;
}

export interface Machine {
  startProcess(name: string): Process;
  strikeWith(strike: Strike): void;
  /** What has struck since the last time it was started anew; null: nothing. */
  struck(): Strike['kind'] | null;
  /** Once all processes are over: leaves disk and state as the strike left them, and takes back what is planned. */
  startAnew(draw: Draw): void;
  /** Files were changed behind its back: what is there now is durable. */
  heedDisk(): void;
  /** The private folder is lost, state and all. */
  losePrivate(): void;
}

export interface MachineEvents {
  /** Told of every change, before it is made. */
  onChange(line: string): void;
  /** A name below the root has changed: a reader may look. */
  onName(path: string): void;
  /** A transaction of the state is through, of the process of this name. */
  onCommit(db: Database, name: string): void;
}

/** No process has this number: systems count no further than to 2^22. */
const deadPid = 2 ** 22 + 1;

export function startMachine(root: string, events: MachineEvents): Machine {
  const unsynced: FileSystemCalls = { ...systemCalls, sync: () => {} };
  const stateAt = join(root, '.oddslake', 'state.sqlite');
  let model: PowerModel = powerModel(root, unsynced);
  let strike: Strike | null = null;
  let struck: Strike['kind'] | null = null;
  let changes = 0;
  let left: Map<string, Buffer> | null = null;
  let living: { die(): void }[] = [];

  function strikeDown(kind: Strike['kind'], one: { die(): void }): void {
    if (kind === 'kill') {
      one.die();
      return;
    }
    left = new Map();
    for (const end of ['', '-wal']) if (existsSync(stateAt + end)) left.set(end, readFileSync(stateAt + end));
    for (const process of living) process.die();
  }

  /** Makes a change, unless the strike says otherwise. `half`: the change half done. */
  function change<T>(one: { die(): void }, line: string, work: () => T, isDisk: boolean, half?: () => T): T {
    changes++;
    const due = strike !== null && changes >= strike.at ? strike : null;
    if (due === null || (due.kind.startsWith('E') && !isDisk)) {
      events.onChange(line);
      return work();
    }
    strike = null;
    struck = due.kind;
    events.onChange(`${line} ${due.kind} ${due.when}`);
    if (due.kind === 'EIO' || due.kind === 'ENOSPC') throw systemError(due.kind, line);
    if (due.when === 'after') work();
    if (due.when === 'torn') half?.();
    strikeDown(due.kind, one);
    throw new Killed(line);
  }

  function startProcess(name: string): Process {
    const controller = new AbortController();
    let dead = false;
    const own = {
      die(): void {
        dead = true;
        controller.abort(new Killed(`${name} is dead`));
      },
    };
    living.push(own);
    // A machine that is down starts nothing.
    if (left !== null) own.die();
    const alive = (): void => {
      if (dead) throw new Killed(`${name} is dead`);
    };
    const does = <T>(what: string, work: () => T, half?: () => T): T => {
      alive();
      return change(own, `${name} ${what}`, work, true, half);
    };
    const short = (path: string): string => relative(root, path).replaceAll(String(process.pid), 'pid');
    const named = (path: string): void => events.onName(path);
    const { calls } = model;
    const disk: FileSystemCalls = {
      create: (path) => does(`create ${short(path)}`, () => calls.create(path)),
      write: (file, bytes) =>
        does(
          `write ${bytes.length}`,
          () => calls.write(file, bytes),
          () => calls.write(file, bytes.subarray(0, bytes.length >> 1)),
        ),
      openFolder: (path) => {
        alive();
        return calls.openFolder(path);
      },
      sync: (file) => does('sync', () => calls.sync(file)),
      close: (file) => calls.close(file),
      rename: (from, to) => {
        does(`rename ${short(to)}`, () => calls.rename(from, to));
        named(to);
      },
      link: (from, to) => {
        does(`link ${short(to)}`, () => calls.link(from, to));
        named(to);
      },
      unlink: (path) => {
        does(`unlink ${short(path)}`, () => calls.unlink(path));
        named(path);
      },
      makeFolder: (path) => does(`mkdir ${short(path)}`, () => calls.makeFolder(path)),
      removeFolder: (path) => does(`rmdir ${short(path)}`, () => calls.removeFolder(path)),
    };
    const open: OpenDatabase = (path, busyMsMax) => {
      alive();
      const db = openDatabase(path, busyMsMax);
      return watched(
        db,
        alive,
        (what, work) => change(own, `${name} ${what}`, work, false),
        (done) => events.onCommit(done, name),
      );
    };
    return {
      disk: createDisk(disk),
      openDatabase: open,
      signal: controller.signal,
      isDead: () => dead,
      stop: (reason) => controller.abort(reason),
    };
  }

  return {
    startProcess,
    strikeWith(planned) {
      strike = planned;
      changes = 0;
    },
    struck: () => struck,
    startAnew(draw) {
      if (struck === 'power') {
        const loss: Loss = draw.one(['vanished', 'names', 'some']);
        const kept = `${root}.kept`;
        model.cut(kept, loss, draw);
        rmSync(root, { recursive: true });
        renameSync(kept, root);
      }
      if (left !== null) {
        mkdirSync(join(root, '.oddslake'), { recursive: true });
        for (const end of ['', '-wal', '-shm']) rmSync(stateAt + end, { force: true });
        for (const [end, bytes] of left) writeFileSync(stateAt + end, bytes);
      }
      if (struck !== null && existsSync(stateAt)) forgetLiving(stateAt);
      if (struck === 'power') model = powerModel(root, unsynced);
      strike = null;
      struck = null;
      left = null;
      living = [];
    },
    heedDisk() {
      model = powerModel(root, unsynced);
    },
    losePrivate() {
      rmSync(join(root, '.oddslake'), { recursive: true, force: true });
      model = powerModel(root, unsynced);
    },
  };
}

/** Their numbers are ours, and we go on: to the next run they are to be those of the dead. */
function forgetLiving(path: string): void {
  const db = openDatabase(path, 0);
  try {
    if (db.one("select 1 from sqlite_master where name = 'runs'") !== undefined)
      db.run('update runs set pid = ? where finished_at is null', deadPid);
  } finally {
    db.close();
  }
}
