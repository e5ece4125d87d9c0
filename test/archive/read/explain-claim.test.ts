import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { readSymbol } from '../../../src/archive/journal/symbol-store.ts';
import { explainClaim } from '../../../src/archive/read/explain-claim.ts';
import { formatExplanation } from '../../../src/cli/format-archive.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../../src/context/open-configured.ts';
import { at, dayMs, fewFiles, hourMs } from '../../collector/run/nights.ts';
import { scriptedLake } from '../../collector/run/one-process.ts';
import type { Reply } from '../../collector/run/scripted-service.ts';

test('the responses that prove a moment, or do not, are named', async () => {
  // One began and one ended: they show across how long a silence the service answers, from either end.
  const names = ['BUSY', 'SLOW', 'ENDED', 'BEGAN', 'NONE'];
  const { box, contextAt } = await scriptedLake(at(0), names, [...fewFiles, 'poll.recheck_share=0']);
  box.script = {
    ticks(_, { symbol, from, to }): Reply {
      box.nowMs += 20;
      const step = [10, 150][names.indexOf(symbol)] ?? Number.POSITIVE_INFINITY;
      const times = { ENDED: [at(0) - 6 * dayMs], BEGAN: [at(0) - hourMs] }[symbol] ?? [];
      for (let t = Math.ceil(from / step / 60_000) * step * 60_000; t < to; t += step * 60_000) times.push(t);
      const ticks = times.filter((t) => from <= t && t < Math.min(to, box.nowMs)).map((t) => ({ t, p: 0.5 }));
      return { symbol, ticks, count: ticks.length, generated_at: box.nowMs };
    },
  };
  const explain = async (symbol: string, moment: number) => {
    const context = await contextAt(box.nowMs);
    const archive = openConfiguredArchive(context, false);
    try {
      const rules = toCompletenessRules(context.settings);
      return explainClaim(archive, readSymbol(archive.state.db, symbol)!, moment, rules, box.nowMs);
    } finally {
      archive.close();
    }
  };
  await nightly.run(await contextAt(at(0)), { day: null });
  const moment = at(0) - 2 * dayMs;
  const busy = await explain('BUSY', moment);
  expect(busy).toMatchObject({ state: 'proven', covered: [{ evidence: 'confirmed', origin: 'poll' }], empty: [] });
  expect(busy.covered[0]!.fetched_at - at(0)).toBeLessThan(60_000);
  const none = await explain('NONE', moment);
  expect(none).toMatchObject({ state: 'inferred', covered: [{ evidence: 'inferred' }], gap: null });
  expect(none.empty.length).toBeGreaterThan(0);
  expect(formatExplanation(none)).toMatch(
    /^NONE at 2025-05-30T03:17:00Z: not proven\n[\s\S]*three nights that are empty are needed, and 1 night of the last eight was/,
  );
  for (const n of [1, 2]) await nightly.run(await contextAt(at(n)), { day: null });
  const later = await explain('NONE', moment);
  expect(later).toMatchObject({ state: 'proven', covered: [{ evidence: 'repeated' }] });
  expect(new Set(later.empty.map((one) => Math.floor(one.generated_at / dayMs))).size).toBe(3);
  expect(formatExplanation(later)).toMatch(/^NONE at 2025-05-30T03:17:00Z: proven: an absence of ticks is a fact\n/);
  expect(await explain('NONE', at(0) - 60 * dayMs)).toMatchObject({
    ...{ state: 'gap', covered: [], gap: { reason: 'never asked' } },
  });
});
