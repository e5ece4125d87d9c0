import { expect, test } from 'vitest';
import { ensureSymbols, recordMarkets, recordRecognition } from '../../../src/archive/journal/symbol-store.ts';
import { listSymbols } from '../../../src/archive/read/list-symbols.ts';
import { formatSymbols } from '../../../src/cli/format-lists.ts';
import { plainStyle } from '../../../src/cli/terminal-style.ts';
import { answer, append, day0, dayMs, market, now, opened, publishNow } from '../scratch.ts';

async function archiveOfAll() {
  const archive = opened();
  const { db } = archive.state;
  const facts = [
    market('Z-live', { question: 'Will it rain in São Paulo?', category: 'weather' }),
    market('A-closed', { isActive: false }),
    market('B-resolved', { isActive: false, resolvedAt: now - dayMs, outcome: 1 }),
    market('C-settled', { isActive: false, outcome: 0 }),
    market('D-to-come', { resolvedAt: now + dayMs }),
    market('E-unknown'),
  ];
  recordMarkets(db, facts, now, true);
  ensureSymbols(db, ['F-by-hand'], now);
  recordRecognition(db, { answered: ['Z-live'], unknown: ['E-unknown'], failed: ['E-unknown'] }, 1, now);
  append(
    archive,
    answer('Z-live', [[day0, 0.5]]),
    answer('A-closed', [
      [day0, 0.5],
      [day0 + dayMs, 0.4],
    ]),
  );
  await publishNow(archive);
  return archive;
}

test('lists live symbols first, then unlisted, suspended, closed and resolved ones', async () => {
  const { symbols } = listSymbols(await archiveOfAll(), '', now);
  expect(symbols.map(({ symbol, state, outcome }) => [symbol, state, outcome])).toEqual([
    ['D-to-come', 'active', null],
    ['Z-live', 'active', null],
    ['F-by-hand', 'unlisted', null],
    ['E-unknown', 'suspended', null],
    ['A-closed', 'closed', null],
    ['B-resolved', 'resolved', 1],
    ['C-settled', 'resolved', 0],
  ]);
});

test('searches question, category, market ID and venue too', async () => {
  const archive = await archiveOfAll();
  const listed = (text: string) => listSymbols(archive, text, now).symbols.map(({ symbol }) => symbol);
  expect(listed('SÃO weather')).toEqual(['Z-live']);
  expect(listed('são closed')).toEqual([]);
  expect(listed('id A-closed')).toEqual(['A-closed']);
  expect(listed('venue')).toHaveLength(6);
});

test('venues have a column if there are several, and a search without a match says how to search', async () => {
  const archive = opened();
  const facts = [market('A', { source: 'kalshi' }), market('B', { source: 'polymarket' })];
  recordMarkets(archive.state.db, facts, now, true);
  const show = (text: string) =>
    formatSymbols(listSymbols(archive, text, now), 50, { ...plainStyle, width: 80, complete: (given) => `<${given}>` });
  expect(show('').split('\n')[0]).toMatch(/^symbol +question +venue +state +ticks +last tick$/);
  expect(show('')).toMatch(/^B .* polymarket +active/m);
  expect(show('a kalshi')).not.toContain('venue');
  expect(show('a poly kalshi')).toMatch(
    /^<no symbol matches "a poly kalshi" \(2 known\)\. Every word must be in the ticker, .*: oddslake symbols\n>$/,
  );
});

test('a narrow terminal keeps the symbol whole and leaves out what is least needed; none cuts nothing', async () => {
  const list = listSymbols(await archiveOfAll(), '', now);
  const narrow = formatSymbols(list, 50, { ...plainStyle, width: 70 }).split('\n');
  expect(narrow[0]).toMatch(/^symbol +question +state +ticks +last tick$/);
  for (const line of narrow) expect(line.length).toBeLessThanOrEqual(70);
  expect(narrow.some((line) => line.startsWith('E-unknown '))).toBe(true);
  const wide = formatSymbols(list, 50, plainStyle);
  expect(wide).toMatch(/B-resolved .* resolved 1 +0\n/);
  expect(wide).toContain('2026-06-01 … 2026-06-02');
  expect(wide).toContain('Will it rain in São Paulo?');
});
