import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { verify } from '../../src/archive/verify.ts';
import { sideOf } from '../../src/core/book.ts';
import { openIntent } from '../../src/state/intent.ts';
import { appendMarkets, journaledTicks } from '../../src/state/journal.ts';
import { appendBooks } from '../../src/state/journal-books.ts';
import { observeMarkets } from '../../src/state/symbols.ts';
import { dyingDisk, PowerCut } from './dying-disk.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  market,
  now,
  opened,
  publishedTicks,
  publishNow,
  scratchFolder,
} from './scratch.ts';

/** One interval of candles stands for both: every change to the disk is tried. */
const publishHourly = (archive: Archive, runId: string) => publishNow(archive, now, runId, { candles: ['1h'] });

const symbols = ['AAA', 'BBB', 'Ünï 🚀'];
const ticksOf = (symbol: string, from: number, p: number) =>
  Array.from({ length: 30 }, (_, i) => [from + i * 2 * hourMs + symbol.length, (p + i) / 100] as const);

/** An archive with a first generation, and a journal that changes both its days and adds one. */
async function prepared(): Promise<string> {
  const root = scratchFolder();
  const archive = opened({ root, parts: 2 });
  append(archive, ...symbols.map((symbol) => answer(symbol, ticksOf(symbol, day0, 10), { runId: 'first' })));
  await publishHourly(archive, 'first');
  const again = symbols.flatMap((symbol) => [
    answer(symbol, ticksOf(symbol, day0 + hourMs, 20), { runId: 'second', observedAt: now + 1 }),
    answer(symbol, ticksOf(symbol, day0, 11), { runId: 'second', observedAt: now + 2 }),
  ]);
  append(archive, ...again);
  const markets = symbols.map((symbol) => market(symbol));
  archive.state.db.transaction(() => {
    appendMarkets(archive.state, { runId: 'second', observedAt: now, markets }, [{ reason: 'no id', raw: '{}' }]);
    observeMarkets(archive.state.db, markets, now, true);
  });
  const book = { t: day0, bids: sideOf([{ price: 0.4, quantity: 1 }], 'highest'), asks: sideOf([], 'lowest') };
  const told = { runId: 'second', observedAt: day0, snapshots: [book], rejected: [], understood: true };
  appendBooks(archive.state, [{ symbol: 'AAA', ...told }]);
  archive.close();
  return root;
}

describe('a publish that dies at any change it makes to the disk', () => {
  test('is finished by the next one, to the same bytes and the same counts', { timeout: 60_000 }, async () => {
    const before = await prepared();
    const calm = scratchFolder();
    cpSync(before, calm, { recursive: true });
    const whole = dyingDisk(Number.POSITIVE_INFINITY);
    const undisturbed = opened({ root: calm, disk: whole });
    await publishHourly(undisturbed, 'second');
    const wanted = {
      files: hashes(calm, '{ticks,candles_1h,orderbooks,coverage,conflicts,markets,symbols}/**/*.parquet'),
      counts: undisturbed.state.db.all('select run_id, fetched, accepted, duplicates, conflicts, recovered from runs'),
      symbols: undisturbed.state.db.all('select symbol, ticks, first_tick, last_tick from symbols'),
      segments: undisturbed.state.db.all('select * from segments'),
      quarantine: readFileSync(join(calm, '.oddslake/quarantine/generation-000002.ndjson'), 'utf8'),
    };
    const changes = whole.made();
    expect(changes).toBeGreaterThan(30);
    let committed = 0;
    for (let n = 1; n < changes; n++) {
      const root = scratchFolder();
      cpSync(before, root, { recursive: true });
      const dying = opened({ root, disk: dyingDisk(n) });
      // The first change is of the opening.
      await expect(publishHourly(dying, 'second'), `change ${n}`).rejects.toThrow(PowerCut);
      dying.close();
      const archive = opened({ root, parts: 2 });
      const past = archive.state.generation() === 2;
      if (past) committed++;
      if (!past) expect(openIntent(archive.state.db), `change ${n}`).toBeUndefined();
      expect(journaledTicks(archive.state.db), `change ${n}`).toBe(past ? 0 : 180);
      await publishHourly(archive, 'second');
      expect(
        {
          files: hashes(root, '{ticks,candles_1h,orderbooks,coverage,conflicts,markets,symbols}/**/*.parquet'),
          counts: archive.state.db.all('select run_id, fetched, accepted, duplicates, conflicts, recovered from runs'),
          symbols: archive.state.db.all('select symbol, ticks, first_tick, last_tick from symbols'),
          segments: archive.state.db.all('select * from segments'),
          quarantine: readFileSync(join(root, '.oddslake/quarantine/generation-000002.ndjson'), 'utf8'),
        },
        `change ${n}`,
      ).toEqual(wanted);
      expect(archive.manifest().generation).toBe(2);
      expect((await verify(archive, null)).findings, `change ${n}`).toEqual([]);
      archive.close();
    }
    expect(committed).toBeGreaterThan(10);
    expect(committed).toBeLessThan(changes);
  });

  test('shows a glob each day of a symbol as it was or as it will be, wherever it died', {
    timeout: 60_000,
  }, async () => {
    const before = await prepared();
    const old = dayGroups(before);
    const calm = scratchFolder();
    cpSync(before, calm, { recursive: true });
    await publishHourly(opened({ root: calm }), 'second');
    const next = dayGroups(calm);
    let seenBoth = 0;
    for (let n = 1, died = true; died; n += 2) {
      const root = scratchFolder();
      cpSync(before, root, { recursive: true });
      const archive = opened({ root, disk: dyingDisk(n) });
      died = await publishHourly(archive, 'second').then(
        () => false,
        () => true,
      );
      const seen = dayGroups(root);
      for (const [name, list] of seen)
        expect([old.get(name), next.get(name)], `change ${n}, ${name}`).toContainEqual(list);
      expect([...old.keys()].filter((name) => !seen.has(name))).toEqual([]);
      if ([...seen].some(([name, list]) => `${list}` !== `${old.get(name)}`)) seenBoth++;
      archive.close();
    }
    expect(seenBoth).toBeGreaterThan(5);
  });
});

/** Published ticks by symbol and day. */
const dayGroups = (root: string): Map<string, string[]> =>
  Map.groupBy(publishedTicks(root), (line) => {
    const [t, ...name] = line.split(' ').slice(0, -1).reverse();
    return `${name.reverse().join(' ')} ${Math.floor(Number(t) / dayMs)}`;
  });
