import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { createDisk, type Disk, type FileSystemCalls, systemCalls } from '../../../src/archive/disk/file-system.ts';
import { type Database, type OpenDatabase, openDatabase } from '../../../src/archive/journal/database.ts';
import { systemError } from '../fault-disk.ts';
import { type Loss, type PowerModel, powerModel } from '../power-loss.ts';
import type { Draw } from '../seeds.ts';
import { openWatchedDatabase } from './watched-database.ts';

// The machine that the jobs run on: processes that can be killed, a disk that can fail, and power that can be lost.

/** Thrown by everything that a process does after it died. */
class Killed extends Error {}

/**
 * What strikes at the n-th change of disk or state from now on.
 * - `kill`: the process that makes it dies · `crash`: all processes die · `power`: and what was not synced is lost
 * - `EIO`, `ENOSPC`: the call fails once; databases are spared
 */
export interface Strike {
  readonly at: number;
  readonly kind: 'kill' | 'crash' | 'power' | 'EIO' | 'ENOSPC';
  /** Where in the call the process dies; torn: after half of a write. */
  readonly when: 'before' | 'after' | 'torn';
}

export interface Process {
  readonly disk: Disk;
  readonly openDatabase: OpenDatabase;
  readonly signal: AbortSignal;
  isDead(): boolean;
  /** Like SIGTERM; `reason` is that of the signal handler. */
  stop(reason: Error): void;
}

export interface Machine {
  startProcess(name: string): Process;
  strikeWith(strike: Strike): void;
  /** What struck since the last restart; null: nothing. */
  struck(): Strike['kind'] | null;
  /** After all processes have ended: restores disk and state as the strike left them, and cancels the plan. */
  restart(draw: Draw): void;
  /** Files were changed outside of the model: their current content is durable. */
  resyncDisk(): void;
  /** The private folder is lost, with the state. */
  losePrivate(): void;
}

interface MachineEvents {
  /** Called before every change. */
  onChange(line: string): void;
  /** A name below the root has changed: a reader may read. */
  onName(path: string): void;
  /** A process with this name committed a transaction of the state. */
  onCommit(db: Database, name: string): void;
}

/** No process has this ID: systems count no further than 2^22. */
const deadPid = 2 ** 22 + 1;

export function startMachine(root: string, events: MachineEvents): Machine {
  const unsynced: FileSystemCalls = { ...systemCalls, sync: () => {} };
  const stateAt = join(root, '.oddslake', 'state.sqlite');
  let model: PowerModel = powerModel(root, unsynced);
  let strike: Strike | null = null;
  let struck: Strike['kind'] | null = null;
  let changes = 0;
  let stateFiles: Map<string, Buffer> | null = null;
  let living: { die(): void }[] = [];

  function strikeDown(kind: Strike['kind'], one: { die(): void }): void {
    if (kind === 'kill') {
      one.die();
      return;
    }
    stateFiles = new Map();
    for (const end of ['', '-wal']) if (existsSync(stateAt + end)) stateFiles.set(end, readFileSync(stateAt + end));
    for (const process of living) process.die();
  }

  /** Makes a change unless the strike prevents it. `half`: half of the change. */
  function change<T>(one: { die(): void }, line: string, work: () => T, isDisk: boolean, half?: () => T): T {
    changes++;
    const dueStrike = strike !== null && changes >= strike.at ? strike : null;
    if (dueStrike === null || (dueStrike.kind.startsWith('E') && !isDisk)) {
      events.onChange(line);
      return work();
    }
    strike = null;
    struck = dueStrike.kind;
    events.onChange(`${line} ${dueStrike.kind} ${dueStrike.when}`);
    if (dueStrike.kind === 'EIO' || dueStrike.kind === 'ENOSPC') throw systemError(dueStrike.kind, line);
    if (dueStrike.when === 'after') work();
    if (dueStrike.when === 'torn') half?.();
    strikeDown(dueStrike.kind, one);
    throw new Killed(line);
  }

  function startProcess(name: string): Process {
    const controller = new AbortController();
    let dead = false;
    const processCalls = {
      die(): void {
        dead = true;
        controller.abort(new Killed(`${name} is dead`));
      },
    };
    living.push(processCalls);
    // A machine without power starts nothing.
    if (stateFiles !== null) processCalls.die();
    const checkAlive = (): void => {
      if (dead) throw new Killed(`${name} is dead`);
    };
    const does = <T>(description: string, work: () => T, half?: () => T): T => {
      checkAlive();
      return change(processCalls, `${name} ${description}`, work, true, half);
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
        checkAlive();
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
      checkAlive();
      const db = openDatabase(path, busyMsMax);
      return openWatchedDatabase(
        db,
        checkAlive,
        (description, work) => change(processCalls, `${name} ${description}`, work, false),
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
    restart(draw) {
      if (struck === 'power') {
        const loss: Loss = draw.one(['vanished', 'names', 'some']);
        const backup = `${root}.kept`;
        model.cut(backup, loss, draw);
        rmSync(root, { recursive: true });
        renameSync(backup, root);
      }
      if (stateFiles !== null) {
        mkdirSync(join(root, '.oddslake'), { recursive: true });
        for (const end of ['', '-wal', '-shm']) rmSync(stateAt + end, { force: true });
        for (const [end, bytes] of stateFiles) writeFileSync(stateAt + end, bytes);
      }
      if (struck !== null && existsSync(stateAt)) orphanProcesses(stateAt);
      if (struck === 'power') model = powerModel(root, unsynced);
      strike = null;
      struck = null;
      stateFiles = null;
      living = [];
    },
    resyncDisk() {
      model = powerModel(root, unsynced);
    },
    losePrivate() {
      rmSync(join(root, '.oddslake'), { recursive: true, force: true });
      model = powerModel(root, unsynced);
    },
  };
}

/** Their process IDs are ours, and this process continues: the next run must take them for dead. */
function orphanProcesses(path: string): void {
  const db = openDatabase(path, 0);
  try {
    if (db.one("select 1 from sqlite_master where name = 'runs'") !== undefined)
      db.run('update runs set pid = ? where finished_at is null', deadPid);
  } finally {
    db.close();
  }
}
