import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import type { PublishedCoverage } from '../../src/archive/format/coverage.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { repairRows } from '../../src/archive/integrity/repair-rows.ts';
import {
  type RepairLosses,
  type SalvagedFile,
  salvageRowGroups,
} from '../../src/archive/integrity/salvage-row-groups.ts';
import { readCommitState } from '../../src/archive/journal/intent.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { decodeBooks } from '../../src/archive/parquet/books-file.ts';
import { startStage } from '../../src/archive/publish/staging.ts';
import { answer, append, day0, dayMs, now, opened, publishNow } from './scratch.ts';

const parts = 2;
/** Two symbols of one part, and one of the other. */
const [one, two, elsewhere] = ['S1', 'S2', 'S3'];
const path = toDayPath('orderbooks', day0, 0);
/** Times of each symbol's snapshots, in ms of the day. */
const moments = [1000, 5000, 9000];

/** An archive of these books, each with one bid and one ask, and one row group per book. */
async function published(at: readonly number[] = moments, groupRows = 2): Promise<Archive> {
  const archive = opened({ parts, groupRows });
  // As many rows as the books of the other two have.
  const others = Array.from({ length: 4 * at.length }, (_, i) => [day0 + i, 0.5] as const);
  append(archive, answer(one!, [[day0, 0.5]]), answer(elsewhere!, others));
  for (const symbol of [one!, two!, elsewhere]) {
    const books = at.map((ms) => ({
      t: day0 + ms,
      bids: toBookSide([{ price: 0.25, quantity: ms }], 'highest'),
      asks: toBookSide([{ price: 0.75, quantity: ms }], 'lowest'),
    }));
    const answered = { runId: 'run', observedAt: now, rejected: [], understood: true };
    appendBooks(archive.state, [{ symbol, ...answered, snapshots: books }]);
  }
  await publishNow(archive);
  return archive;
}

const covered = (from: number, to: number, ticks: number): PublishedCoverage => ({
  from: day0 + from,
  to: day0 + to,
  ticks,
  fetchedAt: now,
  origin: 'poll',
  evidence: 'confirmed',
});

/** Repairs the part after some of its row groups were damaged; `salvaged` if there is no record of it. */
function mended(
  archive: Archive,
  damaged: readonly number[],
  given: Map<string, PublishedCoverage[]>,
  salvaged?: SalvagedFile,
) {
  const file = archive.readManifest().datasets.orderbooks.files.find((one) => one.path === path)!;
  const record = readRowGroups(archive.state.db, path, file.sha256)!;
  const bytes = readFileSync(join(archive.layout.root, path));
  for (const group of damaged) bytes[record.groups[group]!.start + 5]! ^= 4;
  const stage = startStage(archive, archive.readManifest(), readCommitState(archive.state.db));
  const losses: RepairLosses = { windows: [], unrecoverable: [], rowsLost: new Map() };
  const coverage = new Map<string, readonly PublishedCoverage[]>(given);
  const broken = {
    dataset: 'orderbooks' as const,
    file,
    salvage: () => salvaged ?? salvageRowGroups(bytes, record, file.rows),
  };
  repairRows(archive, stage, { day: day0, part: 0, from: one!, to: two! }, 'orderbooks', broken, coverage, losses);
  const staged = stage.moves.find(({ to }) => to === path)?.from;
  const remaining = staged == null ? null : decodeBooks(readFileSync(join(archive.layout.root, staged)));
  return { losses, coverage, left: remaining, isGone: stage.removedPaths.has(path), record };
}

test('keeps all snapshots that are not lost', async () => {
  const { left: remaining, losses, record, isGone } = mended(await published(), [1], new Map());
  expect(record.groups.length).toBe(6);
  expect(isGone).toBe(false);
  expect(remaining!.symbols).toEqual([one, two]);
  expect([...remaining!.offsets]).toEqual([0, 4, 10]);
  const ms = [1000, 1000, 9000, 9000, 1000, 1000, 5000, 5000, 9000, 9000];
  expect([...remaining!.t]).toEqual(ms.map((t) => day0 + t));
  expect([...remaining!.quantity]).toEqual(ms);
  expect([...remaining!.price]).toEqual(ms.map((_, row) => (row % 2 === 0 ? 0.75 : 0.25)));
  expect([...remaining!.side]).toEqual(ms.map((_, row) => row % 2));
  expect([...remaining!.level]).toEqual(ms.map(() => 0));
  const [first, last] = [record.groups[1]!.first, record.groups[1]!.last];
  expect(losses.unrecoverable).toEqual([{ dataset: 'orderbooks', path, rows: 2, first, last }]);
  expect(losses.rowsLost.get(path)).toBe(2);
});

test('drops a symbol without snapshots from the file', async () => {
  const { left: remaining } = mended(await published(), [0, 1, 2], new Map());
  expect(remaining!.symbols).toEqual([two]);
  expect([...remaining!.offsets]).toEqual([0, 6]);
});

test('drops a snapshot that lost a level, and a symbol without other snapshots', async () => {
  const { left: remaining, losses } = mended(await published([1000], 1), [0], new Map());
  expect(remaining!.symbols).toEqual([two]);
  expect([...remaining!.offsets]).toEqual([0, 2]);
  expect(losses.rowsLost.get(path)).toBe(2);
});

test('a snapshot in the next millisecond ends the missing window', async () => {
  const every = [covered(5000, 5001, 1), covered(5001, 5002, 1)];
  const { coverage } = mended(await published([1000, 5000, 5001]), [1], new Map([[one!, every]]));
  expect(coverage.get(one!)).toEqual([every[1]]);
});

test('responses count as missing from a lost snapshot up to the next intact one', async () => {
  const every = [covered(900, 901, 1), covered(1500, 1501, 1), covered(5000, 5001, 1), covered(8999, 9001, 2)];
  const given = new Map([one!, two!, elsewhere].map((symbol) => [symbol, every]));
  const { coverage } = mended(await published(), [1], given);
  expect(coverage.get(one!)).toEqual([every[0], every[1], covered(9000, 9001, 1)]);
  expect(coverage.get(two!)).toEqual(every);
  expect(coverage.get(elsewhere)).toEqual(every);
});

test('responses after the last intact snapshot count as missing to the end of the day', async () => {
  const every = [covered(8999, 9000, 0), covered(9000, 9001, 1), covered(dayMs - 1, dayMs, 0)];
  const { coverage } = mended(await published(), [2], new Map([[one!, every]]));
  expect(coverage.get(one!)).toEqual([every[0]]);
});

test('a clipped coverage window counts no more snapshots than it has milliseconds', async () => {
  const { coverage } = mended(await published(), [1], new Map([[one!, [covered(4998, 9010, 9)]]]));
  expect(coverage.get(one!)).toEqual([covered(4998, 5000, 2), covered(9000, 9010, 9)]);
});

test('removes a file without a record, with the coverage of its symbols only', async () => {
  const archive = await published();
  const unknown: SalvagedFile = {
    wholeFile: null,
    intactGroups: [],
    readableFile: null,
    lostRanges: [{ keys: null, rows: 12 }],
  };
  const given = new Map([one!, two!, elsewhere].map((symbol) => [symbol, [covered(1000, 1001, 1)]]));
  const { coverage, isGone, left: remaining, losses } = mended(archive, [], given, unknown);
  expect([isGone, remaining]).toEqual([true, null]);
  expect([...coverage.keys()]).toEqual([elsewhere]);
  expect(losses.unrecoverable).toEqual([{ dataset: 'orderbooks', path, rows: 12, first: null, last: null }]);
});
