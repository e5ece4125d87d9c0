import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import type { CellValue } from '../../src/archive/parquet/rows.ts';
import { union } from '../../src/base/window.ts';
import { evidenceKinds } from '../../src/contract/raw-page.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { appendQuotes, quote, quoteAnswer } from './quotes.ts';
import { answer, append, day0, hashes, hourMs, market, now, opened, publishNow } from './scratch.ts';
import { trade, tradeAnswer } from './trades.ts';
import { contentsOf, copyOf, united } from './united.ts';

const numRuns = Number(process.env.SEEDS ?? 6);

const evidenceColumn = datasets.coverage.columns.findIndex(({ name }) => name === 'evidence');

const symbol = fc.constantFrom('A', 'B', '😀');
const hour = fc.nat(40);
const at = fc.nat(4).map((n) => now + n * hourMs);
const price = fc.constantFrom(0.25, 0.5, 0.75);
const window = fc.tuple(hour, fc.integer({ min: 1, max: 20 })).map(([from, length]) => ({
  from: day0 + from * hourMs,
  to: day0 + (from + length) * hourMs,
}));
const rows = <T>(cell: fc.Arbitrary<T>) => fc.array(fc.tuple(hour, cell), { minLength: 1, maxLength: 5 });

/** What an archive may observe. */
const observation = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('ticks' as const),
      symbol,
      at,
      rows: rows(price),
      windows: fc.array(window, { maxLength: 2 }),
      evidence: fc.constantFrom(...evidenceKinds),
      origin: fc.constantFrom('poll' as const, 'import' as const),
    }),
  },
  // What is withdrawn may be claimed again, without proof.
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('withdrawal' as const), symbol, at, window, demotes: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('quotes' as const),
      symbol,
      at,
      rows: rows(price),
      windows: fc.array(window, { maxLength: 1 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('trades' as const), symbol, at, rows: rows(price) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('books' as const), symbol, at, rows: rows(price) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('markets' as const),
      at,
      symbols: fc.uniqueArray(symbol, { minLength: 1 }),
      isActive: fc.boolean(),
      question: fc.constantFrom('?', '??', null),
    }),
  },
);
type Observation = typeof observation extends fc.Arbitrary<infer T> ? T : never;

const side = (levels: readonly (readonly [number, number])[]) =>
  toBookSide(
    levels.map(([p, quantity]) => ({ price: p, quantity })),
    'highest',
  );

function observe(archive: Archive, seen: Observation): void {
  const { state } = archive;
  if (state.db.one("select 1 from runs where run_id = 'run'") === undefined)
    startRun(state.db, 'run', 'test', process.pid, now);
  if (seen.kind === 'ticks') {
    const rank = seen.origin === 'import' ? precedenceRanks.import : precedenceRanks.poll;
    const covered = seen.windows.map((w) => ({ ...w, fetchedAt: seen.at, evidence: seen.evidence }));
    const ticks = seen.rows.map(([h, p]) => [day0 + h * hourMs, p] as const);
    append(archive, answer(seen.symbol, ticks, { observedAt: seen.at, origin: seen.origin, rank, covered }));
  } else if (seen.kind === 'withdrawal')
    append(
      archive,
      answer(seen.symbol, [], {
        requestedWindow: seen.window,
        windows: [],
        withdrawn: [seen.window],
        covered: seen.demotes ? [{ ...seen.window, fetchedAt: now, evidence: 'inferred' }] : [],
        observedAt: seen.at,
      }),
    );
  else if (seen.kind === 'quotes')
    appendQuotes(
      archive,
      quoteAnswer(
        seen.symbol,
        seen.rows.map(([h, p]) => quote(day0 + h * hourMs, p)),
        { observedAt: seen.at, windows: seen.windows },
      ),
    );
  else if (seen.kind === 'trades')
    appendQuotes(
      archive,
      tradeAnswer(
        seen.symbol,
        seen.rows.map(([h, p]) => trade(day0 + h * hourMs, `t${h}`, p)),
        { observedAt: seen.at },
      ),
    );
  else if (seen.kind === 'books')
    appendBooks(state, [
      {
        runId: 'run',
        symbol: seen.symbol,
        observedAt: seen.at,
        understood: true,
        rejected: [],
        snapshots: seen.rows.map(([h, p]) => ({ t: day0 + h * hourMs, bids: side([[p, 1]]), asks: side([]) })),
      },
    ]);
  else {
    const markets = seen.symbols.map((name) => market(name, { isActive: seen.isActive, question: seen.question }));
    appendMarkets(state, { runId: 'run', observedAt: seen.at, markets }, []);
    recordMarkets(state.db, markets, seen.at, true);
  }
}

/** An archive that has seen these, published in groups. */
async function archiveOf(groups: readonly (readonly Observation[])[], parts = 4): Promise<string> {
  const archive = opened({ parts });
  let polls = 0;
  for (const group of groups) {
    // A process polls the lists one after the other.
    for (const seen of group)
      observe(archive, seen.kind === 'markets' ? { ...seen, at: now + polls++ * hourMs + (seen.at - now) / 8 } : seen);
    await publishNow(archive, now + 10 * hourMs);
  }
  archive.close();
  return archive.layout.root;
}

const history = fc.array(fc.array(observation, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 3 });

describe('archives of any history', () => {
  test('unite to the same rows, whichever takes the other, and once more changes no byte', async () => {
    await checkAsyncProperty([history, history, fc.constantFrom(1, 2, 4)], numRuns, async (a, b, parts) => {
      const [one, two] = [await archiveOf(a), await archiveOf(b, parts)];
      const [ab, ba] = [await united(copyOf(one), [two]), await united(copyOf(two), [one])];
      expect(contentsOf(ab)).toEqual(contentsOf(ba));
      const before = hashes(ab, '**/*');
      await united(ab, [two, one, ba, two]);
      expect(hashes(ab, '**/*')).toEqual(before);
      const archive = opened({ root: ab });
      expect((await verifyArchive(archive, null)).findings).toEqual([]);
      archive.close();
    });
  });

  test('have every row and every covered moment of three, in any order', async () => {
    await checkAsyncProperty([history, history, history], numRuns, async (...histories) => {
      const [first, second, third] = histories;
      const [a, b, c] = [await archiveOf(first!), await archiveOf(second!, 1), await archiveOf(third!, 2)];
      // A window is published once: what was inferred after a withdrawal may be hidden by a proof from before it.
      const isWithdrawn = histories.flat(2).some(({ kind }) => kind === 'withdrawal');
      const outcomes = [
        await united(copyOf(a), [b, c]),
        await united(copyOf(c), [a, b]),
        await united(copyOf(b), [await united(copyOf(c), [a])]),
        // Without its state, it is rebuilt first.
        await united(copyOf(a, false), [await united(copyOf(b, false), [c])]),
      ].map((root) => summarize(root, !isWithdrawn));
      for (const outcome of outcomes) expect(outcome).toEqual(outcomes[0]);
    });
  });
});

/** The keys of rows, and the windows of each symbol: the proven ones, and those that are covered at all. */
function summarize(root: string, hasInferred: boolean): unknown {
  const contents = contentsOf(root) as Record<string, readonly string[]>;
  const keysOf = (dataset: string, cells: number): string[] =>
    [
      ...new Set(contents[dataset]!.map((row) => JSON.stringify((JSON.parse(row) as unknown[]).slice(0, cells)))),
    ].sort();
  const coverage = contents.coverage!.map((row) => JSON.parse(row) as CellValue[]);
  const windowsOf = (rows: readonly CellValue[][]) =>
    [...Map.groupBy(rows, ([dataset, name]) => `${dataset} ${name}`)]
      .map(([name, list]) => [name, union(list.map((row) => ({ from: row[2] as number, to: row[3] as number })))])
      .sort();
  return {
    ticks: contents.ticks!.map((row) => row.slice(0, row.lastIndexOf(' '))),
    quotes: keysOf('quotes', 2),
    trades: keysOf('trades', 3),
    orderbooks: keysOf('orderbooks', 4),
    symbols: keysOf('symbols', 1),
    proven: windowsOf(coverage.filter((row) => row[evidenceColumn] !== 'inferred')),
    covered: hasInferred ? windowsOf(coverage) : null,
    withdrawn: contents.withdrawn,
  };
}
