import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { formatNumber } from '../../../src/base/format-quantity.ts';
import { quoteShellWord } from '../../../src/base/shell-quote.ts';
import { dayMs, hourMs } from '../../../src/base/window.ts';
import { parsePriceScale } from '../../../src/collector/import/import-rows.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { importInto } from '../../e2e/import-lake.ts';
import { ticksOf } from '../../e2e/lake.ts';
import { quarantineLines } from '../../harness/quarantine.ts';
import { defaultRowRules } from '../import/row-rules.ts';
import { contextOf, scriptedLake } from './one-process.ts';
import type { Tick } from './scripted-service.ts';

// A service that begins to send prices in another unit, or those of another outcome.

const start = Date.UTC(2025, 5, 3, 3, 17);
const symbols = ['A', 'B', 'C'];
const always = ['source.first_lookback_days=1', 'archive.parts=1', 'archive.candles=[]'];

async function startLake(names: readonly string[] = symbols) {
  const lake = await scriptedLake(start, names, always);
  const { box, output } = lake;
  return {
    ...lake,
    /** The night `n`, whose prices are converted. */
    async night(
      n: number,
      convert: (p: number, i: number) => number = (p) => p,
      set: readonly string[] = [],
    ): Promise<Summary> {
      box.nowMs = start + n * dayMs;
      box.script = {
        ticks: (honest) => ({ ...honest, ticks: honest.ticks.map(({ t, p }, i) => ({ t, p: convert(p, i) })) }),
      };
      return nightly.run(await contextOf(output, box.url, () => box.nowMs, [...always, ...set]), { day: null });
    },
    /** Published ticks whose price the honest service does not have. */
    countWrong(): number {
      let wrong = 0;
      for (const [symbol, ticks] of ticksOf(output)) {
        const truth = new Map(box.truth(symbol, 0, box.nowMs).map(({ t, p }) => [t, p]));
        wrong += ticks.filter(({ t, p }) => truth.get(t) !== p).length;
      }
      return wrong;
    },
    countTicks: (): number => [...ticksOf(output).values()].reduce((sum, { length }) => sum + length, 0),
  };
}

const findPrices = ({ findings }: Summary) => findings.filter(({ kind }) => kind === 'prices');
const setOf = (summary: Summary): string =>
  findPrices(summary)[0]!.command!.replace('oddslake nightly --set ', '').replaceAll("'", '');

test.each<[string, (p: number) => number, string, string]>([
  ['cents', (p) => p * 100, '100 × those already held', 'p/100'],
  ['hundredths of cents', (p) => p * 10_000, '10,000 × those already held', 'p/10000'],
  ['hundreds', (p) => p / 100, '1/100 of those already held', 'p*100'],
  ['a constant factor', (p) => p * 1.25, '1.25 × those already held', 'p/1.25'],
  ['the other outcome', (p) => 1 - p, '1 less those already held, as those of another outcome', '1-p'],
])(
  'prices in %s are quarantined, and those of the mended service are taken in again',
  async (_, convert, law, formula) => {
    const lake = await startLake();
    expect(await lake.night(0)).toMatchObject({ exit_code: 0 });
    const before = lake.countTicks();
    const changed = await lake.night(1, convert);
    expect(changed).toMatchObject({ exit_code: 4, ticks: { accepted: 0, conflicts: 0 }, outcome: 'incomplete' });
    expect(changed.verdict).toMatchObject({ state: 'action_required' });
    expect(findPrices(changed)).toEqual([
      expect.objectContaining({
        message: `prices of 3 symbols are ${law}: ${formatNumber(changed.ticks.quarantined)} ticks quarantined (A, B, C)`,
        command: `oddslake nightly --set ${quoteShellWord(`source.price=${formula}`)}`,
      }),
    ]);
    const { fetched, duplicates, quarantined } = changed.ticks;
    expect(fetched).toBe(duplicates + quarantined);
    expect(quarantineLines(lake.output).filter((line) => line.includes(law))).toHaveLength(quarantined);
    expect([lake.countWrong(), lake.countTicks()]).toEqual([0, before]);
    expect(changed.completeness!.gaps.failed).toBeGreaterThan(0);
    // It stays so, with the same words.
    expect(findPrices(await lake.night(2, convert))[0]!.message).toContain(law);
    const mended = await lake.night(3);
    expect(mended, JSON.stringify(mended.failures)).toMatchObject({
      exit_code: 0,
      findings: expect.not.arrayContaining([expect.objectContaining({ kind: 'prices' })]),
    });
    expect(lake.countWrong()).toBe(0);
    expect(lake.countTicks()).toBe(before + countTruth(lake, 0, 3));
  },
);

/** Ticks that the honest service has got between two nights. */
const countTruth = ({ box }: Awaited<ReturnType<typeof startLake>>, from: number, to: number): number =>
  symbols.reduce((sum, symbol) => sum + box.truth(symbol, start + from * dayMs, start + to * dayMs).length, 0);

test.each<[string, (p: number) => number]>([
  ['cents', (p) => Math.round(p * 10_000) / 100],
  ['the other outcome', (p) => Math.round((1 - p) * 100) / 100],
])('the printed command takes prices in %s in, in the unit of the archive', async (_, convert) => {
  const lake = await startLake();
  await lake.night(0);
  const before = lake.countTicks();
  const set = setOf(await lake.night(1, convert));
  const taken = await lake.night(2, convert, [set]);
  expect(taken, JSON.stringify(taken.failures)).toMatchObject({
    exit_code: 0,
    ticks: { quarantined: 0, conflicts: 0 },
  });
  expect([lake.countWrong(), lake.countTicks()]).toEqual([0, before + countTruth(lake, 0, 2)]);
  // Without the setting, and with it once the service is mended, the prices are in another unit again.
  expect(findPrices(await lake.night(3, convert))).toHaveLength(1);
  expect(findPrices(await lake.night(4, (p) => p, [set]))).toHaveLength(1);
  expect(lake.countWrong()).toBe(0);
});

test('prices are taken as they are if the settings say so', async () => {
  const lake = await startLake();
  await lake.night(0);
  const taken = await lake.night(1, (p) => p * 100, ['source.price=p']);
  expect(taken).toMatchObject({ exit_code: 0, ticks: { quarantined: 0 } });
  expect(taken.ticks.accepted).toBeGreaterThan(100);
});

test('thin symbols are judged together: one conflict each shows the law', async () => {
  const names = ['T0', 'T1', 'T2', 'T3', 'T4', 'T5', 'QUIET'];
  const lake = await startLake(names);
  const { box } = lake;
  /** One price a day at noon, and `QUIET` has its first one in the second night. */
  box.truth = (symbol, from, to): Tick[] => {
    const p = 0.11 + 0.07 * names.indexOf(symbol);
    const first = symbol === 'QUIET' ? start + 2 * hourMs : start - 15 * hourMs;
    const times = Array.from({ length: 5 }, (_, i) => first + i * dayMs);
    return times.filter((t) => from <= t && t < Math.min(to, box.nowMs)).map((t) => ({ t, p }));
  };
  const before = (await lake.night(0)).ticks.accepted;
  expect(before).toBe(6);
  const changed = await lake.night(1, (p) => p * 100, ['poll.overlap_minutes=1440']);
  expect(findPrices(changed)[0]!.message).toContain('prices of 7 symbols are 100 × those already held');
  expect([lake.countWrong(), lake.countTicks()]).toEqual([0, before]);
  expect(await lake.night(2)).toMatchObject({ exit_code: 0 });
  expect([lake.countWrong(), lake.countTicks()]).toEqual([0, 3 * 6 + 2]);
});

test('honest revisions, and prices outside of 0 to 1 beside known ones, show no law', async () => {
  const lake = await startLake();
  await lake.night(0);
  const revised = await lake.night(1, (p, i) => (i < 7 ? ((p * 97 + i * i) % 89) / 89 : p));
  expect(findPrices(revised)).toEqual([]);
  expect(revised.ticks.conflicts).toBeGreaterThanOrEqual(5);
  expect(revised.ticks.quarantined).toBe(0);
  const above = await lake.night(2, (p, i) => (i % 50 === 49 ? 1.02 : p));
  expect(findPrices(above)).toEqual([]);
  expect(above.ticks.quarantined).toBe(0);
});

test('the first prices outside of 0 to 1 that agree with none are quarantined, whatever their ratio', async () => {
  const lake = await startLake();
  await lake.night(0);
  const before = lake.countTicks();
  // Rounded, so that no ratio is constant.
  const changed = await lake.night(1, (p, i) => Math.round(p * 30) + 2 + (i % 3));
  expect(findPrices(changed)[0]!.message).toContain('are outside of 0 to 1, where all already held are inside');
  expect(setOf(changed)).toBe('source.price=p');
  expect([lake.countWrong(), lake.countTicks()]).toEqual([0, before]);
});

test('a service with prices in cents from the first night on is as usual', async () => {
  const lake = await startLake();
  for (const n of [0, 1, 2]) {
    const summary = await lake.night(n, (p) => p * 100);
    expect(summary, JSON.stringify(summary.failures)).toMatchObject({ exit_code: 0, ticks: { quarantined: 0 } });
  }
});

test('what a run journals after a publish found the law is quarantined too', async () => {
  const lake = await startLake();
  await lake.night(0);
  const before = lake.countTicks();
  const changed = await lake.night(1, (p) => p * 100, ['publish.journal_ticks_max=100', 'upstream.concurrency=1']);
  expect(changed.exit_code).toBe(4);
  expect([lake.countWrong(), lake.countTicks()]).toEqual([0, before]);
});

test('rows and saved responses of another unit are not imported, and the printed flag takes them in', async () => {
  const lake = await startLake();
  const { box, output } = lake;
  await lake.night(0);
  const before = lake.countTicks();
  const rows = symbols.flatMap((symbol) =>
    box.truth(symbol, start - 5 * dayMs, start).map((tick) => ({ symbol, ...tick })),
  );
  const file = join(scratchFolder(), 'rows.csv');
  writeFileSync(file, ['symbol,t,p', ...rows.map(({ symbol, t, p }) => `${symbol},${t},${p / 10}`)].join('\n'));
  const refused = await importInto(output, [file]);
  expect(refused).toMatchObject({ exit_code: 4, ticks: { accepted: 0 }, published: { added: 0 } });
  expect(findPrices(refused)).toMatchObject([
    {
      message: expect.stringMatching(/^prices of 3 symbols are 1\/10 of those already held: [\d,]+ ticks not imported/),
    },
  ]);
  expect(findPrices(refused)[0]!.command).toMatch(/ --price-scale 10$/);
  expect(lake.countTicks()).toBe(before);
  const taken = await importInto(output, [file], { rows: { ...defaultRowRules, priceScale: parsePriceScale('10')! } });
  expect(taken).toMatchObject({ exit_code: 0 });
  expect(taken.ticks.accepted).toBeGreaterThan(1000);
  for (const [symbol, ticks] of ticksOf(output)) {
    const truth = new Map(box.truth(symbol, 0, box.nowMs).map(({ t, p }) => [t, p]));
    for (const { t, p } of ticks) expect(p).toBeCloseTo(truth.get(t)!, 12);
  }
});

test('saved responses are read with the formula that was in force, into another archive too', async () => {
  const lake = await startLake();
  await lake.night(0);
  await lake.night(1, (p) => Math.round(p * 10_000) / 100, ['source.price=p/100']);
  const raw = join(lake.output, '.oddslake/raw');
  const output = scratchFolder();
  expect(await importInto(output, [raw])).toMatchObject({ exit_code: 0, ticks: { conflicts: 0 } });
  expect(ticksOf(output)).toEqual(ticksOf(lake.output));
});

test('a feed without a tick for far longer than ever is a finding, until it has one', async () => {
  const lake = await startLake();
  const { box } = lake;
  const truth = box.truth;
  await lake.night(0);
  // The last tick of all symbols is of 14:05.
  const frozenAt = start + 10.8 * hourMs;
  box.truth = (symbol, from, to) => truth(symbol, from, Math.min(to, frozenAt));
  const frozen = await lake.night(1);
  const found = frozen.findings.filter(({ kind }) => kind === 'frozen feed');
  expect(found).toEqual([
    expect.objectContaining({
      severity: 'warning',
      message: expect.stringMatching(
        /^the feed seems frozen since 2025-06-03 14:0\d UTC: no symbol has had a tick for 13 h/,
      ),
    }),
  ]);
  box.truth = truth;
  const flowing = await lake.night(2);
  expect(flowing.findings.filter(({ kind }) => kind === 'frozen feed')).toEqual([]);
});
