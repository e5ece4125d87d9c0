import { DamageError } from '../../base/errors.ts';
import { floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { datasets } from '../format/datasets.ts';
import { mergeMarkets } from '../format/market.ts';
import { readMarketPolls } from '../journal/journal-markets.ts';
import type { CellValue } from '../parquet/rows.ts';
import { parseMarketRows, readTableRows, stageTable, toMarketRows } from './day-tables.ts';
import type { Stage } from './staging.ts';

/** The market rows of a day, merged and not staged yet. */
interface MergedMarkets {
  readonly day: number;
  readonly rows: readonly CellValue[][];
  /** Whether they differ from the published rows in last_seen only, so that a quiet publish needs no file of them. */
  readonly isOnlySeenAgain: boolean;
}

/** Merges the market polls of the journal with the published rows. Skips days whose published file is damaged. */
export function mergeMarketPolls(
  archive: Archive,
  stage: Stage,
  end: number,
  refused: string[],
): { readonly recordIds: readonly number[]; readonly days: readonly MergedMarkets[] } {
  const polls = [...readMarketPolls(archive.state.db, end)];
  const recordIds: number[] = [];
  const days: MergedMarkets[] = [];
  for (const [day, dayPolls] of Map.groupBy(polls, (poll) => floorToDay(poll.observedAt))) {
    try {
      const published = readTableRows(archive, stage.base, 'markets', { day, part: 0 });
      const rows = toMarketRows(mergeMarkets(parseMarketRows(published), dayPolls));
      days.push({ day, rows, isOnlySeenAgain: isOnlySeenAgain(published, rows) });
      recordIds.push(...dayPolls.map((poll) => poll.recordId));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return { recordIds, days };
}

export function stageMarkets(archive: Archive, stage: Stage, days: readonly MergedMarkets[]): void {
  for (const { day, rows } of days) stageTable(archive, stage, 'markets', { day, part: 0 }, rows);
}

const lastSeenAt = datasets.markets.columns.findIndex(({ name }) => name === 'last_seen');

const isOnlySeenAgain = (before: readonly CellValue[][], after: readonly CellValue[][]): boolean =>
  before.length === after.length &&
  before.every((row, i) => row.every((value, column) => column === lastSeenAt || isSame(value, after[i]![column]!)));

const isSame = (a: CellValue, b: CellValue): boolean =>
  a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((value, i) => value === b[i]));
