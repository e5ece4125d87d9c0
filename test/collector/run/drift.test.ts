import { expect, test } from 'vitest';
import type { SandboxOptions } from '../../../src/sandbox/options.ts';
import { dayMs, fewFiles, firstNight, type Nights, startNights } from './nights.ts';

const box: Partial<SandboxOptions> = { markets: 12, ticksPerDay: 40 };

/** Nights one after another, each with the answers changed in another way. */
async function told(nights: Nights, ...reshapes: Record<string, string>[]) {
  const out: { drift: string[]; warnings: readonly string[]; code: number }[] = [];
  for (const [n, reshape] of reshapes.entries()) {
    nights.box().set({ reshape });
    const { schema_drift, schema_drift_count, warnings, exit_code } = await nights.night(
      firstNight + n * dayMs,
      'orderbooks.all_live=true',
      'upstream.retry_attempts_max=2',
    );
    expect(schema_drift_count).toBe(schema_drift.length);
    const drift = schema_drift.map((d) => `${d.resource} ${d.field} ${d.change} ${d.before} → ${d.now}`);
    out.push({ drift, warnings, code: exit_code });
  }
  return out;
}

test('a field that is gone, renamed or of another type is told of once, in warnings and summary, and again when it is back', async () => {
  const changed = {
    'markets:markets/*/question': 'gone',
    'markets:markets/*/closes_at': 'text',
    'ticks:generated_at': '=made_at',
    'orderbook:bids/*/price': '=px',
  };
  const [first, second, third, fourth] = await told(await startNights(box, fewFiles), {}, changed, changed, {});
  expect(first).toEqual({ drift: [], warnings: [], code: 0 });
  expect(second!.drift).toEqual([
    'markets closes_at retyped number → string',
    'markets question vanished string → ',
    'ticks generated_at vanished number → ',
    'ticks made_at appeared  → number',
    'orderbook bids/*/price vanished number → ',
    'orderbook bids/*/px appeared  → number',
  ]);
  expect(second!.warnings).toContain(
    "The upstream's responses changed (markets): closes_at changed from number to string, question is missing.",
  );
  expect(third!.drift).toEqual([]);
  expect(fourth!.drift).toContain('markets question appeared  → string');
});

test('pages that cannot be read any more, and prices as text, are told of as drift beside what fails for it', async () => {
  const nights = await startNights(box, fewFiles);
  const [, text, gone] = await told(nights, {}, { 'ticks:ticks/*/p': 'text' }, { 'ticks:ticks': '=points' });
  expect(text!.drift).toEqual(['ticks ticks/*/p retyped number → string']);
  expect(gone!.code).toBe(4);
  expect(gone!.drift).toEqual(['ticks points appeared  → array', 'ticks ticks vanished array → ']);
});

test('lists that were not had whole say nothing of what is gone', async () => {
  const nights = await startNights(box, fewFiles);
  await told(nights, {});
  nights.box().set({ marketsCap: 6, reshape: { 'markets:markets/*/question': 'gone' } });
  const cut = await nights.night(firstNight + dayMs);
  expect(JSON.stringify(cut.failures)).toContain('cut off');
  expect(cut.schema_drift).toEqual([]);
  nights.box().set({ marketsCap: 1000 });
  expect((await nights.night(firstNight + 2 * dayMs)).schema_drift).toHaveLength(1);
});

test('pages written in other ways, late ticks, faults and markets that come and go are no drift', async () => {
  const nights = await startNights(
    {
      ...box,
      layout: 'mixed',
      lateShare: 0.2,
      faultShare: 0.1,
      faults: ['500', 'html'],
    },
    fewFiles,
  );
  for (let n = 0; n < 4; n++)
    expect((await nights.night(firstNight + n * 3 * dayMs, 'orderbooks.all_live=true')).schema_drift).toEqual([]);
});
