import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import type { StoredTrades, TradesTarget } from '../../backtest/data/stored-trades.ts';
import { hourMs } from '../../base/window.ts';
import type { BacktestStore } from '../workspace/backtest-store.ts';
import type { BacktestRow } from '../workspace/tables.ts';

// The files with all trades of saved backtests, beside the archive's data. A file is removed with its backtest.

/** Folder of the files, relative to the root of the archive. */
const tradesFolder = '.oddslake/backtests';

/** Path of the file of a backtest, relative to the root of the archive. */
export const toTradesPath = (id: string): string => `${tradesFolder}/${id}.parquet`;

/** Absolute path of the folder of the files. */
export const toTradesFolder = ({ layout }: Archive): string => join(layout.root, tradesFolder);

/**
 * Where a run stores its trades: as many bytes as the user's other files leave.
 * @param bytesMax maximum size of all files of a user
 */
export async function prepareTradesTarget(
  archive: Archive,
  jobs: Pick<BacktestStore, 'sumTradesBytes'>,
  { id, owner }: Pick<BacktestRow, 'id' | 'owner'>,
  bytesMax: number,
): Promise<TradesTarget> {
  return {
    file: join(archive.layout.root, toTradesPath(id)),
    bytesMax: Math.max(0, bytesMax - (await jobs.sumTradesBytes(owner))),
  };
}

/** The columns of a finished backtest. */
export const toTradesColumns = (
  trades: StoredTrades | null,
): Pick<BacktestRow, 'trades_rows' | 'trades_bytes' | 'trades_sha256'> => ({
  trades_rows: trades?.rows ?? null,
  trades_bytes: trades?.file?.bytes ?? null,
  trades_sha256: trades?.file?.sha256 ?? null,
});

/** Removes the file of a backtest, if it exists. */
export const removeTrades = ({ disk, layout }: Archive, id: string): void =>
  disk.remove(join(layout.root, toTradesPath(id)));

/** Minimum age of a removed orphan: `backtest run --save` stores its backtest after the file. */
const orphanAgeMsMin = hourMs;

/** Removes old files without a backtest, which a crash leaves, or a backtest that was replaced by newer ones. */
export async function removeOrphanTrades(
  archive: Archive,
  jobs: Pick<BacktestStore, 'listWithTrades'>,
  nowMs: number,
): Promise<void> {
  const folder = toTradesFolder(archive);
  const names = archive.disk.list(folder);
  if (names.length === 0) return;
  const known = new Set((await jobs.listWithTrades()).map((id) => `${id}.parquet`));
  for (const name of names) {
    const path = join(folder, name);
    const modifiedMs = known.has(name) ? undefined : statSync(path, { throwIfNoEntry: false })?.mtimeMs;
    if (modifiedMs !== undefined && nowMs - modifiedMs >= orphanAgeMsMin) archive.disk.remove(path);
  }
}
