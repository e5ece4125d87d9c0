import { joinLists } from '../../base/push-to.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs } from '../../base/window.ts';
import { type DatasetName, datasetNames, datasets, isSplitBySymbol } from '../format/datasets.ts';
import { choosePartCount, getPartCount, type PartCounts } from '../format/day-parts.ts';
import { listFilesWithRows, type Manifest } from '../format/manifest.ts';
import type { Database } from '../journal/database.ts';
import { type JournalBin, toBinKey } from '../journal/journal.ts';
import type { ImportBuffer, TickSource } from './import-buffer.ts';

// The journal bins its rows by the parts of the archive. A day may have fewer parts: then several bins of the journal are
// merged into one part of the day.

/** Published days whose size is taken for that of a new day. */
const recentDaysMax = 7;
/** A day that has ended may still get more rows than its first publish has: those of other symbols, or of a backfill. */
const growthMax = 4;

/** What a publish knows of the parts of its days; see `Stage`. */
export interface StagedDayParts {
  /** The manifest that the publish is built on. */
  readonly base: Manifest;
  /** The number of parts of days that are published for the first time, by date, where it is less than that of the archive. */
  readonly dayParts: Map<string, number>;
}

interface ChoiceInput {
  readonly db: Database;
  readonly intake: ImportBuffer | undefined;
  /** See `choosePartCount`. */
  readonly partRows: number;
  readonly nowMs: number;
}

/** Chooses the number of parts of the days that have input and no published file yet, and records it in the stage. */
export function chooseDayParts({ base, dayParts }: StagedDayParts, input: ChoiceInput): void {
  if (base.parts === 1 || input.partRows === 0) return;
  const published = listSplitDates(base);
  const recent = findRecentSize(base);
  for (const [day, rows] of countInputRows(input)) {
    const date = formatDay(day);
    if (published.has(date)) continue;
    const isKnown = recent > 0 || day + dayMs <= input.nowMs;
    const expected = isKnown ? Math.max(recent, growthMax * rows) : null;
    const count = choosePartCount(base.parts, expected, input.partRows);
    if (count !== base.parts) dayParts.set(date, count);
  }
}

const splitNames = datasetNames.filter(isSplitBySymbol);

/** The dates with rows of a dataset that is split by symbol. */
const listSplitDates = ({ datasets: published }: Pick<Manifest, 'datasets'>): Set<string> =>
  new Set(splitNames.flatMap((name) => listFilesWithRows({ datasets: published }, name).map(({ date }) => date!)));

const sizedNames: readonly DatasetName[] = splitNames.filter((name) => datasets[name].source === 'collected');

/** The most rows of one of the last published days; 0 if there is none. */
function findRecentSize({ datasets: published }: Manifest): number {
  const rows = new Map<string, number>();
  for (const name of sizedNames)
    for (const file of published[name].files) rows.set(file.date!, (rows.get(file.date!) ?? 0) + file.rows);
  const last = [...rows].sort(([a], [b]) => (a < b ? 1 : -1)).slice(0, recentDaysMax);
  return last.reduce((max, [, count]) => Math.max(max, count), 0);
}

/** Counts the rows of the journal and of an import by UTC day. Levels of order books count as rows, as in their files. */
function countInputRows({ db, intake }: ChoiceInput): Map<number, number> {
  const rows = new Map<number, number>();
  const add = (day: number, count: number): void => {
    rows.set(day, (rows.get(day) ?? 0) + count);
  };
  for (const table of ['journal_ticks', 'journal_books', 'journal_series'])
    for (const { day, n } of db.all<{ day: number; n: number }>(`select day, sum(n) as n from ${table} group by day`))
      add(day, n);
  for (const table of ['journal_coverage', 'journal_series_coverage'])
    for (const { day } of db.all<{ day: number }>(`select distinct day from ${table}`)) add(day, 0);
  for (const { listBins, readBin } of intake === undefined ? [] : [intake.ticks, intake.series])
    for (const bin of listBins())
      for (const { chunks } of readBin(bin))
        add(
          bin.day,
          chunks.reduce((sum, { spilled }) => sum + spilled.rowCount, 0),
        );
  return rows;
}

/** The numbers of parts with those of the stage. */
export const getStagePartCounts = ({ base, dayParts }: StagedDayParts): PartCounts => ({
  parts: base.parts,
  day_parts: { ...base.day_parts, ...Object.fromEntries(dayParts) },
});

/** The numbers of the days that have files in the next generation; an empty object if all have all parts. */
export function listNextDayParts(stage: StagedDayParts, files: Manifest['datasets']): Pick<Manifest, 'day_parts'> {
  const dates = listSplitDates({ datasets: files });
  const entries = Object.entries(getStagePartCounts(stage).day_parts!).filter(([date]) => dates.has(date));
  return entries.length === 0 ? {} : { day_parts: Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1))) };
}

/** A part of a day, and the bins of the journal that are merged into it. */
export interface DayPart {
  readonly bin: JournalBin;
  readonly journalBins: readonly JournalBin[];
}

/** Groups bins of the journal by the part of their day. The result is sorted. */
export function groupByDayPart(counts: PartCounts, bins: readonly JournalBin[]): DayPart[] {
  const byKey = new Map<string, { readonly bin: JournalBin; readonly journalBins: JournalBin[] }>();
  for (const { day, part } of bins) {
    const bin = { day, part: part % getPartCount(counts, formatDay(day)) };
    const key = toBinKey(bin);
    const group = byKey.get(key) ?? { bin, journalBins: [] };
    byKey.set(key, group);
    group.journalBins.push({ day, part });
  }
  return [...byKey.values()].sort((a, b) => a.bin.day - b.bin.day || a.bin.part - b.bin.part);
}

/** A source whose bins are the parts of days. */
export interface DayPartSource extends TickSource {
  /** The bins of the journal that were read for these parts. */
  listJournalBins(bins: readonly JournalBin[]): JournalBin[];
}

export function joinDayParts(source: TickSource, counts: PartCounts): DayPartSource {
  const groups = groupByDayPart(counts, source.listBins());
  const byKey = new Map(groups.map(({ bin, journalBins }) => [toBinKey(bin), journalBins]));
  const binsOf = (bin: JournalBin): readonly JournalBin[] => byKey.get(toBinKey(bin)) ?? [];
  return {
    listBins: () => groups.map(({ bin }) => bin),
    listJournalBins: (bins) => bins.flatMap(binsOf),
    readChunks: (bin) => binsOf(bin).flatMap((one) => source.readChunks(one)),
    readCoverage: (bin) => joinLists(binsOf(bin).map((one) => source.readCoverage(one))),
    readWithdrawn: (bin) => joinLists(binsOf(bin).map((one) => source.readWithdrawn(one))),
  };
}
