import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readRecording } from '../src/archive/query/tick-recording.ts';
import { dayMs, floorToDay } from '../src/base/window.ts';
import type { Bench } from './bench.ts';
import { createBenchKey } from './key.ts';
import { measure } from './measure.ts';
import { findRecording } from './pages.ts';
import { createBenchArchive } from './tick-archive.ts';

/** An archive with ticks and markets, and a key for its service. */
export interface ServedArchive {
  readonly name: string;
  readonly root: string;
  readonly key: string;
  /** Days of symbols that have ticks. */
  readonly symbolDays: readonly SymbolDay[];
}

export interface SymbolDay {
  readonly symbol: string;
  /** UTC midnight. */
  readonly day: number;
}

/** Imports a recording; without one, generates about this many ticks. */
export async function createServedArchive(
  bench: Bench,
  root: string,
  recording: string,
  ticksGenerated: number,
): Promise<ServedArchive> {
  const files = findRecording(recording);
  if (files === undefined) return await generateArchive(bench, root, ticksGenerated);
  const { symbols, offsets, t } = await readRecording(files.ticks, files.markets);
  const first = t.reduce((a, b) => Math.min(a, b));
  const last = t.reduce((a, b) => Math.max(a, b));
  const covers = [first, last + 1].map((ms) => new Date(ms).toISOString()).join('..');
  await importFile(bench, root, 'recording', files.ticks, '--tz', 'UTC', '--covers', covers);
  await importFile(bench, root, 'recording', files.markets, '--dataset', 'markets');
  const day = floorToDay(first);
  const ofDay = symbols.filter((_, i) => t[offsets[i]!]! < day + dayMs);
  const symbolDays = ofDay.map((symbol) => ({ symbol, day }));
  return { name: 'recording', root, key: await createBenchKey(root), symbolDays };
}

async function generateArchive(bench: Bench, root: string, ticksGenerated: number): Promise<ServedArchive> {
  const { symbols, days, ticks, key } = await createBenchArchive(root, ticksGenerated);
  const file = join(bench.folder, 'markets.csv');
  writeFileSync(file, ['symbol,question', ...symbols.map((symbol) => `${symbol},Will ${symbol} happen?`)].join('\n'));
  await importFile(bench, root, 'https://bench.test', file, '--dataset', 'markets');
  const symbolDays = symbols.flatMap((symbol) => days.map((day) => ({ symbol, day })));
  return { name: `${(ticks / 1e6).toFixed(1)} M generated ticks`, root, key, symbolDays };
}

async function importFile(
  { launcher, folder, env, accounting }: Bench,
  root: string,
  source: string,
  file: string,
  ...flags: readonly string[]
): Promise<void> {
  const common = ['--output', root, '--quiet', '--set', `source.name=${source}`];
  await measure({ argv: [launcher, 'import', file, ...common, ...flags], cwd: folder, env }, accounting);
}
