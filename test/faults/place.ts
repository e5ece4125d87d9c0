import { hash } from 'node:crypto';
import {
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Disk, FileSystemCalls } from '../../src/archive/disk/file-system.ts';
import type { OpenDatabase } from '../../src/archive/journal/database.ts';
import type { Clock } from '../../src/base/ports.ts';
import type { OpenTransport } from '../../src/client/transport.ts';
import type { Context } from '../../src/context/context.ts';
import { loadSettings } from '../../src/settings/load.ts';
import type { Settings } from '../../src/settings/settings.ts';
import { createContext } from '../harness/job-context.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

// A place is a folder with an archive and the other files of a flow: its input and output.

export const archiveOf = (place: string): string => join(place, 'archive');
export const privateOf = (place: string): string => join(place, 'archive/.oddslake');

/** In memory if possible: syncs are free there. */
const base = scratchRoot;

export interface Places {
  /** A path for a new place; `clear` deletes all of them. */
  fresh(): string;
  drop(place: string): void;
  clear(): void;
}

export function openPlaces(): Places {
  const root = mkdtempSync(join(base, 'oddslake-faults-'));
  let placesMade = 0;
  return {
    fresh: () => join(root, String(++placesMade)),
    drop: (place) => rmSync(place, { recursive: true, force: true }),
    clear: () => rmSync(root, { recursive: true, force: true }),
  };
}

export function copyTree(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [a, b] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) copyTree(a, b);
    else copyFileSync(a, b);
  }
}

/** Every file below, sorted; empty folders with a trailing slash. */
export function filesBelow(root: string, below = ''): string[] {
  const entries = readdirSync(join(root, below), { withFileTypes: true });
  if (entries.length === 0 && below !== '') return [`${below}/`];
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    return entry.isDirectory() ? filesBelow(root, path) : [path];
  });
}

/** sha256 of a file; none for an empty folder. */
export const hashOf = (path: string): string => (path.endsWith('/') ? '' : hash('sha256', readFileSync(path)));

/** No process has this ID: systems count no further than 2^22. */
export const deadPid = 2 ** 22 + 1;

/** Makes what this process left under its ID look like the remains of a dead process. */
export function disownFiles(path: string, rename: FileSystemCalls['rename'] = renameSync): void {
  for (const name of readdirSync(path)) {
    const at = join(path, name);
    // This process holds it and stays alive: a process ID that never existed holds nothing.
    if (/\.held(-journal)?$/.test(name)) {
      rmSync(at);
      continue;
    }
    const other = name.replace(new RegExp(`(^|-)${process.pid}-`), `$1${deadPid}-`);
    if (other !== name) rename(at, join(path, other));
    if (lstatSync(join(path, other)).isDirectory()) disownFiles(join(path, other), rename);
  }
}

/** A wall clock that stands still. Waits of less than a second end at once, longer ones when they are aborted. */
function standingClock(nowMs: number): Clock {
  let monotonicMs = 0;
  return {
    nowMs: () => nowMs,
    monotonicMs: () => monotonicMs,
    async sleep(ms, signal) {
      if (ms >= 1000) {
        await new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
        });
      }
      monotonicMs += ms;
      await new Promise((resolve) => setImmediate(resolve));
      signal?.throwIfAborted();
    },
  };
}

const loaded = new Map<string, Promise<Settings>>();

export interface Parts {
  readonly place: string;
  readonly disk: Disk;
  readonly openDatabase: OpenDatabase | undefined;
  readonly nowMs: number;
  readonly openWire?: OpenTransport;
  /** Distinguishes the runs of one place. */
  readonly turn: number;
  /** `archive.candles`. */
  readonly candles?: string;
  /** Days for which raw responses are kept; none by default. */
  readonly keepDays?: number;
}

/** The context of a command that runs in this place. */
export async function contextIn({
  place,
  disk,
  openDatabase,
  nowMs,
  openWire,
  turn,
  candles,
  keepDays = 0,
}: Parts): Promise<Context> {
  const settings = await settingsWith(candles ?? '1h');
  return createContext({
    settings: {
      ...settings,
      archive: { ...settings.archive, output: archiveOf(place) },
      raw: { ...settings.raw, keepDays },
    },
    clock: standingClock(nowMs),
    canCreateArchive: true,
    disk,
    openDatabase,
    openWire,
    random: () => (turn % 1000) / 1000,
    startDisplay: async () => ({ update: () => {}, stop: () => {}, [Symbol.dispose]: () => {} }),
  });
}

function settingsWith(candles: string): Promise<Settings> {
  const known = loaded.get(candles);
  if (known !== undefined) return known;
  const rateFlags = ['upstream.requests_per_second=1000', 'upstream.concurrency=1', 'report.nightly=false'];
  const settings = loadSettings({
    env: { ODDSLAKE_BASE_URL: 'https://box.test', ODDSLAKE_API_KEY: 'sandbox-key' },
    cwd: tmpdir(),
    output: join(tmpdir(), 'unused'),
    set: [...rateFlags, 'source.first_lookback_days=1', 'archive.parts=2', `archive.candles=${candles}`],
  });
  loaded.set(candles, settings);
  return settings;
}
