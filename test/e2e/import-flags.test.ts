import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parsePriceScale, type TickRowRules } from '../../src/collector/import/import-rows.ts';
import { defaultRowRules } from '../collector/import/row-rules.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import { day0, importInto, pageOf, put, sample, type Tick, writeParquet } from './import-lake.ts';
import { addsUp, dayMs, expectDone, folder, hashes, ticksOf } from './lake.ts';
import { run } from './run-program.ts';

const rowsOf = (ticks: readonly Tick[], t: (ms: number) => string): string =>
  `symbol,t,p\n${ticks.map((tick) => `"${tick.symbol.replaceAll('"', '""')}",${t(tick.t)},${tick.p}\n`).join('')}`;
const withMicroseconds = (ms: number): string => new Date(ms).toISOString().replace('Z', '789Z');
const strict = { rejectedShareMax: null };
const rules = (more: Partial<TickRowRules>): TickRowRules => ({ ...defaultRowRules, ...more });

describe('an import', () => {
  test('of a mostly rejected file publishes nothing of any file, and names the flag that helps', async () => {
    const files = folder();
    const good = put(files, 'good.csv', rowsOf(sample.slice(0, 300), String));
    const bad = put(files, 'bad.csv', rowsOf(sample.slice(300), withMicroseconds));
    const output = folder();
    const summary = await importInto(output, [good, bad], { ...strict, covers: { from: day0, to: day0 + dayMs } });
    expect(summary).toMatchObject({ exit_code: 4, outcome: 'incomplete', generation: 0, published: { files: 0 } });
    expect(summary.ticks).toEqual({ fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 });
    expect(summary.failures).toEqual([
      {
        symbol: null,
        from: null,
        to: null,
        reason: expect.stringContaining(`${bad}: 600 of 600 rows rejected`),
      },
    ]);
    expect(summary.failures[0]!.reason).toMatch(/600 × t is finer than a millisecond.*Use --truncate-time\./);
    expect(globSync('{ticks,coverage,symbols}/**/*.parquet', { cwd: output })).toEqual([]);
    expect(existsSync(join(output, '.oddslake/quarantine'))).toBe(false);
    const published = await run(['publish', '--output', output, '--json']);
    expect(JSON.parse(published.stdout)).toMatchObject({ generation: 0, recovered: 0 });

    const helped = await importInto(output, [good, bad], { ...strict, rows: rules({ truncates: true }) });
    expect(helped).toMatchObject({ exit_code: 0, ticks: { fetched: 900, accepted: 900 } });
    const plain = folder();
    await importInto(plain, [put(files, 'all.csv', rowsOf(sample, String))]);
    expect(hashes(output, 'ticks')).toEqual(hashes(plain, 'ticks'));
  });

  test('accepts a file with some rejected rows, up to the allowed share', async () => {
    const rows = (bad: number): string => rowsOf(sample.slice(0, 200 - bad), String) + 'A,never,0.5\n'.repeat(bad);
    const taken = async (bad: number, ...set: string[]) =>
      importInto(folder(), [put(folder(), 'a.csv', rows(bad))], strict, ['source.name=box', ...set]);
    expect(await taken(2)).toMatchObject({ exit_code: 0, ticks: { accepted: 198, quarantined: 2 } });
    expect(await taken(3)).toMatchObject({ exit_code: 4, ticks: { fetched: 0 } });
    expect(await taken(3, 'import.rejected_share_max=0.02')).toMatchObject({ exit_code: 0, ticks: { quarantined: 3 } });
    const allowed = { rejectedShareMax: 0.5 };
    const path = put(folder(), 'a.csv', rows(100));
    expect(await importInto(folder(), [path], allowed)).toMatchObject({ exit_code: 0, ticks: { accepted: 100 } });
  });

  test('of mostly rejected market rows publishes nothing either', async () => {
    const rows = Array.from({ length: 10 }, (_, i) =>
      JSON.stringify(i < 5 ? { symbol: `m${i}`, question: 'q' } : { question: 'q' }),
    );
    const output = folder();
    const summary = await importInto(output, [put(folder(), 'm.ndjson', `${rows.join('\n')}\n`)], strict);
    expect(summary).toMatchObject({ exit_code: 4, generation: 0 });
    expect(summary.failures[0]!.reason).toMatch(/5 × canonical_id is not a string/);
    const known = await run(['symbols', '--output', output, '--json']);
    expect(JSON.parse(known.stdout)).toMatchObject({ count: 0 });
  });

  test('prints the unit of numeric times, and reads it in every format', async () => {
    const files = folder();
    const expected = folder();
    await importInto(expected, [put(files, 'ms.csv', rowsOf(sample, String))]);
    const factor = { s: '/ 1000.0::DOUBLE', us: '* 1000::BIGINT', ns: '* 1000000::BIGINT' };
    const digits = {
      s: (ms: number) => `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}`,
      us: (ms: number) => `${ms}000`,
      ns: (ms: number) => `${ms}000000`,
    };
    for (const unit of ['s', 'us', 'ns'] as const) {
      const values = sample.map(({ symbol, t, p }) => `('${symbol}', ${t}::BIGINT ${factor[unit]}, '${p}'::DOUBLE)`);
      const paths = [
        put(files, `${unit}.csv`, rowsOf(sample, digits[unit])),
        put(
          files,
          `${unit}.ndjson`,
          sample.map((x) => `{"symbol":${JSON.stringify(x.symbol)},"t":${digits[unit](x.t)},"p":${x.p}}\n`).join(''),
        ),
        await writeParquet(
          join(files, `${unit}.parquet`),
          `SELECT * FROM (VALUES ${values.join(', ')}) v(symbol, t, p)`,
        ),
      ];
      for (const path of paths) {
        const refused = await importInto(folder(), [path], strict);
        expect(refused.exit_code, path).toBe(4);
        if (!path.includes('s.csv') || unit !== 's')
          expect(refused.failures[0]!.reason, path).toMatch(new RegExp(`--time-unit ${unit}`));
        const output = folder();
        const summary = await importInto(output, [path], { ...strict, rows: rules({ unit }) });
        expect(summary, path).toMatchObject({ exit_code: 0, ticks: { accepted: 900 } });
        expect(hashes(output, 'ticks'), path).toEqual(hashes(expected, 'ticks'));
      }
    }
  });

  test('reads columns with other names, and prices in cents', async () => {
    const files = folder();
    const ticks = Array.from({ length: 99 }, (_, i) => ({ t: day0 + i, cents: i + 1 }));
    const expected = ticks.map(({ t, cents }) => ({ t, p: Number(`0.${String(cents).padStart(2, '0')}`) }));
    const values = ticks.map(({ t, cents }) => `('A', 7, ${t}::BIGINT, ${cents})`).join(', ');
    const paths = [
      put(files, 'a.csv', `ticker,t,ts,cents\n${ticks.map(({ t, cents }) => `A,7,${t},${cents}\n`).join('')}`),
      put(
        files,
        'a.ndjson',
        ticks.map(({ t, cents }) => `${JSON.stringify({ ticker: 'A', t: 7, ts: t, cents })}\n`).join(''),
      ),
      await writeParquet(join(files, 'a.parquet'), `SELECT * FROM (VALUES ${values}) v(ticker, t, ts, cents)`),
    ];
    const renames = [
      ['t', 'ts'],
      ['symbol', 'ticker'],
      ['p', 'cents'],
    ] as const;
    for (const path of paths) {
      const output = folder();
      const flags = { ...strict, renames, rows: rules({ priceScale: parsePriceScale('0.01')! }) };
      expect(await importInto(output, [path], flags), path).toMatchObject({ exit_code: 0, ticks: { accepted: 99 } });
      expect(ticksOf(output).get('A'), path).toEqual(expected);
      const lacking = importInto(folder(), [path], { renames: [['t', 'when']] });
      await expect(lacking).rejects.toThrow(/missing column when named by --columns \(found: ticker, t, ts, cents\)/);
    }
  });

  test('prints in a dry run what it would accept and reject, and imports nothing', async () => {
    const files = folder();
    const good = put(files, 'good.csv', rowsOf(sample, String));
    const bad = put(files, 'bad.csv', rowsOf(sample.slice(0, 10), withMicroseconds));
    const page = put(files, 'page.json', pageOf('A', [{ symbol: 'A', t: day0, p: 0.5 }]));
    const output = folder();
    // Where there is no archive yet, a dry run creates none.
    const absent = join(files, 'absent');
    const tried = await run(['import', good, '--output', absent, '--set', 'source.name=box', '--dry-run']);
    expect([tried.code, tried.stdout]).toEqual([0, expect.stringContaining(`${good}: 900 rows, 0 rejected\n`)]);
    expect(existsSync(absent)).toBe(false);
    await importInto(output, [good]);
    const before = hashes(output, 'ticks', 'coverage', 'symbols');
    const args = ['import', good, bad, page, '--output', output, '--set', 'source.name=box', '--dry-run'];
    const shown = await run(args);
    // As the import itself: a script that tries first must not go on.
    expect(shown.code, shown.stderr).toBe(4);
    await expectDone(run([...args.filter((path) => path !== bad)]));
    expect(shown.stdout).toContain(`${good}: 900 rows, 0 rejected\n`);
    expect(shown.stdout).toContain(`${bad}: 10 rows, 10 rejected (100.0 %): too many, nothing would be imported\n`);
    expect(shown.stdout).toContain(`${page}: 1 row, 0 rejected\n`);
    expect(shown.stdout).toContain('  add --truncate-time\n');
    const json = await run([...args, '--json']);
    expect(JSON.parse(json.stdout.split('\n')[0]!)).toMatchObject({
      files_count: 3,
      files: [
        { path: good, rows: 900, is_over_share: false },
        { path: bad, flags: ['--truncate-time'] },
        { path: page },
      ],
    });
    expect(hashes(output, 'ticks', 'coverage', 'symbols')).toEqual(before);
    await expectDone(run([...args.slice(0, -1), '--truncate-time', '--allow-rejected', '0']));
    expect(ticksOf(output).get('A')).toHaveLength(1);
  });

  test('rejects flags that contradict each other', async () => {
    const path = put(folder(), 'a.csv', rowsOf(sample, String));
    for (const [flag, value] of [
      ['--allow-rejected', '2'],
      ['--allow-rejected', ''],
      ['--price-scale', '0'],
      ['--columns', 't'],
      ['--columns', 't=a,t=b'],
      ['--time-unit', 'm'],
    ] as const) {
      const { code, stderr } = await run(['import', path, '--output', folder(), flag, value]);
      expect(code, flag).toBe(2);
      expect(stderr).toContain(flag);
    }
  });
});

test('the quarantine keeps a limited number of bytes per file and per run, and counts the rest', async () => {
  const files = folder();
  const rejected = `symbol,t,p\n${`A,${'never '.repeat(100)},0.5\n`.repeat(8000)}`;
  const paths = [0, 1, 2, 3, 4].map((i) => put(files, `${i}.csv`, rejected));
  const keptOf = async (count: number) => {
    const output = folder();
    const summary = await importInto(output, paths.slice(0, count), {}, ['source.name=box']);
    expect(summary.ticks).toMatchObject({ fetched: 8000 * count, quarantined: 8000 * count });
    expect(addsUp(summary)).toBe(true);
    const kept = quarantineLines(output).length;
    expect(summary.warnings.at(-1)).toContain(`${8000 * count - kept} of them were only counted`);
    return kept;
  };
  // 4 MiB of each file, and 16 MiB of each run.
  const ofFile = await keptOf(1);
  expect(ofFile).toBeGreaterThan(5000);
  expect(ofFile).toBeLessThan(8000);
  expect(await keptOf(5)).toBeLessThan(5 * ofFile);
});
