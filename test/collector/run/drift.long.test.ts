import { expect, test } from 'vitest';
import type { SandboxOptions } from '../../../src/sandbox/sandbox-options.ts';
import { dayMs, fewFiles, firstNight, type Nights, startNights } from './nights.ts';

const box: Partial<SandboxOptions> = { markets: 12, ticksPerDay: 40 };

/** Runs consecutive nights, each with differently changed responses. */
async function reported(nights: Nights, ...reshapes: Record<string, string>[]) {
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

test('reports a removed, renamed or retyped field once, and again when it returns', async () => {
  const changed = {
    'markets:markets/*/question': 'gone',
    'markets:markets/*/closes_at': 'text',
    'ticks:generated_at': '=made_at',
    'orderbook:bids/*/price': '=px',
  };
  const [first, second, third, fourth] = await reported(await startNights(box, fewFiles), {}, changed, changed, {});
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

test('reports unreadable pages and prices as text as drift and as failures', async () => {
  const nights = await startNights(box, fewFiles);
  const [, text, gone] = await reported(nights, {}, { 'ticks:ticks/*/p': 'text' }, { 'ticks:ticks': '=points' });
  expect(text!.drift).toEqual(['ticks ticks/*/p retyped number → string']);
  expect(gone!.code).toBe(4);
  expect(gone!.drift).toEqual(['ticks points appeared  → array', 'ticks ticks vanished array → ']);
});

test('incomplete lists are no evidence of removed fields', async () => {
  const nights = await startNights(box, fewFiles);
  await reported(nights, {});
  nights.box().set({ marketsCap: 6, reshape: { 'markets:markets/*/question': 'gone' } });
  const cut = await nights.night(firstNight + dayMs);
  expect(JSON.stringify(cut.failures)).toContain('truncated');
  expect(cut.schema_drift).toEqual([]);
  nights.box().set({ marketsCap: 1000 });
  expect((await nights.night(firstNight + 2 * dayMs)).schema_drift).toHaveLength(1);
});

test('other encodings, late ticks, faults, and new and gone markets are no drift', async () => {
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
