import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import type { ResultTable } from '../../src/archive/query/query.ts';
import { renderTable } from '../../src/cli/table.ts';
import { plainStyle } from '../../src/cli/terminal-style.ts';

const ticks: ResultTable = {
  columns: [
    { name: 'symbol', kind: 'text' },
    { name: 't', kind: 'fixed' },
    { name: 'p', kind: 'number' },
  ],
  rows: [
    ['KXFED-26SEP', '2026-07-01T12:00:00Z', '0.5'],
    ['😀漢字', '2026-07-01T12:02:00Z', '0.125'],
    [null, '2026-07-01T12:04:00Z', null],
  ],
  isComplete: true,
  plan: null,
};

const one = (text: string, name = 'question'): ResultTable => ({
  columns: [{ name, kind: 'text' }],
  rows: [[text]],
  isComplete: true,
  plan: null,
});

const away = plainStyle;

test('aligns columns, with numbers at the right and wide characters', () => {
  expect(renderTable(ticks, away)).toBe(`symbol       t                         p
───────────  ────────────────────  ─────
KXFED-26SEP  2026-07-01T12:00:00Z    0.5
😀漢字       2026-07-01T12:02:00Z  0.125
NULL         2026-07-01T12:04:00Z   NULL
3 rows
`);
});

test('aligns columns for any number of rows', () => {
  const rows = Array.from({ length: 150_000 }, () => ['A', '2026-07-01T12:00:00Z', '0.5']);
  expect(renderTable({ ...ticks, rows }, away)).toMatch(/^symbol {2}t .*\n150,?000 rows\n$/s);
});

test('the footer shows the number of rows', () => {
  const lastLine = (table: ResultTable): string => renderTable(table, away).trimEnd().split('\n').at(-1)!;
  expect(lastLine({ ...ticks, rows: [] })).toBe('no rows');
  expect(lastLine({ ...ticks, rows: ticks.rows.slice(0, 1) })).toBe('1 row');
  expect(lastLine({ ...ticks, isComplete: false })).toBe('first 3 rows, more follow');
});

test('writes escape codes only with colour', () => {
  expect(renderTable(ticks, away)).not.toContain('\u001b');
  const coloured = renderTable(ticks, { ...plainStyle, width: 80, hasColour: true });
  expect(coloured).toContain('\u001b[1msymbol\u001b[22m');
  expect(coloured).toContain('\u001b[2mNULL\u001b[22m');
  expect(stripVTControlCharacters(coloured)).toBe(renderTable(ticks, away));
});

describe('on a narrow terminal', () => {
  const widest = (text: string): number =>
    Math.max(
      ...text
        .split('\n')
        .slice(0, -2)
        .map((line) => stringWidth(line)),
    );
  const wide: ResultTable = {
    ...ticks,
    columns: [...ticks.columns, { name: 'question', kind: 'text' }],
    rows: [
      ['KXFED-26SEP', '2026-07-01T12:00:00Z', '0.123456789', 'Will 漢字 漢字 漢字 漢字 漢字 漢字 漢字 漢字 漢字 be?'],
    ],
  };

  test('shortens long text, but not numbers and times', () => {
    const text = renderTable(wide, { ...plainStyle, width: 70 });
    expect(widest(text)).toBeLessThanOrEqual(70);
    expect(text).toContain('2026-07-01T12:00:00Z  0.123456789  Will 漢字');
    expect(text).toContain('…');
  });

  test('continues text with spaces below where it may, and shortens what is longer', () => {
    const words = Array.from({ length: 30 }, (_, n) => `word${n}`).join(' ');
    const row = ['KXFED-26SEP', '2026-07-01T12:00:00Z', '0.5', words];
    const reasons: ResultTable = { ...wide, rows: [row, [null, '2026-07-02T12:00:00Z', '0.25', null]] };
    const lines = renderTable(reasons, { ...plainStyle, width: 70 }, undefined, 20).split('\n');
    expect(
      lines
        .slice(2, -3)
        .map((line) => line.slice(41))
        .join(' '),
    ).toBe(words);
    expect(lines[2]).toMatch(/^KXFED-26SEP {2}2026-07-01T12:00:00Z +0\.5 {2}word0 /);
    expect(lines[3]).toMatch(/^ {41}word\d/);
    expect(lines.at(-3)).toMatch(/^NULL /);
    expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(70);
    const cut = renderTable(reasons, { ...plainStyle, width: 70 }, undefined, 3).split('\n');
    expect(cut).toHaveLength(8);
    expect(cut[4]).toMatch(/^ {41}word\d.*…$/);
  });

  test('omits columns that do not fit, and says so in the footer', () => {
    const text = renderTable(wide, { ...plainStyle, width: 50 });
    expect(widest(text)).toBeLessThanOrEqual(50);
    expect(text).toContain('1 row, 3 of 4 columns');
  });

  test('always shows one column', () => {
    expect(renderTable(one('x'.repeat(100)), { ...plainStyle, width: 5 })).toContain('…');
  });
});

test('shortens nothing without a terminal', () => {
  expect(renderTable(one('x'.repeat(500)), away)).toContain('x'.repeat(500));
});

test('escapes control characters and line breaks', () => {
  const text = renderTable(one('a\nb\tc\u001b[2J\u202ed\u009b'), away);
  expect(text.split('\n')[2]).toBe('a\\nb\\tc\\u001b[2J\\u202ed\\u009b');
});

test('prints a query plan unchanged', () => {
  expect(renderTable({ ...one('x'), plan: '┌──┐\n└──┘\n' }, { ...plainStyle, width: 2, hasColour: true })).toBe(
    '┌──┐\n└──┘\n',
  );
});
