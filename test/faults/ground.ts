import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { systemClock } from '../../src/base/system.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { turnedBack } from '../archive/older.ts';
import { dayMs, fixedNow, manifestOf, rowsOf, sandbox, ticksOf, totalTicks } from '../e2e/lake.ts';
import { archiveFaults, type Contents, contentsOf, sha256Of, treeFaults } from './archive-faults.ts';
import { hookedJob, runHooked, scratch } from './hooked.ts';
import { type Base, bases, type Flow, must, type Place } from './kill-flows.ts';
import type { CallKind } from './kill-hook.ts';

// What kills and races stand on: a service that stands still, archives to begin with, and what undisturbed runs make.

export interface Ground {
  readonly box: Sandbox;
  readonly bases: Readonly<Record<Base, string>>;
  readonly input: string;
  readonly folder: string;
  /** What comes of these flows, one after the other, when nobody disturbs them. */
  calm(of: readonly Flow[]): Promise<Calm>;
}

export interface Calm {
  readonly outcome: Outcome;
  /** How many calls of each kind a flow makes. */
  readonly counts: ReadonlyMap<Flow, Readonly<Record<CallKind, number>>>;
}

/** What is to be the same in the end, whatever happened on the way. */
export interface Outcome extends Contents {
  /** What was made outside of the archive; of a snapshot only that it is there: its generation may be an earlier one. */
  readonly names: readonly string[];
  /** sha256 of the export; null where there is none. */
  readonly exported: string | null;
}

export const outcomeOf = ({ archive, out }: Place): Outcome => {
  const exported = join(out, 'ticks.parquet');
  return {
    ...contentsOf(archive),
    names: readdirSync(out).sort(),
    exported: existsSync(exported) ? sha256Of(exported) : null,
  };
};

/** What is wrong with a place once the last run is through. */
export function faultsOf({ box, bases }: Pick<Ground, 'box' | 'bases'>, { archive, out }: Place, base: Base): string[] {
  const snapshot = join(out, 'snapshot');
  // What a repair fetches anew counts as accepted once more.
  const forgotten = base === 'damaged' ? null : base === 'without its state' ? totalTicks(bases[base]) : 0;
  return [...archiveFaults(archive, box, forgotten), ...(existsSync(snapshot) ? treeFaults(snapshot) : [])];
}

export const placeIn = (folder: string, input: string): Place => ({
  archive: join(folder, 'archive'),
  out: join(folder, 'out'),
  input,
});

/** Begins a place with an archive of this base. */
export function begin({ bases }: Pick<Ground, 'bases'>, place: Place, base: Base): void {
  mkdirSync(place.out, { recursive: true });
  if (existsSync(bases[base])) cpSync(bases[base], place.archive, { recursive: true });
}

export async function ground(): Promise<Ground> {
  const folder = scratch();
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 4, ticksPerDay: 60, epochMs: fixedNow - 5 * dayMs });
  const input = join(folder, 'input');
  const made = { box, bases: await makeBases(join(folder, 'bases'), box) };
  // Of symbols that are known: one that an import alone brings is backfilled after it, and not before.
  writeInput(input, box, [...ticksOf(made.bases['a day']).keys()].slice(0, 4));
  const known = new Map<string, Promise<Calm>>();
  async function runCalm(of: readonly Flow[], name: string): Promise<Calm> {
    const place = placeIn(join(folder, name), input);
    begin(made, place, of[0]!.base);
    const counts = new Map<Flow, Readonly<Record<CallKind, number>>>();
    for (const flow of of) {
      const ended = await runHooked(flow.args(place), box.url, join(folder, `${name}.json`));
      must(ended, [0]);
      counts.set(flow, ended.counts);
    }
    const faults = faultsOf(made, place, of[0]!.base);
    if (faults.length > 0) throw new Error(`undisturbed, ${name}: ${faults.join('\n')}`);
    return { outcome: outcomeOf(place), counts };
  }
  return {
    ...made,
    input,
    folder,
    calm(of) {
      const name = of.map((flow) => flow.name).join(', ');
      const calm = known.get(name) ?? runCalm(of, name);
      known.set(name, calm);
      return calm;
    },
  };
}

/** Makes every base once, in `folder`, by runs that nobody disturbs. */
async function makeBases(folder: string, box: Sandbox): Promise<Record<Base, string>> {
  const at = (base: Base): string => join(folder, base, 'archive');
  const run = async (base: Base, codes: number[], name: string, ...flags: string[]): Promise<void> => {
    mkdirSync(join(folder, base), { recursive: true });
    must(await runHooked(hookedJob(name, at(base), ...flags), box.url, join(folder, 'report.json')), codes);
  };
  await run('a day', [0], 'nightly', '--date', '2025-06-13');
  await run('without candles', [0], 'nightly', '--date', '2025-06-13', '--set', 'archive.candles=[]');
  cpSync(at('a day'), at('journaled'), { recursive: true });
  const lock = await takeWriteLock(join(at('journaled'), '.oddslake', 'lock.sqlite'), 0, systemClock);
  await run('journaled', [5], 'nightly', '--date', '2025-06-14', '--wait', '0');
  await run('journaled', [5], 'orderbook', '--wait', '0');
  lock.release();
  cpSync(at('a day'), at('without its state'), { recursive: true });
  rmSync(join(at('without its state'), '.oddslake'), { recursive: true });
  cpSync(at('a day'), at('older'), { recursive: true });
  turnedBack(at('older'));
  cpSync(at('a day'), at('damaged'), { recursive: true });
  damage(at('damaged'));
  return Object.fromEntries(bases.map((base) => [base, at(base)])) as Record<Base, string>;
}

/** A bit that fell over in one part of the ticks, half of another, and candles that are gone. */
function damage(archive: string): void {
  const [first, second] = manifestOf(archive).datasets.ticks.files.map(({ path }) => join(archive, path));
  const bytes = readFileSync(first!);
  bytes[Math.floor(bytes.length / 3)]! ^= 1;
  writeFileSync(first!, bytes);
  truncateSync(second!, Math.floor(readFileSync(second!).length / 2));
  rmSync(join(archive, manifestOf(archive).datasets.candles_1h.files[0]!.path));
}

/**
 * Writes what is imported: rows of which some have another price than the service's, which are to lose, and a page that
 * covers what nothing else asks for.
 */
function writeInput(folder: string, box: Sandbox, symbols: readonly string[]): void {
  mkdirSync(folder, { recursive: true });
  const put = (name: string, text: string): void => {
    writeFileSync(join(folder, name), text);
    utimesSync(join(folder, name), fixedNow / 1000, fixedNow / 1000);
  };
  const day = (daysBack: number) => {
    const from = Date.UTC(2025, 5, 15 - daysBack);
    return { from, to: from + dayMs };
  };
  const lines = symbols.flatMap((symbol) =>
    rowsOf(box.readTruth(symbol, day(2))).map(({ t, p }, i) => `${symbol},${t},${i % 7 === 0 ? p / 2 : p}\n`),
  );
  put('rows.csv', `symbol,t,p\n${lines.join('')}`);
  symbols.forEach((symbol, i) => {
    const ticks = rowsOf(box.readTruth(symbol, day(4)));
    const page = { symbol, ticks, count: ticks.length, ...day(4), generated_at: fixedNow };
    put(`page-${i}.json`, JSON.stringify(page));
  });
}
