import { describe, expect, test } from 'vitest';
import { readSymbol, recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { readArchiveStatus } from '../../src/archive/read/archive-status.ts';
import { readStatus } from '../../src/archive/read/status.ts';
import { answer, append, day0, dayMs, hourMs, judged, market, now, opened, publishNow } from './scratch.ts';

describe('the manifest', () => {
  test('says of a day whether it is complete, and up to where every live symbol is covered', async () => {
    const archive = opened();
    recordMarkets(
      archive.state.db,
      [market('AAA', { opensAt: day0 }), market('BBB', { opensAt: day0 + dayMs })],
      now,
      true,
    );
    const whole = { from: day0, to: day0 + 3 * dayMs };
    append(archive, answer('AAA', [[day0 + 1, 0.5]], { windows: [whole] }));
    append(
      archive,
      answer('BBB', [[day0 + dayMs, 0.5]], { windows: [{ from: day0 + dayMs, to: day0 + 2 * dayMs - 1 }] }),
    );
    const { manifest } = await publishNow(archive);
    expect(manifest.days).toMatchObject({
      '2026-06-01': { state: 'complete', expected: 1, covered: 1, missing: [], exceptions: 0 },
      '2026-06-02': { state: 'incomplete', expected: 2, covered: 1, missing: ['BBB'], exceptions: 0 },
      '2026-06-03': { state: 'incomplete', expected: 2, covered: 1, missing: ['BBB'], exceptions: 0 },
    });
    expect(manifest.days['2026-06-01']).not.toHaveProperty('reasons');
    expect(manifest.days['2026-06-03']).toMatchObject({
      reasons: [{ reason: 'never asked', symbols: 1, from: day0 + 2 * dayMs, to: day0 + 3 * dayMs }],
      reason: '1 symbol is not requested yet',
      next_action: 'the next night fetches them, or: oddslake backfill --from 2026-06-03 --to 2026-06-04',
    });
    expect(manifest.watermark).toBe(day0 + 2 * dayMs - 1);
    append(archive, answer('BBB', [], { windows: [{ from: day0 + 2 * dayMs - 1, to: day0 + 3 * dayMs }] }));
    const next = await publishNow(archive);
    expect(Object.values(next.manifest.days).every((day) => day.state === 'complete')).toBe(true);
    expect(next.manifest.watermark).toBe(day0 + 3 * dayMs);
    expect(readSymbol(archive.state.db, 'AAA')).toMatchObject({ ticks: 1, firstTick: day0 + 1, lastTick: day0 + 1 });
  });

  test('does not call a day complete before a response proves its end', async () => {
    const archive = opened();
    recordMarkets(archive.state.db, [market('AAA', { opensAt: day0 })], now, true);
    const windows = [{ from: day0, to: day0 + dayMs }];
    const end = { from: day0 + 22 * hourMs, to: day0 + dayMs, fetchedAt: day0 + dayMs, evidence: 'inferred' as const };
    const before = { ...end, from: day0, to: end.from, evidence: 'confirmed' as const };
    append(archive, answer('AAA', [], { covered: [before, end], observedAt: day0 + dayMs }));
    expect((await publishNow(archive)).manifest.days['2026-06-01']).toMatchObject({ state: 'provisional', covered: 1 });
    append(archive, answer('AAA', [], { windows, observedAt: day0 + dayMs + hourMs }));
    expect((await publishNow(archive)).manifest.days['2026-06-01']).toMatchObject({ state: 'complete' });
  });

  test.each([
    ['no day after the last symbol has ended', true, { complete: 1, incomplete: 0, empty: 0 }],
    ['the days that have ended since while a symbol is active', false, { complete: 1, incomplete: 7, empty: 0 }],
  ])('and status count %s', async (_, hasEnded, days) => {
    const archive = opened();
    const end = hasEnded ? { isActive: false, resolvedAt: day0 + 20 * hourMs, outcome: 1 } : {};
    recordMarkets(archive.state.db, [market('AAA', { opensAt: day0, ...end })], day0 + dayMs, true);
    append(archive, answer('AAA', [[day0 + 1, 0.5]], { windows: [{ from: day0, to: day0 + dayMs }] }));
    const nowMs = day0 + 8 * dayMs;
    await publishNow(archive, nowMs);
    expect(readStatus(archive, judged, nowMs).completeness.days).toMatchObject(days);
    for (const at of [nowMs, nowMs + 5 * dayMs]) {
      const { completeness } = readStatus(archive, judged, at);
      expect(completeness.days).toEqual(readArchiveStatus(archive, at).completeness.days);
    }
  });
});
