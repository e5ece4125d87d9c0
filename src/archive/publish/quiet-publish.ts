import { formatDay } from '../../base/time.ts';
import { floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { candleIntervals } from '../format/candles.ts';
import { candleDatasets, type DatasetName, datasets } from '../format/datasets.ts';
import type { DayPart } from '../format/day-parts.ts';
import { findFileWithRows, type Manifest } from '../format/manifest.ts';
import type { MarketFacts } from '../format/market.ts';
import { recordCollectedProgress } from '../journal/collected-progress.ts';
import type { Database } from '../journal/database.ts';
import { isLastCommit, readOpenIntent, SupersededError } from '../journal/intent.ts';
import { consumeKnownTicks } from '../journal/journal-check.ts';
import { readMarketPolls } from '../journal/journal-markets.ts';
import { recordPrecedence } from '../journal/precedence-store.ts';
import { addRecoveredTicks, addRunTally, createInterruptedRunCheck } from '../journal/runs.ts';
import { type CellValue, decodeRows } from '../parquet/rows.ts';
import { readPublishedFile } from '../read-published-file.ts';
import type { PartResult } from './publish-day.ts';
import { readNextFile, removeStaging, type Stage } from './staging.ts';

// A poll that finds no new tick still extends the coverage, and with it the covered share of today's candles and the
// last_seen of symbols and markets. Publishing that would rewrite files of every part, for readers, backups and buckets
// to copy, without one new row. Such a publish is quiet: its coverage stays in the journal until a publish has more to
// write, at the latest the first one after the day. What a poll has proved is durable in either place.

/** The datasets that a quiet publish would rewrite for today. */
const dailyDatasets: ReadonlySet<DatasetName> = new Set([
  'coverage',
  ...(Object.keys(candleIntervals) as (keyof typeof candleIntervals)[]).map((interval) => candleDatasets[interval]),
]);

/**
 * Whether the next generation would add nothing to the published one but coverage of today and last-seen times: no row, no
 * changed value, no finding about an ended day. The merges of all of its parts have nothing new.
 * @throws DamageError if the published file of symbols or markets is damaged
 */
export function isQuiet(archive: Archive, stage: Stage, next: Manifest, nowMs: number): boolean {
  const { base, stagedFiles, moves } = stage;
  const today = formatDay(floorToDay(nowMs));
  return (
    base.generation > 0 &&
    // Other moves are removals and files of the quarantine.
    moves.length === stagedFiles.size &&
    hasSameFindings(base, next, today) &&
    [...stagedFiles].every(([path, { dataset, file }]) => {
      const published = findFileWithRows(base, dataset, path);
      if (published === undefined || published.rows > file.rows) return false;
      if (dailyDatasets.has(dataset)) return file.date === today;
      if (dataset !== 'symbols' && dataset !== 'markets') return false;
      const bytes = readNextFile(archive, stage, dataset, path);
      return bytes !== undefined && differsOnlyInLastSeen(dataset, readPublishedFile(archive, published), bytes);
    })
  );
}

/** Whether the merge of a part changes nothing but coverage. */
export const hasNothingNew = ({ merged, withdrawn, restored, lacking }: PartResult): boolean =>
  !merged.isChanged &&
  [...merged.tallies.values()].every(({ accepted, conflicts }) => accepted === 0 && conflicts === 0) &&
  [...withdrawn.values()].every((windows) => windows.length === 0) &&
  restored.length + lacking.length === 0;

/** Whether all findings are the same, except those about today and the number of inferred windows. */
function hasSameFindings(base: Manifest, next: Manifest, today: string): boolean {
  const toComparable = ({ days, completeness, lost, accepted, selection }: Manifest): string => {
    const { inferred_windows: _, state: __, ...counts } = completeness ?? {};
    const ended = Object.entries(days).filter(([date]) => date !== today);
    return JSON.stringify([ended, counts, lost, accepted, selection]);
  };
  return base.completeness !== undefined && toComparable(base) === toComparable(next);
}

function differsOnlyInLastSeen(dataset: 'symbols' | 'markets', before: Uint8Array, after: Uint8Array): boolean {
  const columns = datasets[dataset].columns;
  const ignored = datasets[dataset].columns.findIndex(({ name }) => name === 'last_seen');
  const toComparable = (bytes: Uint8Array): string[] =>
    decodeRows(columns, bytes).map((row: readonly CellValue[]) => JSON.stringify(row.with(ignored, null)));
  const [old, fresh] = [toComparable(before), toComparable(after)];
  return old.length === fresh.length && old.every((row, i) => row === fresh[i]);
}

/** What a quiet publish has read from the journal. */
interface QuietInput {
  readonly runId: string;
  readonly results: readonly PartResult[];
  readonly parts: readonly DayPart[];
  /** The last journal record that was read. */
  readonly end: number;
}

/**
 * Consumes what is published already: the ticks of the journal, all of them duplicates, and polls of the market lists
 * that a later poll repeats. The coverage stays. Requires the write lock.
 * @throws SupersededError if the stage is not built on the last commit; nothing has changed then
 */
export function commitQuietly(
  archive: Archive,
  stage: Stage,
  next: Manifest,
  { runId, results, parts, end }: QuietInput,
): void {
  const { db } = archive.state;
  db.transaction(() => {
    if (!isLastCommit(db, stage.builtOn) || readOpenIntent(db) !== undefined) throw new SupersededError();
    const isBrokenRun = createInterruptedRunCheck(db, runId);
    for (const { merged } of results) {
      recordPrecedence(db, merged.precedence);
      for (const [ofRun, tally] of merged.tallies) {
        if (isBrokenRun(ofRun)) addRecoveredTicks(db, runId, ofRun, tally);
        else addRunTally(db, ofRun, tally);
      }
    }
    consumeKnownTicks(db, parts, end, listRepeatedPolls(db, end));
    recordCollectedProgress(db, stage.base, next);
  });
  removeStaging(archive);
}

/** The polls of which every market is in a later one, by record ID. */
function listRepeatedPolls(db: Database, end: number): number[] {
  const later = new Set<string>();
  const repeated: number[] = [];
  for (const { recordId, markets } of [...readMarketPolls(db, end)].reverse()) {
    const keys = markets.map(({ canonicalId, symbol }: MarketFacts) => JSON.stringify([canonicalId, symbol]));
    if (keys.every((key) => later.has(key))) repeated.push(recordId);
    for (const key of keys) later.add(key);
  }
  return repeated;
}
