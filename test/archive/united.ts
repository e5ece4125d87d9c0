import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Archive } from '../../src/archive/archive.ts';
import { type Disk, systemDisk } from '../../src/archive/disk/file-system.ts';
import { type DatasetName, datasetNames } from '../../src/archive/format/datasets.ts';
import { createLayout, privateFolderName } from '../../src/archive/format/layout.ts';
import { parseManifest } from '../../src/archive/format/manifest.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { type UniteResult, unite } from '../../src/archive/publish/unite-archives.ts';
import { clockAt, judged, now, opened, publishedRows, publishedTicks, scratchFolder } from './scratch.ts';

/** A copy of an archive, with or without its state. */
export function copyOf(root: string, keepsState = true, copy = join(scratchFolder(), 'copy')): string {
  cpSync(root, copy, { recursive: true });
  if (!keepsState) rmSync(join(copy, privateFolderName), { recursive: true, force: true });
  return copy;
}

let runs = 0;

/** Takes the archive in a folder into another one. */
export function uniteNow(
  archive: Archive,
  from: string,
  disk: Disk = systemDisk,
  nowMs = now,
  rest: { readonly views?: readonly string[] } = {},
): Promise<UniteResult> {
  const layout = createLayout(from);
  const manifest = parseManifest(Buffer.from(disk.read(layout.manifestPath)).toString('utf8'), from);
  const runId = `unite-${++runs}`;
  startRun(archive.state.db, runId, 'import', process.pid, now);
  return unite(
    archive,
    { name: from, manifest, layout, disk },
    { runId, clock: clockAt(nowMs), waitMs: 0, ...judged, candles: ['1h', '1d'], ...rest },
  );
}

/** Opens a copy of an archive, takes others in, and returns its folder. */
export async function united(root: string, others: readonly string[], rest: Parameters<typeof opened>[0] = {}) {
  const archive = opened({ root, ...rest });
  for (const other of others) await uniteNow(archive, other);
  archive.close();
  return root;
}

/** The rows of every dataset, sorted, and what the manifest lists beside them. */
export function contentsOf(root: string): Record<string, unknown> {
  const rows = (dataset: Exclude<DatasetName, 'ticks'>): string[] =>
    publishedRows(root, dataset)
      .map((row) => JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? Number(value) : value)))
      .sort();
  const named = datasetNames.filter((name) => name !== 'ticks');
  const manifest = parseManifest(Buffer.from(systemDisk.read(createLayout(root).manifestPath)).toString('utf8'), root);
  const { lost, accepted, datasets } = manifest;
  return {
    ticks: publishedTicks(root).sort(),
    ...Object.fromEntries(named.map((name) => [name, rows(name)])),
    lost,
    accepted,
    withdrawn: datasets.coverage.withdrawn,
  };
}

/** The state of each day. */
export const statesOf = (archive: Archive): Record<string, string> =>
  Object.fromEntries(Object.entries(archive.readManifest().days).map(([date, { state }]) => [date, state]));
