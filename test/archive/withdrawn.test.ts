import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import type { Evidence } from '../../src/archive/format/coverage.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { findUnprovenOf, readPublishedCoverage, readSymbolCoverage } from '../../src/archive/journal/coverage-store.ts';
import { readJournalEnd } from '../../src/archive/journal/journal.ts';
import { union, type Window } from '../../src/base/window.ts';
import { evidenceKinds } from '../../src/contract/raw-page.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { answer, append, day0, dayMs, hourMs, now, opened, publishedRows, publishNow } from './scratch.ts';

const hours = (from: number, to: number): Window => ({ from: day0 + from * hourMs, to: day0 + to * hourMs });

/** Published coverage windows of a symbol. */
const published = (archive: Archive, symbol: string): Window[] =>
  union(
    publishedRows(archive.layout.root, 'coverage')
      .filter((row) => row[0] === 'ticks' && row[1] === symbol)
      .map((row) => ({ from: row[2] as number, to: row[3] as number })),
  );

const withdrawal = (symbol: string, ...withdrawn: Window[]) =>
  answer(symbol, [], { requestedWindow: withdrawn[0]!, windows: [], withdrawn });

test('withdraws published and earlier journaled coverage, and keeps the ticks', async () => {
  const archive = opened();
  const { db } = archive.state;
  append(archive, answer('A', [[day0 + hourMs, 0.5]], { windows: [hours(0, 12)] }));
  await publishNow(archive);
  append(archive, answer('A', [], { requestedWindow: hours(12, 24), windows: [hours(12, 24)] }));
  append(archive, withdrawal('A', hours(10, 14)));
  const remaining = [hours(0, 10), hours(14, 24)];
  expect(readSymbolCoverage(db, 'A')).toEqual(remaining);
  await publishNow(archive);
  expect(readSymbolCoverage(db, 'A')).toEqual(remaining);
  expect(published(archive, 'A')).toEqual(remaining);
  expect(union(readPublishedCoverage(db, 'A'))).toEqual(remaining);
  expect(archive.readManifest().datasets.ticks.files[0]!.rows).toBe(1);
  expect(archive.readManifest().days['2026-06-01']!.state).toBe('incomplete');
  expect(readJournalEnd(db)).toBe(0);
});

test('applies before the coverage of its own record', async () => {
  const archive = opened();
  append(archive, answer('A', [], { requestedWindow: hours(0, 6), windows: [hours(0, 6)] }));
  append(archive, answer('A', [], { requestedWindow: hours(0, 6), windows: [hours(2, 3)], withdrawn: [hours(1, 4)] }));
  const remaining = [hours(0, 1), hours(2, 3), hours(4, 6)];
  expect(readSymbolCoverage(archive.state.db, 'A')).toEqual(remaining);
  await publishNow(archive);
  expect(published(archive, 'A')).toEqual(remaining);
});

test('is listed with its time in the manifest, and stays so after later proof, which keeps its own time', async () => {
  const archive = opened();
  const listed = () => archive.readManifest().datasets.coverage.withdrawn;
  append(archive, answer('A', [[day0, 0.5]], { windows: [hours(0, 24)] }));
  await publishNow(archive);
  expect(listed()).toBeUndefined();
  append(archive, { ...withdrawal('A', hours(6, 30)), observedAt: now + 5 });
  append(archive, { ...withdrawal('B', hours(1, 2)), observedAt: now + 6 });
  await publishNow(archive);
  const rest = { symbol: 'A', ...hours(24, 30), at: now + 5 };
  const b = { symbol: 'B', ...hours(1, 2), at: now + 6 };
  expect(listed()).toEqual([{ symbol: 'A', ...hours(6, 24), at: now + 5 }, rest, b]);
  append(archive, answer('A', [], { requestedWindow: hours(0, 24), windows: [hours(6, 20)], observedAt: now + 7 }));
  await publishNow(archive);
  expect(listed()).toEqual([{ symbol: 'A', ...hours(6, 24), at: now + 5 }, rest, b]);
  const windows = publishedRows(archive.layout.root, 'coverage').map(([, , from, to, , at]) => ({ from, to, at }));
  expect(windows).toEqual([
    { ...hours(0, 6), at: now },
    { ...hours(6, 20), at: now + 7 },
  ]);
});

test('changes the covered share of candles', async () => {
  const archive = opened();
  const share = () => publishedRows(archive.layout.root, 'candles_1h').map((row) => row[7]);
  append(archive, answer('A', [[day0, 0.5]], { windows: [hours(0, 1)] }));
  await publishNow(archive);
  expect(share()).toEqual([1]);
  append(archive, withdrawal('A', hours(0.25, 0.5)));
  await publishNow(archive);
  expect(share()).toEqual([0.75]);
  append(archive, withdrawal('A', hours(0, 1)));
  await publishNow(archive);
  expect(share()).toEqual([0]);
});

test('of all coverage leaves a coverage file without rows', async () => {
  const archive = opened();
  append(archive, answer('A', [[day0, 0.5]], { windows: [hours(0, 1)] }));
  await publishNow(archive);
  append(archive, withdrawal('A', hours(0, 24)));
  const { manifest } = await publishNow(archive);
  const path = 'coverage/date=2026-06-01/part-00.parquet';
  expect(manifest.datasets.coverage.files).toMatchObject([{ path, rows: 0 }]);
  expect(manifest.removed).toBeUndefined();
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('of all coverage of a day leaves its coverage file without rows if there is other coverage', async () => {
  const archive = opened();
  const later = { from: day0 + dayMs, to: day0 + dayMs + 1 };
  append(archive, answer('A', [[day0, 0.5]], { windows: [hours(0, 1), later] }));
  await publishNow(archive);
  append(archive, withdrawal('A', hours(0, 24)));
  const { manifest } = await publishNow(archive);
  expect(manifest.datasets.coverage.files).toMatchObject([
    { date: '2026-06-01', rows: 0, generation: 2 },
    { date: '2026-06-02', rows: 1, generation: 1 },
  ]);
  expect(manifest.removed).toBeUndefined();
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
  append(archive, answer('A', [], { requestedWindow: hours(0, 1), windows: [hours(0, 1)] }));
  await publishNow(archive);
  expect(published(archive, 'A')).toEqual([hours(0, 1), later]);
});

test('finds windows with inferred evidence only, published or journaled', async () => {
  const archive = opened();
  const { db } = archive.state;
  const covering = (evidence: Evidence, window: Window) =>
    answer('A', [], { requestedWindow: window, covered: [{ ...window, fetchedAt: now, evidence }] });
  append(archive, covering('inferred', hours(0, 6)), covering('confirmed', hours(2, 3)));
  await publishNow(archive);
  append(archive, covering('inferred', hours(8, 9)), covering('stated', hours(4, 5)));
  append(archive, withdrawal('A', hours(5, 5.5)));
  const inferred = [hours(0, 2), hours(3, 4), hours(5.5, 6), hours(8, 9)];
  expect(findUnprovenOf(db, 'A', now)).toEqual(inferred);
  await publishNow(archive);
  expect(findUnprovenOf(db, 'A', now)).toEqual(inferred);
  // No response proves what is later.
  expect(findUnprovenOf(db, 'A', day0 + 3.5 * hourMs)).toEqual([hours(0, 2), hours(3, 3.5)]);
});

const size = 16;
const stepMs = (2 * dayMs) / size;
const anyWindow = fc
  .tuple(fc.nat(size - 1), fc.integer({ min: 1, max: size }))
  .map(([from, length]) => ({ from, to: Math.min(size, from + length) }));
const windowOf = ({ from, to }: Window): Window => ({ from: day0 + from * stepMs, to: day0 + to * stepMs });
interface Step {
  readonly kind: 'cover' | 'withdraw' | 'publish';
  /** In steps of three hours. */
  readonly window: Window;
  readonly symbol: number;
  readonly evidence: Evidence;
  /** How far a publish gets before the next step. */
  readonly turns: number;
}
const anyStep: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('cover', 'cover', 'cover', 'withdraw', 'withdraw', 'publish'),
  window: anyWindow,
  symbol: fc.nat(1),
  evidence: fc.constantFrom(...evidenceKinds),
  turns: fc.nat(12),
});

test('gives the same coverage for any order of appends, withdrawals and publishes', async () => {
  await checkAsyncProperty([fc.array(anyStep, { minLength: 2, maxLength: 14 })], 100 * share, async (steps) => {
    const archive = opened();
    const { db } = archive.state;
    const symbols = ['A', 'B'];
    const model = symbols.map(() => new Array<boolean>(size).fill(false));
    const expected = (i: number): Window[] =>
      union(model[i]!.flatMap((isCovered, at) => (isCovered ? [windowOf({ from: at, to: at + 1 })] : [])));
    let publishing: Promise<unknown> = Promise.resolve();
    for (const [n, step] of steps.entries()) {
      if (step.kind === 'publish') {
        // The next steps run during the publish.
        await publishing;
        publishing = publishNow(archive);
        for (let turn = 0; turn < step.turns; turn++) await new Promise((resolve) => setImmediate(resolve));
        continue;
      }
      const window = windowOf(step.window);
      model[step.symbol]!.fill(step.kind === 'cover', step.window.from, step.window.to);
      const covered = [{ ...window, fetchedAt: now + n, evidence: step.evidence }];
      const rest = step.kind === 'cover' ? { covered } : { covered: [], withdrawn: [window] };
      append(archive, answer(symbols[step.symbol]!, [], { requestedWindow: window, ...rest }));
      for (const [i, symbol] of symbols.entries()) expect(readSymbolCoverage(db, symbol)).toEqual(expected(i));
    }
    await publishing;
    await publishNow(archive);
    for (const [i, symbol] of symbols.entries()) {
      expect(readSymbolCoverage(db, symbol)).toEqual(expected(i));
      expect(union(readPublishedCoverage(db, symbol))).toEqual(expected(i));
      expect(published(archive, symbol)).toEqual(expected(i));
    }
    expect(db.one('select count(*) as n from journal_withdrawn')).toEqual({ n: 0 });
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    archive.close();
  });
});
