import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { datasets } from '../../../src/archive/format/datasets.ts';
import { decodeRows } from '../../../src/archive/parquet/rows.ts';
import { formatDay } from '../../../src/base/time.ts';
import { keyOf } from './accepted-rows.ts';
import { type SeriesName, seriesNames } from './series-rows.ts';

/**
 * A reader that globs quotes and trades like `reader.ts` the ticks: it must always see each key once, and never fewer keys than
 * before.
 */
export function startSeriesReader(root: string, wrongs: string[]) {
  /** The keys of each file, by symbol. */
  const files = new Map<string, ReadonlyMap<string, ReadonlySet<string>>>();

  function take(path: string): void {
    const before = files.get(path);
    try {
      files.set(path, readKeys(path));
    } catch (error) {
      wrongs.push(`glob: ${path} cannot be read: ${(error as Error).message}`);
      return;
    }
    for (const [symbol, keys] of before ?? [])
      for (const key of keys)
        if (!files.get(path)!.get(symbol)?.has(key)) wrongs.push(`glob: ${path} has lost ${key} of ${symbol}`);
  }

  function readKeys(path: string): Map<string, Set<string>> {
    const [dataset, day] = path.split('/') as [SeriesName, string];
    const bySymbol = new Map<string, Set<string>>();
    for (const row of decodeRows(datasets[dataset].columns, readFileSync(join(root, path)))) {
      const [symbol, t, id] = row as [string, number, string];
      const keys = bySymbol.get(symbol) ?? new Set();
      bySymbol.set(symbol, keys);
      const key = dataset === 'quotes' ? String(t) : id;
      if (keys.has(key)) wrongs.push(`glob: ${path} has ${key} of ${symbol} twice`);
      if (`date=${formatDay(t)}` !== day) wrongs.push(`glob: ${path} has ${symbol} of another day, ${t}`);
      keys.add(key);
    }
    return bySymbol;
  }

  function look(dataset: SeriesName, day: string): void {
    const folder = join(root, dataset, day);
    const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.parquet')) : [];
    for (const path of files.keys()) {
      const [itsDataset, itsDay, name] = path.split('/');
      if (itsDataset !== dataset || itsDay !== day || names.includes(name!)) continue;
      wrongs.push(`glob: ${path} is gone`);
      files.delete(path);
    }
    const owners = new Map<string, string>();
    for (const name of names) {
      const path = `${dataset}/${day}/${name}`;
      if (!files.has(path)) take(path);
      for (const symbol of files.get(path)?.keys() ?? []) {
        if (owners.has(symbol)) wrongs.push(`glob: ${symbol} is in ${owners.get(symbol)} and in ${path}`);
        owners.set(symbol, path);
      }
    }
  }

  return {
    /** A name has changed: of a file or of the folder of a day. */
    onName(top: string, day: string | undefined, name: string | undefined): void {
      const dataset = seriesNames.find((one) => one === top);
      if (dataset === undefined || day === undefined) return;
      const path = [dataset, day, name].join('/');
      if (name?.endsWith('.parquet') && existsSync(join(root, path))) take(path);
      look(dataset, day);
    },
    /** See `Reader.lookAtAll`. */
    lookAtAll(mayShrink: boolean): void {
      if (mayShrink) files.clear();
      for (const path of files.keys()) if (existsSync(join(root, path))) take(path);
      const days = seriesNames.flatMap((dataset) => {
        const folder = join(root, dataset);
        return (existsSync(folder) ? readdirSync(folder) : []).map((day) => keyOf(dataset, day));
      });
      const known = [...files.keys()].map((path) => keyOf(...path.split('/').slice(0, 2)));
      for (const each of new Set([...days, ...known])) {
        const [dataset, day] = each.split('\n') as [SeriesName, string];
        look(dataset, day);
      }
    },
  };
}
