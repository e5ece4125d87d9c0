import { globSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { sha256, systemDisk } from '../../src/archive/disk/file-system.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readJournalLoad } from '../../src/archive/journal/journal-books.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { finishRun, readRunCounts, startRun } from '../../src/archive/journal/runs.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import { flip } from './damaged.ts';
import { encodeSeries } from './encode-series.ts';
import {
  appendQuotes,
  countQuotes,
  findQuoteCountErrors,
  publishedQuotes,
  type Quote,
  quote,
  quoteAnswer,
  quoteConflicts,
  quoteCoverage,
} from './quotes.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  publishedRows,
  publishNow,
  scratchFolder,
} from './scratch.ts';

const missing = Number.NaN;
const hour = { from: day0, to: day0 + hourMs };

describe('publishing quotes', () => {
  test('writes each to the file of its day and symbol, with null for what is missing', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    appendQuotes(
      archive,
      quoteAnswer('B', [[day0, 0.5, 0.6, missing, 0]]),
      quoteAnswer('A', [
        [day0 + dayMs - 1, 0.25, missing, 3, missing],
        [day0 + dayMs, missing, missing, missing, missing],
        [day0, missing, 1, missing, 7.5],
      ]),
    );
    const { manifest, files } = await publishNow(archive);
    expect(publishedQuotes(root)).toEqual([
      ['A', day0, null, 1, null, 7.5],
      ['A', day0 + dayMs - 1, 0.25, null, 3, null],
      ['B', day0, 0.5, 0.6, null, 0],
      ['A', day0 + dayMs, null, null, null, null],
    ]);
    expect(publishedRows(root, 'quotes').map((row) => row.slice(0, 6))).toEqual(publishedQuotes(root));
    expect(
      manifest.datasets.quotes.files.map(({ path, date, rows, t_min, t_max, symbols }) => [
        path,
        date,
        rows,
        t_min,
        t_max,
        symbols,
      ]),
    ).toEqual([
      [toDayPath('quotes', day0, 0), '2026-06-01', 3, day0, day0 + dayMs - 1, 2],
      [toDayPath('quotes', day0 + dayMs, 0), '2026-06-02', 1, day0 + dayMs, day0 + dayMs, 1],
    ]);
    expect(files.map(({ path }) => path.split('/')[0])).toContain('quotes');
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });

  test('leaves nothing journaled, and makes no generation without anything new', async () => {
    const archive = opened();
    appendQuotes(
      archive,
      quoteAnswer('A', [quote(day0, 0.5)], { windows: [hour], rejected: [{ reason: 'no number', raw: 'x' }] }),
      quoteAnswer('B', [], { windows: [hour] }),
    );
    expect(readJournalLoad(archive.state.db)).toBeGreaterThan(0);
    await publishNow(archive);
    for (const table of ['journal', 'journal_series', 'journal_series_coverage', 'journal_rejected'])
      expect(archive.state.db.one(`select count(*) as n from ${table}`), table).toEqual({ n: 0 });
    expect(readJournalLoad(archive.state.db)).toBe(0);
    const before = hashes(archive.layout.root, '**/*');
    const { manifest, files } = await publishNow(archive, now + dayMs);
    expect([manifest.generation, files]).toEqual([1, []]);
    expect(hashes(archive.layout.root, '**/*')).toEqual(before);
  });

  test('says nothing about ticks: no day to complete, no gap, no tick count', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.5)], { windows: [{ from: day0, to: day0 + dayMs }] }));
    const { manifest } = await publishNow(archive);
    expect(manifest.watermark).toBeNull();
    expect(Object.values(manifest.completeness!.gaps).every((gaps) => gaps === 0)).toBe(true);
    for (const state of Object.values(manifest.days)) expect(state).toMatchObject({ expected: 0, missing: [] });
    expect(publishedRows(root, 'symbols').map((row) => [row[0], ...row.slice(12, 15)])).toEqual([['A', null, null, 0]]);
    expect(readRunCounts(archive.state.db, 'run')).toMatchObject({ fetched: 0, accepted: 0, quarantined: 0, added: 0 });
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });

  test('covers what is declared, cut at midnight, with the number of quotes in it', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const midnight = day0 + dayMs;
    const windows = [{ from: midnight - hourMs, to: midnight + hourMs }];
    appendQuotes(archive, quoteAnswer('A', [quote(midnight - 1, 0.1), quote(midnight, 0.2)], { windows }));
    // Outside of what is declared.
    appendQuotes(archive, quoteAnswer('A', [quote(midnight + hourMs, 0.3)]), quoteAnswer('B', [], { windows: [hour] }));
    await publishNow(archive);
    const rest = [now, 'import', 'declared', null];
    const expected = [
      ['quotes', 'B', hour.from, hour.to, 0, ...rest],
      ['quotes', 'A', midnight - hourMs, midnight, 1, ...rest],
      ['quotes', 'A', midnight, midnight + hourMs, 1, ...rest],
    ];
    const sorted = (rows: readonly unknown[][]) => rows.toSorted((a, b) => Number(a[2]) - Number(b[2]));
    expect(sorted(quoteCoverage(root))).toEqual(sorted(expected));
    // A later import adds a quote within, and its neighbor; coverage counts it and is otherwise the same.
    const later = quoteAnswer('A', [quote(midnight + 1, 0.4)], { observedAt: now + 5 });
    appendQuotes(archive, later);
    await publishNow(archive);
    expect(sorted(quoteCoverage(root))).toEqual(sorted(expected.with(2, expected[2]!.with(4, 2))));
    const before = hashes(root, '{quotes,coverage,quote_conflicts}/**/*');
    appendQuotes(archive, later);
    await publishNow(archive);
    expect(hashes(root, '{quotes,coverage,quote_conflicts}/**/*')).toEqual(before);
  });

  test('keeps rejected rows in the quarantine as received, and counts them', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const rejected = [{ reason: 'bid above ask', raw: '{"bid":2,"ask":1}' }];
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.5)], { rejected }), quoteAnswer('B', [], { rejected }));
    await publishNow(archive);
    expect(quarantineLines(root).map((line) => JSON.parse(line) as object)).toEqual([
      { run_id: 'run', symbol: 'A', at: now, ...rejected[0] },
      { run_id: 'run', symbol: 'B', at: now, ...rejected[0] },
    ]);
    expect(countQuotes(archive)).toMatchObject({ fetched: 3, accepted: 1, quarantined: 2 });
    // They are no ticks.
    expect(readRunCounts(archive.state.db, 'run')).toMatchObject({ fetched: 0, quarantined: 0 });
  });
});

describe('of two quotes of one moment', () => {
  const cases: [string, Partial<SeriesRecord>, Partial<SeriesRecord>][] = [
    ['the later observed', { observedAt: now }, { observedAt: now + 1 }],
    [
      'the preferred import, though it is older',
      { rank: precedenceRanks.poll, origin: 'poll', observedAt: now + 9 },
      { rank: precedenceRanks.preferred, observedAt: now },
    ],
    [
      'the polled one before an import, though it is older',
      { rank: precedenceRanks.import, observedAt: now + 9 },
      { rank: precedenceRanks.poll, origin: 'poll', observedAt: now },
    ],
  ];
  test.each(cases)(
    '%s wins in any order, in one publish or two, and the other goes to quote_conflicts',
    async (_, less, more) => {
      const [low, high]: Quote[] = [
        [day0, 0.9, missing, 1, missing],
        [day0, 0.1, 0.2, missing, missing],
      ] as unknown as Quote[];
      const records = [quoteAnswer('A', [low!], less), quoteAnswer('A', [high!], more)];
      const seenAt = Math.max(records[0]!.observedAt, records[1]!.observedAt);
      for (const order of [records, records.toReversed()]) {
        for (const batches of [[order], order.map((record) => [record])]) {
          const root = scratchFolder();
          let archive = opened({ root });
          for (const batch of batches) {
            appendQuotes(archive, ...batch);
            await publishNow(archive);
            // What decides is in the state, not in memory.
            archive.close();
            archive = opened({ root });
          }
          expect(publishedQuotes(root)).toEqual([['A', day0, 0.1, 0.2, null, null]]);
          // Where the kept one was published first, the dropped one was seen when it came.
          const isKeptFirst = batches.length === 2 && order[0] === records[1];
          const at = isKeptFirst ? records[0]!.observedAt : batches.length === 2 ? records[1]!.observedAt : seenAt;
          expect(quoteConflicts(root)).toEqual([['A', day0, at, 0, 0.9, null, 1, null]]);
          expect(countQuotes(archive)).toEqual({
            fetched: 2,
            accepted: 1,
            duplicates: 0,
            conflicts: 1,
            quarantined: 0,
            recovered: 0,
          });
          archive.close();
        }
      }
    },
  );

  test('that are equal, one is a duplicate and its later observation counts from then on', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const same = quote(day0, 0.5, 0.6);
    for (const observedAt of [now, now + 2]) {
      appendQuotes(archive, quoteAnswer('A', [same], { observedAt }));
      await publishNow(archive);
    }
    // Observed between the two: the equal one was seen later.
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.7)], { observedAt: now + 1 }));
    await publishNow(archive);
    expect(publishedQuotes(root)).toEqual([['A', day0, 0.5, 0.6, null, null]]);
    expect(countQuotes(archive)).toMatchObject({ fetched: 3, accepted: 1, duplicates: 1, conflicts: 1 });
    expect(quoteConflicts(root)).toEqual([['A', day0, now + 1, 0, 0.7, null, null, null]]);
  });

  test('each dropped one is listed once, numbered by seq, however often it comes again', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const dropped = [quote(day0, missing, 0.9), quote(day0, 0.1), quote(day0, 0.1, 0.2), quote(day0, 0.3)];
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.5), quote(day0 + 1, 0.5)], { observedAt: now + 9 }));
    await publishNow(archive);
    // In halves, so that rows come between published ones, and again in one.
    for (const some of [dropped.slice(1, 3), [dropped[3]!, dropped[0]!], dropped, dropped.toReversed()]) {
      appendQuotes(archive, quoteAnswer('A', some));
      appendQuotes(archive, quoteAnswer('A', some));
      await publishNow(archive);
    }
    expect(quoteConflicts(root)).toEqual([
      ['A', day0, now, 0, null, 0.9, null, null],
      ['A', day0, now, 1, 0.1, null, null, null],
      ['A', day0, now, 2, 0.1, 0.2, null, null],
      ['A', day0, now, 3, 0.3, null, null, null],
    ]);
    // Another time of observation is another row, whose numbers begin again.
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.3), quote(day0 + 1, 0.4)], { observedAt: now + 1 }));
    await publishNow(archive);
    expect(quoteConflicts(root).slice(4)).toEqual([
      ['A', day0, now + 1, 0, 0.3, null, null, null],
      ['A', day0 + 1, now + 1, 0, 0.4, null, null, null],
    ]);
    const counts = countQuotes(archive);
    expect(counts).toMatchObject({ accepted: 2, duplicates: 0, quarantined: 0 });
    expect(findQuoteCountErrors(archive)).toEqual([]);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });

  test('-0 and 0 are the same', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    for (const zero of [-0, 0]) {
      appendQuotes(archive, quoteAnswer('A', [quote(day0, zero, zero)]));
      await publishNow(archive);
    }
    const [row] = publishedQuotes(root);
    expect([row, Object.is(row![2], 0)]).toEqual([['A', day0, 0, 0, null, null], true]);
    expect(countQuotes(archive)).toMatchObject({ accepted: 1, duplicates: 1, conflicts: 0 });
  });
});

test('publishes more quotes of a part than it merges at once, some with a conflict, some twice', async () => {
  const count = 110_000;
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  const names = ['A', 'B', 'C', 'D'];
  const columns = (bid: number, shift = 0): SeriesRecord['rows'] => ({
    t: Float64Array.from({ length: count }, (_, i) => day0 + i * 700 + shift),
    values: [bid, missing, 1, missing].map((value, c) =>
      Float64Array.from({ length: count }, (_, i) => (c === 2 && i % 3 === 0 ? missing : value)),
    ),
    texts: [],
  });
  const record = (symbol: string, rows: SeriesRecord['rows'], observedAt: number): SeriesRecord => ({
    ...quoteAnswer(symbol, [], { observedAt, windows: [{ from: day0, to: day0 + dayMs }] }),
    rows,
  });
  for (const symbol of names) appendQuotes(archive, record(symbol, columns(0.25), now));
  await publishNow(archive, now, 'run', { candles: [] });
  appendQuotes(
    archive,
    record('A', columns(0.5), now + 1),
    record('B', columns(0.25), now + 1),
    record('C', columns(0.25, 1), now + 1),
  );
  await publishNow(archive, now, 'run', { candles: [] });
  expect(countQuotes(archive)).toEqual({
    fetched: 7 * count,
    accepted: 5 * count,
    duplicates: count,
    conflicts: count,
    quarantined: 0,
    recovered: 0,
  });
  expect(archive.readManifest().datasets.quote_conflicts.files.map(({ rows }) => rows)).toEqual([count]);
  expect(quoteCoverage(root).map((row) => [row[1], row[4], row[5]])).toEqual([
    ['A', count, now + 1],
    ['B', count, now + 1],
    ['C', 2 * count, now + 1],
    ['D', count, now],
  ]);
  // The file is the one that is written from all columns at once.
  const [first, changed, added] = [columns(0.25), columns(0.5), columns(0.25, 1)];
  const mix = (a: Float64Array, b: Float64Array): Float64Array =>
    Float64Array.from({ length: 2 * count }, (_, i) => (i % 2 === 0 ? a : b)[i >> 1]!);
  const parts = [
    changed,
    first,
    { t: mix(first.t, added.t), values: first.values.map((column, c) => mix(column, added.values[c]!)), texts: [] },
    first,
  ];
  const join = (pick: (rows: SeriesRecord['rows']) => Float64Array): Float64Array => {
    const all = new Float64Array(5 * count);
    let at = 0;
    for (const rows of parts) {
      all.set(pick(rows), at);
      at += rows.t.length;
    }
    return all;
  };
  const expected = encodeSeries('quotes', {
    symbols: names,
    offsets: Float64Array.of(0, count, 2 * count, 4 * count, 5 * count),
    t: join(({ t }) => t),
    values: [0, 1, 2, 3].map((c) => join(({ values }) => values[c]!)),
    texts: [],
  });
  expect(archive.readManifest().datasets.quotes.files[0]!.sha256).toBe(sha256(expected));
});

/** Makes a run look like one whose process was killed. */
const killRun = (archive: Archive, runId: string): unknown =>
  archive.state.db.run('update runs set pid = 2147483646 where run_id = ?', runId);

describe('an interrupted run', () => {
  test('whose quotes were journaled: the run that publishes them recovers the new ones', async () => {
    const archive = opened();
    const rejected = [{ reason: 'bad', raw: '{}' }];
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.1)], { runId: 'before' }));
    await publishNow(archive, now, 'before');
    finishRun(archive.state.db, 'before', now, 0, '{}');
    appendQuotes(
      archive,
      quoteAnswer('A', [quote(day0, 0.1), quote(day0, 0.2), quote(day0 + 1, 0.2), quote(day0 + dayMs, 0.3)], {
        runId: 'broken',
        rejected,
      }),
    );
    killRun(archive, 'broken');
    expect(countQuotes(archive, 'broken')).toMatchObject({ fetched: 5, accepted: 4, quarantined: 1 });
    appendQuotes(archive, quoteAnswer('A', [quote(day0 + 1, 0.2), quote(day0 + 2, 0.4)], { runId: 'next' }));
    await publishNow(archive, now, 'next');
    expect(countQuotes(archive, 'next')).toEqual({
      fetched: 2,
      accepted: 1,
      duplicates: 1,
      conflicts: 0,
      quarantined: 0,
      recovered: 2,
    });
    expect(countQuotes(archive, 'broken')).toEqual({
      fetched: 1,
      accepted: 0,
      duplicates: 0,
      conflicts: 0,
      quarantined: 1,
      recovered: 0,
    });
    expect(findQuoteCountErrors(archive)).toEqual([]);
  });

  test('that had published some: the next run takes over what it accepted and recovered', async () => {
    const archive = opened();
    const { db } = archive.state;
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.1)], { runId: 'first' }));
    killRun(archive, 'first');
    appendQuotes(archive, quoteAnswer('A', [quote(day0 + 1, 0.2), quote(day0 + 1, 0.3)], { runId: 'second' }));
    await publishNow(archive, now, 'second');
    expect(countQuotes(archive, 'second')).toMatchObject({ fetched: 2, accepted: 1, conflicts: 1, recovered: 1 });
    // It journals more, and dies.
    appendQuotes(archive, quoteAnswer('A', [quote(day0 + 2, 0.2)], { runId: 'second' }));
    killRun(archive, 'second');
    startRun(db, 'third', 'test', process.pid, now);
    expect(countQuotes(archive, 'third')).toMatchObject({ fetched: 0, accepted: 0, recovered: 2 });
    await publishNow(archive, now, 'third');
    expect(countQuotes(archive, 'third')).toMatchObject({ fetched: 0, accepted: 0, recovered: 3 });
    for (const runId of ['first', 'second'])
      expect(countQuotes(archive, runId)).toMatchObject({ fetched: 0, accepted: 0, recovered: 0, conflicts: 0 });
    expect(findQuoteCountErrors(archive)).toEqual([]);
    // Once taken over, they are not taken over again.
    killRun(archive, 'third');
    startRun(db, 'fourth', 'test', process.pid, now);
    expect(countQuotes(archive, 'fourth').recovered).toBe(3);
    expect(findQuoteCountErrors(archive)).toEqual([]);
  });

  test('that is still alive keeps its counts', async () => {
    const archive = opened();
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.1)], { runId: 'alive' }));
    startRun(archive.state.db, 'other', 'test', process.pid, now);
    await publishNow(archive, now, 'other');
    expect(countQuotes(archive, 'alive')).toMatchObject({ fetched: 1, accepted: 1 });
    expect(countQuotes(archive, 'other')).toMatchObject({ recovered: 0 });
  });

  test('that is no longer recorded has no counts', async () => {
    const archive = opened();
    const { db } = archive.state;
    appendQuotes(archive, quoteAnswer('A', [quote(day0, 0.1)], { runId: 'old' }));
    finishRun(db, 'old', now, 0, '{}');
    db.run("delete from runs where run_id = 'old'");
    startRun(db, 'next', 'test', process.pid, now);
    await publishNow(archive, now, 'next');
    expect(findQuoteCountErrors(archive)).toEqual([]);
    expect(countQuotes(archive, 'next').recovered).toBe(1);
    expect(db.all("select * from series_counts where run_id = 'old'")).toEqual([]);
  });
});

describe('beside a damaged file', () => {
  /** Two days of quotes and ticks in one part, with a conflict each. */
  async function filled(root: string): Promise<Archive> {
    const archive = opened({ root, parts: 1 });
    for (const observedAt of [now, now + 1]) {
      for (const day of [day0, day0 + dayMs]) {
        appendQuotes(
          archive,
          quoteAnswer('A', [quote(day, observedAt - now)], { observedAt, windows: [{ from: day, to: day + 1 }] }),
        );
        append(archive, answer('A', [[day, (observedAt - now) / 10]], { observedAt }));
      }
    }
    await publishNow(archive);
    return archive;
  }

  test.each(['quotes', 'quote_conflicts', 'coverage', 'conflicts'] as const)(
    '%s of a day keeps its quotes journaled, publishes the other day, and merges once it is whole again',
    async (dataset) => {
      const root = scratchFolder();
      const archive = await filled(root);
      const path = toDayPath(dataset, day0, 0);
      const bytes = flip(join(root, path));
      appendQuotes(
        archive,
        quoteAnswer('A', [quote(day0 + 1, 0.5), quote(day0 + dayMs + 1, 0.5)], {
          observedAt: now + 2,
          windows: [
            { from: day0 + 1, to: day0 + 2 },
            { from: day0 + dayMs + 1, to: day0 + dayMs + 2 },
          ],
        }),
      );
      append(archive, answer('A', [[day0 + 1, 0.5]], { observedAt: now + 2 }));
      const { refused } = await publishNow(archive);
      // One message for each damaged file.
      expect(refused).toEqual([expect.stringContaining(`${path} is damaged`)]);
      expect(archive.state.db.one('select count(*) as n from journal_series')).toEqual({ n: 1 });
      expect(archive.state.db.one('select count(*) as n from journal_series_coverage')).toEqual({ n: 1 });
      // Candles need the quotes of their part, and not its quote_conflicts.
      const isTickMerged = dataset === 'quote_conflicts';
      expect(archive.state.db.one('select count(*) as n from journal_ticks')).toEqual({ n: isTickMerged ? 0 : 1 });
      writeFileSync(join(root, path), bytes);
      expect(publishedQuotes(root).map((row) => row[1])).toEqual([day0, day0 + dayMs, day0 + dayMs + 1]);
      expect(quoteCoverage(root).map((row) => row[2])).toEqual([day0, day0 + dayMs]);
      expect((await publishNow(archive)).refused).toEqual([]);
      expect(publishedQuotes(root).map((row) => row[1])).toEqual([day0, day0 + 1, day0 + dayMs, day0 + dayMs + 1]);
      expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
      expect(findQuoteCountErrors(archive)).toEqual([]);
    },
  );

  test('that becomes damaged during the publish nothing is published, and the next publish completes it', async () => {
    const root = scratchFolder();
    (await filled(root)).close();
    const path = join(root, toDayPath('coverage', day0, 0));
    let reads = 0;
    const read = (at: string): Uint8Array => {
      const bytes = systemDisk.read(at);
      // From the second read on: the coverage of the day was read for its quotes, and not yet for its ticks.
      return at === path && ++reads > 1 ? bytes.with(9, bytes[9]! ^ 1) : bytes;
    };
    const failing = opened({ root, parts: 1, disk: { ...systemDisk, read } });
    appendQuotes(failing, quoteAnswer('A', [quote(day0 + 1, 0.5)]));
    const before = hashes(root, '{*,[!.]*/**/*.parquet}');
    await expect(publishNow(failing)).rejects.toMatchObject({ exitCode: 6 });
    expect(reads).toBe(2);
    expect(hashes(root, '{*,[!.]*/**/*.parquet}')).toEqual(before);
    failing.close();
    const archive = opened({ root, parts: 1 });
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(publishedQuotes(root)).toContainEqual(['A', day0 + 1, 0.5, null, null, null]);
    expect(findQuoteCountErrors(archive)).toEqual([]);
  });

  test('a missing file of quotes is named, and nothing is merged into a new one', async () => {
    const root = scratchFolder();
    const archive = await filled(root);
    const path = toDayPath('quotes', day0, 0);
    rmSync(join(root, path));
    appendQuotes(archive, quoteAnswer('A', [quote(day0 + 1, 0.5)]));
    expect((await publishNow(archive)).refused).toEqual([`${path} is missing, although the manifest lists it.`]);
    expect(globSync(path, { cwd: root })).toEqual([]);
  });
});

describe('a damaged journal', () => {
  test('counts the quotes of a damaged row as quarantined, and withdraws the coverage of its symbol', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    const windows = [hour];
    appendQuotes(
      archive,
      quoteAnswer('AAA', [quote(day0, 0.1), quote(day0 + 1, 0.2)], { windows }),
      quoteAnswer('AAA', [quote(day0 + 2, 0.3)], { windows: [] }),
      quoteAnswer('BBB', [quote(day0, 0.4)], { windows }),
    );
    archive.state.db.run("update journal_series set n = 3 where symbol = 'AAA' and n = 2");
    const { quarantined } = await publishNow(archive);
    expect(quarantined).toMatchObject({ rows: 1, windows: 1 });
    expect(publishedQuotes(root).map((row) => row.slice(0, 2))).toEqual([
      ['AAA', day0 + 2],
      ['BBB', day0],
    ]);
    expect(quoteCoverage(root).map((row) => row[1])).toEqual(['BBB']);
    expect(countQuotes(archive)).toMatchObject({ fetched: 4, accepted: 2, quarantined: 2 });
    expect(findQuoteCountErrors(archive)).toEqual([]);
  });
});
