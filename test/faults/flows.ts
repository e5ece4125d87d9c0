import { globSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { job as importJob } from '../../jobs/import.ts';
import { job as publishJob } from '../../jobs/publish.ts';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { repairArchive } from '../../src/archive/integrity/repair.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { writeExport } from '../../src/archive/query/export.ts';
import { requireWritableTarget } from '../../src/archive/read/export-file.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import { runJob } from '../../src/collector/job.ts';
import { formatErrorMessage } from '../../src/collector/run/error-message.ts';
import { toExitCode } from '../../src/collector/run/summary.ts';
import { pollRequestedBooks } from '../../src/collector/steps/order-books-step.ts';
import { pollMarketLists, pollTicks } from '../../src/collector/steps/poll-steps.ts';
import { publishJournal } from '../../src/collector/steps/publish-step.ts';
import type { Context } from '../../src/context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../src/context/open-configured.ts';
import { readLeaseId } from '../../src/server/jobs/archive-lease.ts';
import { appendQuotes, quote, quoteAnswer } from '../archive/quotes.ts';
import { answer, append, day0, hourMs, market, now, publishNow } from '../archive/scratch.ts';
import { trade, tradeAnswer } from '../archive/trades.ts';
import { flagsOf } from '../e2e/import-lake.ts';
import { archiveOf, contextIn, type Parts, privateOf } from './place.ts';
import { sandboxWire } from './sandbox-wire.ts';

/** The result of a command. */
export interface Ended {
  readonly exitCode: number;
  /** The error that ended it early; null without error. */
  readonly error: string | null;
}

/** An operation on an archive, from its first change to its last. */
export interface Flow {
  readonly name: string;
  /** Prepares the archive; the folder exists and is empty. */
  prepare(place: string): Promise<void>;
  run(parts: Parts): Promise<Ended>;
  /**
   * Whether a part of it may fail without ending it: a disk error then ends the flow with one error message or not at
   * all.
   */
  readonly mayGoOn?: true;
  /** It asks a service. After a fault its next run asks for other windows, whose proof has other witnesses. */
  readonly asks?: true;
  /** It loses rows of quotes and trades, which were counted when they were accepted. */
  readonly loses?: true;
  /** How many of its calls a fault skips, unless all are requested (SWEEP=all). Default: none. */
  readonly step?: number;
  /** The next command after a fault; the same flow by default. */
  again?(parts: Parts): Promise<Ended>;
}

const symbols = ['AAA', 'Ünï 🚀'];
const ticksOf = (symbol: string, from: number, p: number) =>
  Array.from({ length: 10 }, (_, i) => [from + i * 2 * hourMs + symbol.length, (p + i) / 100] as const);

async function withArchive(
  place: string,
  work: (archive: Archive) => void | Promise<void>,
  groupRows?: number,
): Promise<void> {
  const root = archiveOf(place);
  const given = {
    root,
    create: true,
    upstream: 'https://box.test',
    parts: 2,
    writer: 'oddslake test',
    ...(groupRows === undefined ? {} : { groupRows }),
  };
  const archive = openArchive(given, systemDisk);
  try {
    await work(archive);
  } finally {
    archive.close();
  }
}

/** One published generation. */
const published = (place: string, groupRows?: number): Promise<void> =>
  withArchive(
    place,
    async (archive) => {
      append(archive, ...symbols.map((symbol) => answer(symbol, ticksOf(symbol, day0, 10), { runId: 'first' })));
      await publishNow(archive, now, 'first', { candles: ['1h'] });
    },
    groupRows,
  );

/** Also a journal with every dataset, which changes the published day and adds another. */
async function journaled(place: string, groupRows?: number): Promise<void> {
  await published(place, groupRows);
  await withArchive(place, (archive) => {
    const rows = symbols.flatMap((symbol) => [
      answer(symbol, ticksOf(symbol, day0 + 10 * hourMs, 20), { runId: 'second', observedAt: now + 1 }),
      answer(symbol, ticksOf(symbol, day0, 11), { runId: 'second', observedAt: now + 2 }),
    ]);
    append(archive, ...rows);
    for (const symbol of symbols)
      for (const observedAt of [now, now + 1]) {
        // The earlier ones are dropped.
        const quotes = [0, 2].map((at) => quote(day0 + at * hourMs, (observedAt - now) / 10, 0.9));
        const windows = [{ from: day0, to: day0 + 4 * hourMs }];
        appendQuotes(archive, quoteAnswer(symbol, quotes, { runId: 'second', observedAt, windows }));
        const trades = ['1', '2'].map((id) => trade(day0 + hourMs, id, (observedAt - now) / 10));
        appendQuotes(archive, tradeAnswer(symbol, trades, { runId: 'second', observedAt, windows }));
      }
    const markets = symbols.map((symbol) => market(symbol));
    archive.state.db.transaction(() => {
      appendMarkets(archive.state, { runId: 'second', observedAt: now, markets }, [{ reason: 'no id', raw: '{}' }]);
      recordMarkets(archive.state.db, markets, now, true);
    });
    const book = {
      t: day0,
      bids: toBookSide([{ price: 0.4, quantity: 1 }], 'highest'),
      asks: toBookSide([], 'lowest'),
    };
    const booksPoll = { runId: 'second', observedAt: day0, snapshots: [book], rejected: [], understood: true };
    appendBooks(archive.state, [{ symbol: 'AAA', ...booksPoll }]);
  });
}

/** Damages one row group of each kind of part file that a repair salvages, a candle file, and a text at the root. */
async function damagePermanently(place: string): Promise<void> {
  await journaled(place, 4);
  await withArchive(
    place,
    async (archive) => {
      // Of each file at least one row group stays, so that no path of a glob is removed.
      for (const symbol of symbols)
        for (const [round, observedAt] of [now, now + 1].entries()) {
          const rows = ticksOf(symbol, day0 + hourMs, 30 + round);
          const rest = { runId: 'second', observedAt, windows: [{ from: day0, to: day0 + 4 * hourMs }] };
          const quotes = rows.map(([t, p]) => quote(t, p));
          const trades = rows.map(([t, p], i) => trade(t, `more ${i}`, p));
          appendQuotes(archive, quoteAnswer(symbol, quotes, rest), tradeAnswer(symbol, trades, rest));
        }
      await publishNow(archive, now, 'second', { candles: ['1h'] });
      const { root } = archive.layout;
      const manifest = archive.readManifest();
      for (const dataset of ['ticks', 'quotes', 'quote_conflicts', 'trades', 'trade_conflicts'] as const) {
        const file = manifest.datasets[dataset].files.find(({ rows }) => rows > 0)!;
        const { groups } = readRowGroups(archive.state.db, file.path, file.sha256)!;
        flip(join(root, file.path), groups.at(-1)!.start + 1);
      }
      flip(join(root, 'SHA256SUMS'), 3);
      rmSync(join(root, manifest.datasets.candles_1h.files[0]!.path));
    },
    4,
  );
}

/** Damages the footers of every file, and the manifest. */
async function damaged(place: string): Promise<void> {
  await published(place);
  await withArchive(place, ({ layout: { root }, readManifest }) => {
    for (const { path, bytes } of listManifestFiles(readManifest())) flip(join(root, path), bytes - 9);
    flip(join(root, 'manifest.json'), 300);
  });
}

const repairing = (parts: Parts): Promise<Ended> =>
  runOverArchive(
    parts,
    (archive, context) =>
      repairArchive(archive, {
        clock: context.clock,
        waitMs: 0,
        signal: context.signal,
        ...toCompletenessRules(context.settings),
      }),
    true,
  );

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at]! ^= 4;
  writeFileSync(path, bytes);
}

const openWire = sandboxWire(
  { markets: 1, ticksPerDay: 8, lifetimeDaysMax: 5, epochMs: now - 40 * 24 * hourMs, nowMs: now },
  now,
);

/** Named, because the set of live order books depends on the tick cursors. */
const createBooksFlow = ['KXBTC-26JUN0504-T20', 'will-bitcoin-be-above-20-on-jun-05-2026-04h'];

/** Polls everything into the journal; with `publishes` also publishes it. `keeps`: keeps raw responses. */
const poll =
  (publishes: boolean, keeps = false) =>
  async (parts: Parts): Promise<Ended> => {
    const context = await contextIn({ ...parts, openWire, keepDays: keeps ? 7 : 0 });
    const { exit_code: exitCode, error } = await runJob(context, 'nightly', { usesUpstream: true }, async (run) => {
      await pollMarketLists(run);
      await pollTicks(run, now, []);
      await pollRequestedBooks(run, createBooksFlow);
      if (publishes) await publishJournal(run);
    });
    return { exitCode, error };
  };

const publishing = async (parts: Parts): Promise<Ended> => {
  const summary = await publishJob.run(await contextIn(parts), undefined);
  return { exitCode: summary.exit_code, error: summary.error };
};

/** A command on an open archive, which exits like the launcher. */
async function runOverArchive(
  parts: Parts,
  work: (archive: Archive, context: Context) => Promise<unknown>,
  mends = false,
): Promise<Ended> {
  try {
    const context = await contextIn(parts);
    const archive = openConfiguredArchive(context, false, mends);
    try {
      await work(archive, context);
    } finally {
      archive.close();
    }
    return { exitCode: 0, error: null };
  } catch (error) {
    return { exitCode: toExitCode(error, false), error: formatErrorMessage(error) };
  }
}

/** Damage of every kind that keeps each path of a glob: files that go with a part file are removed first. */
async function damageEverything(place: string): Promise<void> {
  await journaled(place);
  await withArchive(place, async (archive) => {
    await publishNow(archive, now, 'second', { candles: ['1h'] });
  });
  const root = archiveOf(place);
  const [lost, put] = globSync('ticks/**/*.parquet', { cwd: root }).sort();
  flip(join(root, put!), statSync(join(root, put!)).size - 20);
  rmSync(join(root, lost!));
  for (const interval of ['candles_1h', 'candles_1d'])
    rmSync(join(root, lost!.replace('ticks', interval)), { force: true });
  rmSync(join(root, globSync('coverage/**/*.parquet', { cwd: root })[0]!));
  flip(join(root, 'symbols/part-00.parquet'), 40);
  flip(join(root, 'manifest.json'), 40);
  rmSync(join(root, 'README.md'));
}

const snapshotOf = (place: string): string => join(place, 'beside/snapshot');

/** Every flow that changes an archive or derives files from it. A new flow is added here to be tested. */
export const flows: readonly Flow[] = [
  { name: 'first poll', prepare: async () => {}, asks: true, run: poll(false), again: poll(true) },
  { name: 'poll', prepare: (place) => published(place), asks: true, run: poll(false), again: poll(true) },
  {
    name: 'poll that keeps its answers',
    prepare: (place) => published(place),
    asks: true,
    mayGoOn: true,
    run: poll(false, true),
    again: poll(true, true),
  },
  { name: 'publish', prepare: journaled, run: publishing },
  { name: 'candles', prepare: (place) => published(place), run: (parts) => publishing({ ...parts, candles: '1h,1d' }) },
  {
    name: 'export',
    async prepare(place) {
      await published(place);
      mkdirSync(join(place, 'beside'));
      writeFileSync(join(place, 'beside/ticks.csv'), 'existing content\n');
    },
    run: (parts) =>
      runOverArchive(parts, async (archive, context) => {
        const file = requireWritableTarget(archive.disk, archive.layout.root, join(parts.place, 'beside/ticks.csv'));
        const query = { file, format: 'csv', dataset: 'ticks', symbols: [], from: null, to: null } as const;
        await writeExport(archive, query, { ...context, progress: () => {} });
      }),
  },
  {
    name: 'lease ID',
    prepare: (place) => published(place),
    run: (parts) => runOverArchive(parts, async (archive) => readLeaseId(archive, () => 0.5)),
  },
  {
    name: 'snapshot',
    async prepare(place) {
      await published(place);
      mkdirSync(join(place, 'beside'));
    },
    run: (parts) =>
      runOverArchive(parts, (archive, context) =>
        takeSnapshot(archive, snapshotOf(parts.place), { id: 'x', signal: context.signal }),
      ),
    again: (parts) =>
      runOverArchive(parts, async (archive) => {
        // An existing export is complete and refused as a target: its owner decides about its name.
        const isThere = readdirSync(join(parts.place, 'beside')).includes('snapshot');
        if (isThere) parts.disk.syncFolder(join(parts.place, 'beside'));
        else await takeSnapshot(archive, snapshotOf(parts.place), { id: 'y' });
      }),
  },
  {
    name: 'rebuild',
    async prepare(place) {
      await published(place);
      rmSync(privateOf(place), { recursive: true });
    },
    run: publishing,
  },
  { name: 'repair to the byte', prepare: damaged, run: repairing },
  { name: 'repair of row groups', prepare: damagePermanently, run: repairing, loses: true },
  { name: 'repair of whole files', prepare: damageEverything, run: repairing },
  {
    name: 'import',
    async prepare(place) {
      await published(place);
      mkdirSync(join(place, 'input'));
      for (const symbol of symbols) {
        const ticks = ticksOf(symbol, day0 + hourMs / 2, 30).map(([t, p]) => ({ t, p }));
        const page = { symbol, count: ticks.length, from: day0, to: day0 + 20 * hourMs, generated_at: now, ticks };
        const path = join(place, `input/${symbol.length}.json`);
        writeFileSync(path, JSON.stringify(page));
        utimesSync(path, now / 1000, now / 1000);
      }
    },
    async run(parts) {
      const context = await contextIn(parts);
      const summary = await importJob.run(context, flagsOf([join(parts.place, 'input')]));
      return { exitCode: summary.exit_code, error: summary.error };
    },
  },
  {
    name: 'import of another archive',
    step: 5,
    async prepare(place) {
      const other = join(place, 'other');
      await journaled(other);
      await withArchive(other, async (archive) => {
        await publishNow(archive, now, 'second', { candles: ['1h'] });
      });
      rmSync(privateOf(other), { recursive: true });
      await published(place);
      // A price that the other archive has too, and time that it does not cover.
      await withArchive(place, async (archive) => {
        append(archive, answer('AAA', ticksOf('AAA', day0, 12), { runId: 'own', observedAt: now - 1 }));
        append(archive, answer('BBB', ticksOf('BBB', day0 + 50 * hourMs, 5), { runId: 'own' }));
        await publishNow(archive, now, 'own', { candles: ['1h'] });
      });
    },
    async run(parts) {
      const context = await contextIn(parts);
      const archive = { place: archiveOf(join(parts.place, 'other')), showPlan: null };
      const summary = await importJob.run(context, { ...flagsOf([]), archive });
      return { exitCode: summary.exit_code, error: summary.error };
    },
  },
  {
    name: 'import of ticks and quotes',
    step: 5,
    async prepare(place) {
      await published(place);
      mkdirSync(join(place, 'input'));
      for (const [i, symbol] of symbols.entries()) {
        // The second file has other quotes of the same moments, of which one is dropped.
        const rows = ticksOf(symbols[0]!, day0 + hourMs, 30).map(
          ([t, p], row) =>
            `${row % 4 === 3 ? symbol : symbols[0]},${t},${p},${(row + i) / 100},${row % 3 === 0 ? '' : 0.9},`,
        );
        const path = join(place, `input/${i}.csv`);
        writeFileSync(path, ['symbol,t,p,bid,ask,bid_size', ...rows, ''].join('\n'));
        utimesSync(path, now / 1000 + i, now / 1000 + i);
      }
    },
    async run(parts) {
      const context = await contextIn(parts);
      const summary = await importJob.run(
        context,
        flagsOf([join(parts.place, 'input')], {
          datasets: ['ticks', 'quotes'],
          covers: { from: day0, to: day0 + 48 * hourMs },
        }),
      );
      return { exitCode: summary.exit_code, error: summary.error };
    },
  },
];
