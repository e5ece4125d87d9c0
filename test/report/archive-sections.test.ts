import { expect, test } from 'vitest';
import { renderDamageSection } from '../../src/report/archive-page.ts';
import { renderLatenessSection } from '../../src/report/archive-rechecks.ts';
import {
  renderProblemSymbolsSection,
  renderSparkline,
  renderSymbolsSection,
} from '../../src/report/archive-symbols.ts';
import { arrangeParts, type ReportPart, renderSymbol, renderWords } from '../../src/report/page-parts.ts';
import { estimateTextWidth, fitText } from '../../src/report/time-plots.ts';
import { createReportData, createReportDataWithProblems, nowMs } from './made-gathered.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const textOf = (parts: readonly ReportPart[]): string =>
  arrangeParts(parts)
    .map(({ text }) => text)
    .join('');
/** The cells of each row of a table. */
const rowsOf = (text: string): string[][] =>
  [...text.matchAll(/<tr class="[^"]*">(.*?)<\/tr>/gs)].map(([, row]) =>
    [...row!.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell]) => cell!.replaceAll(/<[^>]+>/g, '')),
  );

test('lists damaged files with the time at which the damage was found', () => {
  const text = textOf(renderDamageSection(createReportDataWithProblems(['ticks/x', 'b'])));
  expect(rowsOf(text)).toEqual([['ticks/x', 'checksum mismatch', '2026-11-22 04:00']]);
  expect(text).toContain(
    '30 files missing or not as published. The first 1 are listed. Every other published byte has',
  );
  expect(textOf(renderDamageSection(createReportData()))).toContain('No known damage. Every published byte has been');
});

test('names failing, suspended and late symbols, and counts those not listed', () => {
  const text = textOf(renderProblemSymbolsSection(createReportDataWithProblems(['A', 'B', 'C', 'D'])));
  expect(rowsOf(text)).toEqual([
    ['AB', 'failing', '2026-11-22 00:00', '2026-11-22 01:00', '8 h', 'C'],
    ['BC', 'suspended', '2026-11-22 00:00', '2026-11-22 01:00', '8 h', 'the service reports it as unknown'],
    ['CD', 'late', '–', '2026-11-22 01:00', '8 h', '8 h behind the other live symbols'],
  ]);
  expect(text).toContain('1 failing, 20 suspended, 1 late. The 3 with the most missing are listed.');
});

test('shows lateness as measured: as a chart from five days on, below as a sentence', () => {
  const { rechecks } = createReportData();
  const lateness = Array.from({ length: 5 }, (_, i) => ({
    day: nowMs - (nowMs % dayMs) + i * dayMs,
    ms: (i + 1) * 20_000,
  }));
  const of = (days: number): string =>
    textOf(
      renderLatenessSection(
        createReportData({ rechecks: { ...rechecks, latenessMs: 100_000, lateness: lateness.slice(0, days) } }),
      ),
    );
  expect(of(5)).toContain('aria-label="Greatest measured lateness per day, in seconds: maximum 1 min 40 s"');
  expect(of(2)).not.toContain('<svg');
  expect(of(2).replaceAll(/<[^>]+>/g, '')).toContain('20.0 s on 2026-11-22, 40.0 s on 2026-11-23.');
});

test('draws the prices of a symbol from five hours on', () => {
  const prices = [0.2, 0.4, 0.3, 0.6, 0.5].map((p, i) => ({ t: i * hourMs, p }));
  const span = { from: 0, to: 4 * hourMs };
  const { text } = renderSparkline(prices, span)!;
  expect(text).toContain('aria-label="Price from 0.2 to 0.6, last 0.5"');
  // 2 to 130 pixels from left to right; the lowest price at the bottom, at 24, and the highest at the top, at 2.
  expect(/points="([^"]+)"/.exec(text)![1]).toBe('2.0,24.0 34.0,13.0 66.0,18.5 98.0,2.0 130.0,7.5');
  expect(renderSparkline(prices.slice(1), span)).toBeNull();
  const flat = renderSparkline(
    prices.map(({ t }) => ({ t, p: 0.5 })),
    span,
  )!;
  expect(flat.text).not.toContain('NaN');
});

test('a sparkline is bounded, whatever the number of hours', () => {
  const prices = Array.from({ length: 5000 }, (_, i) => ({ t: i * hourMs, p: Math.sin(i) }));
  const { text } = renderSparkline(prices, { from: 0, to: 4999 * hourMs })!;
  expect(/points="([^"]+)"/.exec(text)![1]!.split(' ').length).toBeLessThanOrEqual(121);
});

test('the busiest symbols have a price column only if one of them can be drawn', () => {
  const { cadence } = createReportData();
  const [busy] = cadence.busiest;
  const of = (count: number): string => {
    const busiest = [{ ...busy!, prices: busy!.prices.slice(0, count) }];
    return textOf(renderSymbolsSection(createReportData({ cadence: { ...cadence, busiest } })));
  };
  expect(of(5)).toContain('>Price</th>');
  expect(of(4)).not.toMatch(/>Price<\/th>|<svg/);
});

test('isolates the direction of symbols, and shortens long ones', () => {
  expect(renderSymbol('\u202Eevil', 'What?').text).toBe(
    '<bdi>\u202Eevil</bdi><span class="about"><bdi>What?</bdi></span>',
  );
  expect(renderSymbol('x'.repeat(400)).text).toBe(`<bdi>${'x'.repeat(299)}…</bdi>`);
});

test('keeps dates and flags on one line, and changes no text', () => {
  const text = 'Fetch --from 2026-11-21T13:00:00Z & more';
  expect(renderWords(text).text.replaceAll(/<[^>]+>/g, '')).toBe('Fetch --from 2026-11-21T13:00:00Z &amp; more');
  expect(renderWords(text).text).toContain('<span class="word">2026-11-21T13:00:00Z</span>');
});

test('fits names into the margin of a plot', () => {
  expect(fitText('crypto', 84)).toBe('crypto');
  for (const name of ['W'.repeat(57), 'x'.repeat(200), '🦆'.repeat(50), ''])
    expect(estimateTextWidth(fitText(name, 84)), name).toBeLessThanOrEqual(84);
  expect(fitText('W'.repeat(57), 84)).toBe('WWWWWW…');
});
