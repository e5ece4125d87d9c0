import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { rootTextsKey } from '../../src/archive/journal/database.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { recordRootFileHashes } from '../../src/archive/publish/commit.ts';
import { listViewDefinitions, selectViewDefinitions } from '../../src/archive/publish/views-sql.ts';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { listGaps } from '../../src/archive/read/gaps.ts';
import { loseTicks } from './losses.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  judged,
  market,
  now,
  opened,
  publishedRows,
  publishNow,
  scratchFolder,
} from './scratch.ts';
import { inFolder, type Row } from './views-folder.ts';

/** The values of the single row of a statement. */
const values = (rows: readonly Row[]): unknown[][] => rows.map((row) => Object.values(row));

/** Times as whole milliseconds in JSON, instead of DuckDB's text. */
const ms = (column: string): string => `epoch_ms(${column})::DOUBLE`;

function poll(archive: Archive, at: number, ...markets: MarketFacts[]): void {
  archive.state.db.transaction(() => {
    appendMarkets(archive.state, { runId: 'run', observedAt: at, markets }, []);
    recordMarkets(archive.state.db, markets, at, true);
  });
}

/** Three days with quiet windows and a gap. The folder's name has characters that are special in globs and Hive paths. */
async function archiveOf(): Promise<{ root: string; archive: Archive }> {
  const root = join(scratchFolder(), 'date=2020-01-01', "it's [a] lake");
  mkdirSync(root, { recursive: true });
  const archive = opened({ root, parts: 2 });
  poll(archive, day0 + hourMs, market('AAA'), market('BBB'), market('GONE'));
  poll(archive, day0 + 6 * hourMs, market('AAA'), market('BBB'), market('GONE'));
  poll(archive, day0 + 30 * hourMs, market('AAA', { isActive: false }), market('BBB', { category: 'other' }));
  const ticks = (from: number, hours: readonly number[]) =>
    hours.map((hour, i) => [from + hour * hourMs + 7, ((i * 3) % 10) / 10] as const);
  append(
    archive,
    answer('AAA', ticks(day0, [1, 2, 2.1, 30, 31]), { windows: [{ from: day0, to: day0 + 40 * hourMs }] }),
    answer('BBB', ticks(day0, [0.5, 3, 3.3, 20, 60, 61]), {
      windows: [
        { from: day0, to: day0 + 10 * hourMs },
        { from: day0 + 18 * hourMs, to: day0 + 2 * dayMs },
        { from: day0 + 2 * dayMs, to: day0 + 61.5 * hourMs },
      ],
    }),
    answer('SOLO', ticks(day0, [50]), { windows: [{ from: day0 + 49 * hourMs, to: day0 + 55 * hourMs }] }),
  );
  await publishNow(archive);
  return { root, archive };
}

describe('views.sql', () => {
  test('gives every dataset with its columns and times in UTC, those without files too', async () => {
    const { root } = await archiveOf();
    const names = Object.keys(datasets);
    const [zone, ...described] = inFolder(root, [
      "SELECT current_setting('TimeZone') AS zone",
      ...names.map((name) => `SELECT column_name FROM (DESCRIBE ${name})`),
      ...names.map((name) => `SELECT count(*)::INTEGER AS n FROM ${name}`),
    ]);
    expect(zone).toEqual([{ zone: 'UTC' }]);
    names.forEach((name, i) => {
      const columns = datasets[name as keyof typeof datasets].columns.map((column) => column.name);
      expect(values(described[i]!).flat(), name).toEqual([...columns, ...(name === 'symbols' ? [] : ['date'])]);
      const rows = name === 'ticks' ? 12 : publishedRows(root, name as 'symbols').length;
      expect(described[names.length + i], name).toEqual([{ n: rows }]);
      expect(rows > 0, name).toBe(!['orderbooks', 'quotes', 'trades'].includes(name) && !name.endsWith('conflicts'));
    });
  });

  test('finds days that are published after it was written', async () => {
    const { root, archive } = await archiveOf();
    copyFileSync(join(root, 'views.sql'), join(root, 'old.sql'));
    append(archive, answer('AAA', [[day0 + 2 * dayMs + 1, 0.5]]));
    await publishNow(archive);
    const count = 'SELECT date::VARCHAR AS date, count(*)::INTEGER AS n FROM ticks GROUP BY 1 ORDER BY 1';
    expect(inFolder(root, [count], 'old.sql')[0]).toEqual([
      { date: '2026-06-01', n: 7 },
      { date: '2026-06-02', n: 2 },
      { date: '2026-06-03', n: 4 },
    ]);
  });

  test('is verified against the recorded hash, not against what this oddslake would write', async () => {
    const { root, archive } = await archiveOf();
    const older = readFileSync(join(root, 'views.sql'), 'utf8').replaceAll('ticks', 'tick');
    writeFileSync(join(root, 'views.sql'), older);
    recordRootFileHashes(archive.state.db, { 'views.sql': older });
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    writeFileSync(join(root, 'views.sql'), 'SELECT 1');
    expect((await verifyArchive(archive, null)).findings).toEqual([{ path: 'views.sql', kind: 'checksum mismatch' }]);
  });

  test('is verified without a recorded hash only after it was seen to match this oddslake', async () => {
    const { root, archive } = await archiveOf();
    const { db } = archive.state;
    const written = readFileSync(join(root, 'views.sql'));
    db.run('delete from meta where key = ?', rootTextsKey);
    writeFileSync(join(root, 'views.sql'), 'SELECT 1');
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    writeFileSync(join(root, 'views.sql'), written);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
    writeFileSync(join(root, 'views.sql'), 'SELECT 1');
    expect((await verifyArchive(archive, null)).findings).toEqual([{ path: 'views.sql', kind: 'checksum mismatch' }]);
  });
});

describe('candles of any step', () => {
  test('equal the published ones bit for bit, for an hour and a day', async () => {
    const { root } = await archiveOf();
    const differing = (a: string, b: string): string =>
      `SELECT count(*)::INTEGER AS n FROM ((FROM ${a} EXCEPT FROM ${b}) UNION ALL (FROM ${b} EXCEPT FROM ${a}))`;
    const [, ...results] = inFolder(root, [
      // The values do not depend on the session's time zone.
      "SET TimeZone = 'America/New_York'",
      differing("candles('1h')", 'candles_1h'),
      differing('candles(INTERVAL 1 DAY)', 'candles_1d'),
      differing("candles('1h')", "(FROM candles_1h WHERE symbol <> 'SOLO')"),
      differing(
        "candles('1h', since := '2026-06-01T02:00:00Z', until := '2026-06-02T00:00:00Z')",
        "(FROM candles_1h WHERE t >= '2026-06-01 02:00:00+00' AND date = '2026-06-01')",
      ),
    ]);
    expect(results.map(([row]) => row!.n)).toEqual([0, 0, 1, 0]);
  });

  test('are aligned to their step, weeks to Monday, and have their covered share', async () => {
    const { root } = await archiveOf();
    const columns = `symbol, ${ms('t')}, open, high, low, close, ticks, covered, date::VARCHAR`;
    const [quarters, weeks] = inFolder(root, [
      `SELECT ${columns} FROM candles('15 minutes') WHERE symbol = 'BBB' AND date = '2026-06-01' ORDER BY t`,
      `SELECT ${columns} FROM candles('1w') ORDER BY symbol`,
    ]);
    const at = (hour: number) => day0 + hour * hourMs;
    expect(values(quarters!)).toEqual([
      ['BBB', at(0.5), 0, 0, 0, 0, 1, 1, '2026-06-01'],
      ['BBB', at(3), 0.3, 0.3, 0.3, 0.3, 1, 1, '2026-06-01'],
      ['BBB', at(3.25), 0.6, 0.6, 0.6, 0.6, 1, 1, '2026-06-01'],
      ['BBB', at(20), 0.9, 0.9, 0.9, 0.9, 1, 1, '2026-06-01'],
    ]);
    // 2026-06-01 is a Monday.
    expect(values(weeks!)).toEqual([
      ['AAA', day0, 0, 0.9, 0, 0.2, 5, 40 / 168, '2026-06-01'],
      ['BBB', day0, 0, 0.9, 0, 0.5, 6, 53.5 / 168, '2026-06-01'],
      ['SOLO', day0, 0, 0, 0, 0, 1, 6 / 168, '2026-06-01'],
    ]);
  });

  test('reject a step without a fixed length', async () => {
    const { root } = await archiveOf();
    const steps = ['1 month', '1 year', '0s', '-1h', '1500us'];
    const results = inFolder(
      root,
      steps.map((step) => `FROM candles('${step}')`),
    );
    for (const [i, step] of steps.entries())
      expect(results[i], step).toEqual([{ error: expect.stringMatching(/a step is a whole number of milliseconds/) }]);
  });

  test('filled, carry the last close over quiet steps and gaps, which covered distinguishes', async () => {
    const { root } = await archiveOf();
    const columns = `symbol, ${ms('t')}, open, high, low, close, ticks, covered`;
    const [filled, carried, none] = inFolder(root, [
      `SELECT ${columns} FROM candles_filled('6h', '2026-06-01', '2026-06-03') ORDER BY symbol, t`,
      // The last ticks before it are of the same day and of the day before.
      `SELECT ${columns} FROM candles_filled('6h', '2026-06-02 01:00:00Z', '2026-06-02 13:00:00Z') ORDER BY symbol, t`,
      `SELECT ${columns} FROM candles_filled('6h', '2026-06-02', '2026-06-02')`,
    ]);
    const at = (hour: number) => day0 + hour * hourMs;
    const quiet = (symbol: string, hour: number, price: number, covered: number) => [
      symbol,
      at(hour),
      price,
      price,
      price,
      price,
      0,
      covered,
    ];
    // AAA was last seen active at 06:00 and has its last tick at 31 h: its lifetime ends there.
    const ofBoth = [
      ['AAA', at(0), 0, 0.6, 0, 0.6, 3, 1],
      quiet('AAA', 6, 0.6, 1),
      quiet('AAA', 12, 0.6, 1),
      quiet('AAA', 18, 0.6, 1),
      quiet('AAA', 24, 0.6, 1),
      ['AAA', at(30), 0.9, 0.9, 0.2, 0.2, 2, 1],
      ['BBB', at(0), 0, 0.6, 0, 0.6, 3, 1],
      quiet('BBB', 6, 0.6, 4 / 6),
      quiet('BBB', 12, 0.6, 0),
      ['BBB', at(18), 0.9, 0.9, 0.9, 0.9, 1, 1],
      quiet('BBB', 24, 0.9, 1),
      quiet('BBB', 30, 0.9, 1),
      quiet('BBB', 36, 0.9, 1),
      quiet('BBB', 42, 0.9, 1),
    ];
    expect(values(filled!)).toEqual(ofBoth);
    expect(values(carried!)).toEqual([ofBoth[5], ofBoth[11], ofBoth[12]]);
    expect(none).toEqual([]);
  });

  test('filled, carry the same without daily candles', async () => {
    const { root, archive } = await archiveOf();
    const bare = scratchFolder();
    const other = opened({ root: bare, parts: 2 });
    const ticks = [1, 2, 60].map((hour) => [day0 + hour * hourMs, hour / 100] as const);
    for (const one of [archive, other]) append(one, answer('KEPT', ticks));
    await publishNow(archive);
    await publishNow(other, now, 'run', { candles: [] });
    const sql = `FROM candles_filled('1h', '2026-06-02 12:00:00Z', '2026-06-04') WHERE symbol = 'KEPT' ORDER BY t`;
    const [rows] = inFolder(root, [sql]);
    expect(rows).toHaveLength(36);
    expect(rows![0]).toMatchObject({ open: 0.02, close: 0.02, ticks: 0 });
    expect(inFolder(bare, [sql])[0]).toEqual(rows);
  });
});

describe('what is known of time', () => {
  test('days are those of the manifest, also in oddslake sql', async () => {
    const { root, archive } = await archiveOf();
    const statement = `SELECT strftime(date, '%Y-%m-%d') AS date, state, expected, covered, to_json(missing)::VARCHAR AS missing,
      exceptions, reason, next_action FROM days ORDER BY date`;
    const { days } = archive.readManifest();
    const expected = Object.entries(days).map(([date, { missing, reason, reasons: _, ...day }]) => ({
      date,
      ...day,
      missing: JSON.stringify(missing),
      reason: reason ?? null,
      next_action: day.next_action ?? null,
    }));
    expect(expected.map(({ reason }) => reason === null)).toContain(false);
    expect(inFolder(root, [statement])[0]).toEqual(expected);
    const { query, close } = await openArchiveQuery(archive, statement, Math.random);
    try {
      const { columns, rows } = await query.readTable(statement, 100, new AbortController().signal);
      const read = rows.map((row) => Object.fromEntries(columns.map(({ name }, i) => [name, row[i] ?? null])));
      expect(read).toEqual(
        expected.map((day) => ({
          ...day,
          expected: String(day.expected),
          covered: String(day.covered),
          exceptions: String(day.exceptions),
        })),
      );
    } finally {
      await close();
    }
  });

  test('gaps are those of oddslake gaps', async () => {
    const { root, archive } = await archiveOf();
    const early = market('EARLY', { opensAt: day0 + 5 * hourMs });
    poll(archive, day0 + 50 * hourMs, market('OVER'), early, market('BBB'));
    const over = market('OVER', { resolvedAt: day0 + 52 * hourMs, isActive: false });
    poll(archive, day0 + 55 * hourMs, over, early, market('BBB'));
    append(archive, answer('EARLY', [[day0 + 20 * hourMs, 0.5]]));
    await publishNow(archive);
    const rowsOfGaps = listGaps(archive, { from: null, to: null, symbols: [] }, judged, now).gaps.map(
      ({ symbol, from, to }) => [symbol, from, to],
    );
    expect(new Set(rowsOfGaps.map(([symbol]) => symbol))).toEqual(new Set(['BBB', 'EARLY', 'GONE', 'OVER', 'SOLO']));
    const [rows] = inFolder(root, [`SELECT symbol, ${ms('t_from')}, ${ms('t_to')} FROM gaps ORDER BY symbol, t_from`]);
    expect(values(rows!)).toEqual(rowsOfGaps);
  });

  test('gaps have the reason lost, as in oddslake gaps and oddslake sql', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    const windows = [{ from: day0, to: day0 + dayMs }];
    const hourly = Array.from({ length: 24 }, (_, hour): [number, number] => [day0 + hour * hourMs + 7, 0.5]);
    const symbols = ["it's", 'FIRST'];
    poll(archive, day0 + hourMs, market(symbols[0]!));
    append(archive, ...symbols.map((symbol) => answer(symbol, hourly, { windows })));
    append(archive, answer('LATER', [[day0 + 2 * dayMs, 0.5]]));
    await publishNow(archive);
    const hours = (symbol: string, from: number, to: number) => ({
      symbol,
      from: day0 + from * hourMs,
      to: day0 + to * hourMs,
    });
    await loseTicks(archive, [hours(symbols[0]!, 3, 5), hours(symbols[0]!, 23, 24), hours('FIRST', 0, 2)]);
    await publishNow(archive);
    const rowsOfGaps = listGaps(archive, { from: null, to: null, symbols: [] }, judged, now).gaps.map(
      ({ symbol, from, to, reason }) => [symbol, from, to, reason === 'lost' ? reason : null],
    );
    expect(rowsOfGaps).toContainEqual([symbols[0], day0 + 24 * hourMs, expect.any(Number), null]);
    expect(rowsOfGaps.filter(([, , , reason]) => reason === 'lost')).toEqual([
      ['FIRST', day0, day0 + 2 * hourMs, 'lost'],
      ["it's", day0 + 3 * hourMs, day0 + 5 * hourMs, 'lost'],
      ["it's", day0 + 23 * hourMs, day0 + 24 * hourMs, 'lost'],
    ]);
    const sql = `SELECT symbol, ${ms('t_from')} AS t_from, ${ms('t_to')} AS t_to, reason FROM gaps ORDER BY ALL`;
    expect(values(inFolder(root, [sql])[0]!)).toEqual(rowsOfGaps);
    const { query, close } = await openArchiveQuery(archive, sql, () => 0.5);
    try {
      expect((await query.readRows(sql)).map((row) => Object.values(row))).toEqual(rowsOfGaps);
    } finally {
      await close();
    }
  });

  test('an archive without coverage has no gaps', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    poll(archive, day0 + hourMs, market('AAA'));
    await publishNow(archive);
    expect(inFolder(root, ['FROM gaps', "SELECT is_covered('AAA', '2026-06-01') AS it"])).toEqual([
      [],
      [{ it: false }],
    ]);
  });

  test('is_covered holds from the start of a window to before its end, and for columns of any name', async () => {
    const { root } = await archiveOf();
    const ask = (symbol: string, t: number) => `SELECT is_covered('${symbol}', make_timestamptz(${t * 1000})) AS it`;
    const responses = inFolder(root, [
      ask('BBB', day0),
      ask('BBB', day0 - 1),
      ask('BBB', day0 + 10 * hourMs - 1),
      ask('BBB', day0 + 10 * hourMs),
      ask('BBB', day0 + dayMs),
      ask('NOBODY', day0),
      'SELECT count(*)::INTEGER AS it FROM ticks WHERE NOT is_covered(symbol, t)',
      // Its own ends: the start is covered, the end by the next window of the day after only.
      'SELECT count(*)::INTEGER AS it FROM coverage WHERE NOT is_covered(symbol, t_from)',
      `SELECT string_agg(symbol || ' ' || (${ms('t_to')} - ${day0}) / ${hourMs}, ', ' ORDER BY symbol, t_to) AS it
       FROM coverage AS c WHERE NOT is_covered(c.symbol, c.t_to)`,
    ]);
    expect(responses.map(([row]) => row!.it)).toEqual([
      true,
      false,
      true,
      false,
      true,
      false,
      0,
      0,
      'AAA 40.0, BBB 10.0, BBB 61.5, SOLO 55.0',
    ]);
  });
});

describe('ticks_with_markets', () => {
  test('has every tick once, with the market’s state at that time', async () => {
    const { root } = await archiveOf();
    const [rows] = inFolder(root, [
      `SELECT symbol, (${ms('t')} - ${day0 + 7}) / ${hourMs} AS hour, canonical_id, category, is_active
       FROM ticks_with_markets ORDER BY symbol, t`,
    ]);
    expect(values(rows!)).toEqual([
      ['AAA', 1, 'id AAA', null, true],
      ['AAA', 2, 'id AAA', null, true],
      ['AAA', 2.1, 'id AAA', null, true],
      ['AAA', 30, 'id AAA', null, false],
      ['AAA', 31, 'id AAA', null, false],
      ['BBB', 0.5, null, null, null],
      ['BBB', 3, 'id BBB', null, true],
      ['BBB', 3.3, 'id BBB', null, true],
      ['BBB', 20, 'id BBB', null, true],
      ['BBB', 60, 'id BBB', 'other', true],
      ['BBB', 61, 'id BBB', 'other', true],
      ['SOLO', 50, null, null, null],
    ]);
  });

  test('takes one market per symbol: the one of greatest confidence, then the first', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const of = (canonicalId: string, rest: Partial<MarketFacts>) => market('AAA', { canonicalId, ...rest });
    poll(archive, day0, of('m1', { confidence: 0.5 }), of('m2', { confidence: 0.9 }), of('m3', { confidence: null }));
    // A later state of m1 does not replace m2.
    poll(archive, day0 + hourMs, of('m1', { confidence: 0.5, category: 'x' }), of('m2', { confidence: 0.9 }));
    poll(archive, day0 + dayMs, of('m2', { confidence: null }), of('m1', { confidence: null }));
    const hours = [0, 2, 23, 24, 30];
    append(
      archive,
      answer(
        'AAA',
        hours.map((hour) => [day0 + hour * hourMs, 0.5] as const),
      ),
    );
    await publishNow(archive);
    const [rows] = inFolder(root, ['SELECT canonical_id FROM ticks_with_markets ORDER BY t']);
    expect(values(rows!).flat()).toEqual(['m2', 'm2', 'm2', 'm1', 'm1']);
  });
});

describe('each view and macro', () => {
  test('lists what it uses and reads, and follows what it uses', () => {
    const days = '(SELECT 1 AS content)';
    for (const daily of [true, false]) {
      const all = listViewDefinitions(daily, [], days);
      const names = all.map(({ name }) => name);
      for (const [i, { name, uses, needs, sql }] of all.entries()) {
        const text = sql.replace(/--.*$/gm, '').replace(new RegExp(`(MACRO|VIEW) ${name}\\b`), '');
        const called = names.filter((other) => new RegExp(`\\b${other}\\(|(FROM|JOIN|,) ${other} AS\\b`).test(text));
        const behind = selectViewDefinitions(name, daily, [], days).map((definition) => definition.name);
        expect(
          called.filter((other) => !behind.includes(other)),
          name,
        ).toEqual([]);
        expect(
          uses.filter((used) => !names.slice(0, i).includes(used)),
          name,
        ).toEqual([]);
        const read = Object.keys(datasets).filter((dataset) => new RegExp(`\\b(FROM|JOIN) ${dataset}\\b`).test(text));
        const ofUsed = all.filter((other) => behind.includes(other.name)).flatMap((other) => other.needs);
        expect(
          [...read, ...ofUsed].filter((dataset) => !(needs as readonly string[]).includes(dataset)),
          name,
        ).toEqual([]);
      }
    }
    expect(selectViewDefinitions('SELECT 1 FROM candles_1h', true)).toEqual([]);
    const behindGaps = ['days', 'instant', 'utc_day', 'lifetimes', 'gaps'];
    expect(selectViewDefinitions('FROM GAPS', true, [], days).map(({ name }) => name)).toEqual(behindGaps);
  });
});
