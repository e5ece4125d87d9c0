import { expect, test } from 'vitest';
import { jobHere as job, runHere as run } from './here.ts';
import { fixedNow, folder, sandbox } from './lake.ts';

interface Listed {
  readonly known: number;
  readonly count: number;
  readonly symbols: readonly { readonly symbol: string; readonly state: string; readonly category: string | null }[];
}

test('symbols matches all words in any case, and counts omitted rows', async () => {
  const output = folder();
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 20 });
  expect((await job('markets', box.url, output)).code).toBe(0);
  const find = async (...words: string[]): Promise<Listed> => {
    const { code, stdout, stderr } = await run(['symbols', ...words, '--json', '--output', output]);
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout) as Listed;
  };
  const all = await find();
  expect(all.count).toBe(all.known);
  expect(all.symbols).toHaveLength(all.known);
  expect(Object.keys(all.symbols[0]!)).toEqual([
    'symbol',
    'canonical_id',
    'source',
    'question',
    'category',
    'state',
    'is_active',
    'opens_at',
    'closes_at',
    'resolved_at',
    'outcome',
    'first_seen',
    'last_seen',
    'first_tick',
    'last_tick',
    'ticks',
    'suspended_at',
    'outcome_source',
    'event',
    'exclusive',
    'strike_low',
    'strike_high',
    'expected_end',
    'rules_sha256',
    'fee_schedule',
    'tick_size',
  ]);
  const { symbol, category } = all.symbols[0]!;
  const [head, tail] = [symbol.slice(0, 4).toUpperCase(), symbol.slice(-3).toLowerCase()];
  const found = await find(tail, head, category!.toUpperCase());
  expect(found.symbols.map((one) => one.symbol)).toContain(symbol);
  expect(found.count).toBeLessThan(all.count);
  for (const one of found.symbols) expect(one.symbol.toLowerCase()).toContain(tail);
  // Several words in one argument give the same result.
  expect((await find(`${tail} ${head}  ${category}`)).symbols).toEqual(found.symbols);
  expect(await find('no such symbol')).toMatchObject({ count: 0, symbols: [] });

  const cut = await run(['symbols', '--rows', '3', '--output', output]);
  const lines = cut.stdout.trimEnd().split('\n');
  expect(lines).toHaveLength(2 + 3 + 1);
  expect(lines[2]).toContain(all.symbols[0]!.symbol);
  expect(lines.at(-1)).toBe(`… and ${all.known - 3} more (${all.known} symbols; to show all: --rows ${all.known})`);
  const whole = await run(['symbols', '--rows', String(all.known), '--output', output]);
  expect(whole.stdout.trimEnd().split('\n').at(-1)).toBe(`${all.known} symbols`);
  expect((await run(['symbols', 'no such symbol', '--output', output])).stdout).toMatch(/^no symbol matches "no such/);
});

test.each([
  ['--rows of none', ['symbols', '--rows', '0'], /--rows/],
  ['a missing archive', ['symbols', '--output', '/nonexistent/x'], /no archive/],
  ['changes without a generation', ['changes'], /--since/],
  ['changes since what is no generation', ['changes', '--since', '-1'], /--since/],
])('%s is bad usage', async (_, args, sentence) => {
  const ended = await run(args);
  expect(ended.code).toBe(2);
  expect(ended.stderr).toMatch(sentence);
});
