import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { dayMs, expectDone, fixedNow, folder, manifestOf, sandbox, startLongRunning } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

interface Listed {
  readonly known: number;
  readonly count: number;
  readonly symbols: readonly { readonly symbol: string; readonly state: string; readonly category: string | null }[];
}

test('symbols matches all words in any case, and counts omitted rows', async () => {
  const output = folder();
  const box = await sandbox({ seed: 3, nowMs: fixedNow, markets: 20 });
  await expectDone(job('markets', box.url, output));
  const find = async (...words: string[]): Promise<Listed> => {
    const { stdout } = await expectDone(run(['symbols', ...words, '--json', '--output', output]));
    return JSON.parse(stdout) as Listed;
  };
  const all = await find();
  expect(all.count).toBe(all.known);
  expect(all.symbols).toHaveLength(all.known);
  expect(Object.keys(all.symbols[0]!).join(' ')).toBe(
    'symbol canonical_id source question category state is_active opens_at closes_at resolved_at outcome ' +
      'first_seen last_seen first_tick last_tick ticks suspended_at outcome_source event exclusive ' +
      'strike_low strike_high expected_end rules_sha256 fee_schedule tick_size',
  );
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

describe('the selection of symbols', () => {
  const input = { seed: 5, nowMs: null, markets: 8, ticksPerDay: 20 };
  interface Selected {
    readonly symbols: readonly {
      readonly symbol: string;
      readonly source: string | null;
      readonly state: string;
      readonly closes_at: number | null;
      readonly ticks: number;
      readonly watched_at?: number;
      readonly not_collected?: { readonly kind: string; readonly since: number | null; readonly reason: string | null };
    }[];
  }
  const open = async () => {
    const [box, output] = [await sandbox(input), folder()];
    const read = async <T>(...args: string[]): Promise<T> => {
      const { stdout } = await expectDone(run([...args, '--json', '--output', output]));
      return JSON.parse(stdout) as T;
    };
    const list = async () => (await read<Selected>('symbols')).symbols;
    const find = async (name: string) => (await list()).find(({ symbol }) => symbol === name)!;
    const nightly = (...flags: string[]) =>
      job('nightly', box.url, output, '--set', 'upstream.retry_attempts_max=1', ...flags);
    return { box, output, read, list, find, nightly, manifest: () => manifestOf(output) };
  };
  /** Symbols that stay active during the test. */
  const lasting = (symbols: Selected['symbols']) =>
    symbols.filter(({ state, closes_at }) => state === 'active' && closes_at! > Date.now() + dayMs);

  test('forget ends what is expected of a symbol, also after the state is lost, until watch', async () => {
    const { box, output, read, list, find, nightly, manifest } = await open();
    await expectDone(nightly());
    const victim = lasting(await list())[0]!.symbol;
    box.set({ faultSymbols: { [victim]: 500 } });
    expect((await nightly()).code).toBe(4);
    const days = manifest().days;

    const forgotten = await read<{ forgotten: object[] }>('symbols', 'forget', victim, '--reason', 'too thin');
    expect(forgotten.forgotten).toMatchObject([
      { symbol: victim, changed: true, reason: 'too thin', configured: false },
    ]);
    const twice = await run(['symbols', 'forget', victim, '--output', output]);
    expect([twice.code, twice.stdout]).toEqual([0, expect.stringMatching(/: forgotten since .* already; nothing has/)]);
    const unknown = await run(['symbols', 'forget', `${victim}X`, '--output', output]);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining(`(Did you mean ${victim}?)`)]);

    const wrong = async (name: string) => (await run(['symbols', 'forget', name, '--output', output])).stderr;
    const prefix = victim.slice(0, 5);
    const search = /archive\. To find similar symbols: .* (\S+)\n$/.exec(await wrong(`${prefix}-no-such-symbol`))![1]!;
    expect(search).toContain(prefix);
    expect((await run(['symbols', search, '--output', output])).stdout).toContain(search);
    expect(await wrong('\u202e<script>')).toContain(
      'archive. To list the known symbols: bin/oddslake symbols --output',
    );

    const expectForgotten = async () => {
      expect(await find(victim)).toMatchObject({ state: 'forgotten', not_collected: { reason: 'too thin' } });
      const status = await read<{ symbols: object; lag_ms: number; gaps: object }>('status');
      expect(status).toMatchObject({ symbols: { forgotten: 1 }, gaps: { windows: 0 } });
      expect(await read('gaps')).toMatchObject({ count: 0, not_collected: { forgotten: 1 } });
      expect((await run(['status', '--output', output])).stdout).toMatch(
        /^ {2}symbols .* live, 1 forgotten(, \d+ not polled)?$/m,
      );
      const night = await nightly();
      const service = await startLongRunning(['serve', '--output', output, '--json', '--set', 'service.port=0']);
      const { url } = JSON.parse(service.first) as { url: string };
      const metrics = await (await fetch(`${url}/metrics`)).text();
      service.child.kill('SIGTERM');
      await service.ended;
      for (const line of ['{kind="excluded"} 0', '{kind="forgotten"} 1'])
        expect(metrics).toContain(`\noddslake_symbols_not_collected${line}\n`);
      expect(night.code, JSON.stringify(night.summary.failures)).toBe(0);
      expect(night.summary.symbols).toMatchObject({ failed: 0, forgotten: 1 });
    };
    await expectForgotten();
    rmSync(join(output, '.oddslake'), { recursive: true });
    await expectForgotten();
    for (const [date, day] of Object.entries(days))
      if (day.state === 'complete') expect(manifest().days[date]).toMatchObject({ state: 'complete' });

    // Named, it is fetched.
    box.set({ faultSymbols: {} });
    const day = new Date().toISOString().slice(0, 10);
    const fetched = await job('backfill', box.url, output, '--from', day, '--to', 'now', '--symbol', victim);
    expect(fetched.summary, fetched.stderr).toMatchObject({ exit_code: 0, symbols: { done: 1 } });
    const others = await job('backfill', box.url, output, '--from', day, '--to', 'now', '--dry-run', '--force');
    expect(others.stdout).not.toContain(victim);

    const watched = await read<{ watched: object[] }>('symbols', 'watch', victim);
    expect(watched.watched).toMatchObject([{ symbol: victim, changed: true, outcome: 'resumed' }]);
    expect((await run(['symbols', 'watch', victim, '--output', output])).stdout).toMatch(/watched since .* already/);
    const after = await nightly();
    expect([after.code, after.summary.symbols.forgotten]).toEqual([0, undefined]);
    expect(await find(victim)).toMatchObject({ state: 'active', watched_at: expect.any(Number) });
    expect((await read<{ count: number }>('gaps')).count).toBe(0);
  });

  test('a selector that matches no symbol is a warning, with the value that is meant', async () => {
    const { box, output, read, list, nightly } = await open();
    const wrong = ['--set', 'source.exclude=category:zzz*,venue:polymarkt'];
    // Without symbols there is nothing to compare with.
    const empty = await run(['config', 'check', ...wrong, '--output', output]);
    expect([empty.code, empty.stdout]).toEqual([0, expect.stringMatching(/^✓ [^\n]*: no problems\n$/)]);
    expect((await nightly()).summary).toMatchObject({ exit_code: 0, warnings: [] });
    const sentences = [
      'source.exclude: category:zzz* matches no known symbol.',
      'source.exclude: venue:polymarkt matches no known symbol. (Did you mean venue:polymarket?)',
    ];
    const checked = await read<{ valid: boolean; warnings: string[]; exit_code: number }>('config', 'check', ...wrong);
    expect(checked).toMatchObject({ valid: true, warnings: sentences, exit_code: 0 });
    const text = await run(['config', 'check', ...wrong, '--output', output]);
    expect(text.stdout).toBe(`! ${sentences[0]}\n! ${sentences[1]}\n✓ the environment and the flags: no problems\n`);

    const before = await list();
    const plan = JSON.parse((await nightly('--dry-run', ...wrong)).stdout.split('\n')[0]!) as {
      plan: { warnings: string[] };
    };
    expect(plan.plan.warnings).toEqual(sentences);
    const night = await nightly(...wrong);
    expect(night.summary).toMatchObject({ exit_code: 0, warnings: sentences });
    expect((await list()).map(({ state }) => state)).toEqual(before.map(({ state }) => state));

    const upstream = ['--set', `upstream.base_url=${box.url}`, '--set', 'upstream.api_key=sandbox-key'];
    const doctor = async (...flags: string[]) => {
      const { stdout } = await run(['doctor', '--offline', '--json', '--output', output, ...upstream, ...flags]);
      const { findings } = JSON.parse(stdout) as { findings: { check: string; severity: string; message: string }[] };
      return findings.filter(({ check }) => check === 'selection').map(({ severity, message }) => [severity, message]);
    };
    expect(await doctor(...wrong)).toEqual([
      ['warning', 'source.exclude: category:zzz* matches no known symbol'],
      ['warning', 'source.exclude: venue:polymarkt matches no known symbol (Did you mean venue:polymarket?)'],
    ]);
    expect(await doctor('--set', 'source.exclude=venue:polymarket')).toEqual([['ok', '1 selector']]);
    expect(await doctor()).toEqual([]);
  });

  test('include and exclude choose from the market lists, and watch adds to them', async () => {
    const { box, output, read, list, find, nightly, manifest } = await open();
    const bad = await nightly('--set', 'source.exclude=venu:kalshi');
    expect([bad.code, bad.stderr]).toEqual([
      2,
      expect.stringMatching(/a selector FIELD:PATTERN .*mean venue:kalshi\?/),
    ]);

    const exclude = ['--set', 'source.exclude=venue:polymarket'];
    const first = await expectDone(nightly(...exclude));
    const excluded = (await list()).filter(({ state }) => state === 'excluded');
    expect(excluded.length).toBeGreaterThan(0);
    for (const one of excluded) expect(one).toMatchObject({ source: 'polymarket', ticks: 0 });
    expect(first.summary.symbols).toMatchObject({ failed: 0, excluded: excluded.length });
    // A new archive has no other selection before, and the log has the number of the summary.
    expect(first.stderr).not.toContain('the selection of symbols has changed');
    expect(first.stderr).toMatch(new RegExp(`"excluded":${excluded.length},.*leave out new symbols`));
    expect((await list()).filter(({ state }) => state === 'active').map(({ source }) => source)).not.toContain(
      'polymarket',
    );
    // The lists are stored whole, and nothing is missing.
    expect((await read<{ count: number }>('gaps')).count).toBe(0);
    expect(manifest().selection!.not_collected).toMatchObject([{ kind: 'excluded', from: null, to: null }]);

    // Changed settings are foreseen by a dry run, and noticed by the next poll of the lists.
    const plan = async (...flags: string[]) =>
      JSON.parse((await nightly('--dry-run', ...flags)).stdout.split('\n')[0]!) as { plan: { symbols: number } };
    const [wide, narrow] = [await plan(...exclude), await plan(...exclude, '--set', 'source.include=category:crypto')];
    expect(narrow.plan.symbols).toBeLessThan(wide.plan.symbols);
    const added = lasting((await list()).map((one) => ({ ...one, state: 'active' }))).find(({ symbol }) =>
      excluded.some((one) => one.symbol === symbol),
    )!.symbol;
    const unknown = await run(['symbols', 'watch', added, `${added}X`, '--output', output]);
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining(`${added}X is not known`)]);
    expect(unknown.stderr).toContain(`(Did you mean ${added}?)`);
    expect(await find(added)).toMatchObject({ state: 'excluded' });
    // A symbol that has ticks is known, although no list names it.
    const file = join(folder(), 'a.csv');
    writeFileSync(file, 'symbol,t,p\nNOBODY-LISTS,1783771200000,0.5\n');
    await expectDone(run(['import', file, '--covers', '2026-07-11..2026-07-12', '--output', output]));
    const watched = await run(['symbols', 'watch', added, 'NOBODY-LISTS', '--output', output]);
    expect(watched.stdout).toMatch(/: watched\n {2}the next run polls it again\n {2}nothing is expected before /);
    expect(watched.stdout).toMatch(
      /NOBODY-LISTS: watched\n {2}the next run polls it, although no market list names it\n/,
    );
    const before = box.stats().requests;
    const second = await nightly(...exclude);
    // The service does not know the unlisted one.
    expect(second.summary, second.stderr).toMatchObject({ exit_code: 4, symbols: { failed: 1 } });
    expect([...new Set(second.summary.failures.map(({ symbol }) => symbol))]).toEqual(['NOBODY-LISTS']);
    expect(box.stats().requests).toBeGreaterThan(before);
    expect(await find(added)).toMatchObject({ state: 'active' });
    expect(second.summary.symbols.excluded).toBe(excluded.length - 1);

    expect((await run(['symbols', 'forget', 'NOBODY-LISTS', '--output', output])).stdout).toMatch(
      /nothing is expected/,
    );
    // The run that includes them again polls them, and a dry run foresees it.
    const foreseen = await plan();
    const stillExcluded = await plan(...exclude);
    // Markets that have closed lately are polled, too, and do not count as excluded.
    expect(foreseen.plan.symbols - stillExcluded.plan.symbols).toBeGreaterThanOrEqual(excluded.length - 1);
    const third = await expectDone(nightly());
    expect(third.summary.symbols.planned).toBe(foreseen.plan.symbols);
    expect(third.stderr).toMatch(
      new RegExp(`excluded: 0, included: ${excluded.length - 1}|"included":${excluded.length - 1}`),
    );
    expect(third.summary.symbols).toMatchObject({ failed: 0, forgotten: 1 });
    expect((await list()).map(({ state }) => state)).not.toContain('excluded');
    expect((await read<{ count: number }>('gaps')).count).toBe(0);
  });
});
