import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { decodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import { formatDay } from '../../../src/base/time.ts';
import { startSeriesReader } from './series-reader.ts';

type Prices = ReadonlyMap<number, number>;
/** The ticks of one file, by symbol. */
type FileTicks = ReadonlyMap<string, Prices>;

/**
 * A reader that globs `ticks/date=*\/*.parquet` whenever a name there changes. It decodes changed files; it must always
 * see one tick per key and never fewer ticks than before. It globs quotes and trades too (`series-reader.ts`).
 */
export interface Reader {
  readonly wrongs: string[];
  /** A name has changed. */
  onName(path: string): void;
  /** All published ticks, by symbol. */
  ticks(): Map<string, Map<number, number>>;
  /** The ticks of one file. */
  file(path: string): FileTicks | undefined;
  /** Suspends the checks until everything is read again: files are damaged or repaired, and ticks may be lost. */
  lookAway(): void;
  /** Reads everything again, as after a restart. `mayShrink`: whether lost ticks are expected. */
  lookAtAll(mayShrink: boolean): void;
}

export function startReader(root: string): Reader {
  const files = new Map<string, FileTicks>();
  const wrongs: string[] = [];
  let suspended = false;
  const fileOf = join(root, 'ticks');
  const series = startSeriesReader(root, wrongs);

  function look(day: string): void {
    const folder = join(fileOf, day);
    const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.parquet')) : [];
    for (const path of files.keys()) {
      const [, its, name] = path.split('/');
      if (its === day && !names.includes(name!)) {
        wrongs.push(`glob: ${path} is gone`);
        files.delete(path);
      }
    }
    const owners = new Map<string, string>();
    for (const name of names) {
      const path = `ticks/${day}/${name}`;
      if (!files.has(path)) take(path);
      for (const symbol of files.get(path)?.keys() ?? []) {
        if (owners.has(symbol)) wrongs.push(`glob: ${symbol} is in ${owners.get(symbol)} and in ${path}`);
        owners.set(symbol, path);
      }
    }
  }

  function take(path: string): void {
    const before = files.get(path);
    const bytes = readFileSync(join(root, path));
    let now: FileTicks;
    try {
      now = ticksIn(path, bytes);
    } catch (error) {
      wrongs.push(`glob: ${path} cannot be read: ${(error as Error).message}`);
      return;
    }
    files.set(path, now);
    for (const [symbol, prices] of before ?? []) {
      for (const t of prices.keys())
        if (!now.get(symbol)?.has(t)) wrongs.push(`glob: ${path} has lost the tick of ${symbol} at ${t}`);
    }
  }

  function ticksIn(path: string, bytes: Uint8Array): FileTicks {
    const { symbols, offsets, t, p } = decodeTicks(bytes);
    const out = new Map<string, Map<number, number>>();
    const date = path.split('/')[1]!.slice('date='.length);
    symbols.forEach((symbol, i) => {
      if (out.has(symbol)) wrongs.push(`glob: ${path} has ${symbol} twice`);
      const prices = new Map<number, number>();
      for (let row = offsets[i]!; row < offsets[i + 1]!; row++) {
        const at = t[row]!;
        if (prices.has(at)) wrongs.push(`glob: ${path} has ${symbol} at ${at} twice`);
        if (formatDay(at) !== date) wrongs.push(`glob: ${path} has ${symbol} of another day, ${at}`);
        prices.set(at, p[row]!);
      }
      out.set(symbol, prices);
    });
    return out;
  }

  return {
    wrongs,
    onName(path) {
      if (suspended) return;
      const [top, day, name] = relative(root, path).split(sep);
      series.onName(top!, day, name);
      if (top !== 'ticks' || day === undefined) return;
      if (name?.endsWith('.parquet') && existsSync(path)) take(`${top}/${day}/${name}`);
      look(day);
    },
    ticks() {
      const out = new Map<string, Map<number, number>>();
      for (const of of files.values()) {
        for (const [symbol, prices] of of) {
          const all = out.get(symbol) ?? new Map<number, number>();
          out.set(symbol, all);
          for (const [t, p] of prices) all.set(t, p);
        }
      }
      return out;
    },
    file: (path) => files.get(path),
    lookAway() {
      suspended = true;
    },
    lookAtAll(mayShrink) {
      suspended = false;
      series.lookAtAll(mayShrink);
      if (mayShrink) files.clear();
      const days = existsSync(fileOf) ? readdirSync(fileOf) : [];
      for (const path of files.keys()) if (existsSync(join(root, path))) take(path);
      for (const day of new Set([...days, ...[...files.keys()].map((path) => path.split('/')[1]!)])) look(day);
    },
  };
}
