import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/errors.ts';
import { summarizeNotStarted } from '../../../src/cli/run-job.ts';
import { buildNotification, shouldNotify } from '../../../src/collector/notifications/notify.ts';
import type { Summary } from '../../../src/collector/run/summary.ts';

const place = { host: 'box', archive: '/srv/lake' };
const base = summarizeNotStarted(
  'nightly',
  '1.0',
  Date.UTC(2026, 10, 22, 3),
  new UsageError('No key.'),
  Date.UTC(2026, 10, 22, 3, 1),
);
const well: Summary = {
  ...base,
  outcome: 'done',
  exit_code: 0,
  error: null,
  run_id: 'r1',
  generation: 12,
  ticks: { fetched: 1300, accepted: 1234, duplicates: 66, conflicts: 0, quarantined: 0 },
};
const incomplete: Summary = {
  ...well,
  outcome: 'incomplete',
  exit_code: 4,
  failures_count: 31,
  next_action: 'Run it again.',
  failures: [{ symbol: 'KXBTC', from: 0, to: 60_000, reason: 'answered 503' }],
};

test.each<[string, Partial<Summary>, string]>([
  ['a good end', {}, 'always'],
  ['a good end with warnings', { warnings_count: 1 }, 'always warning'],
  ['anything but 0', { exit_code: 4 }, 'always warning failure'],
  ['SIGTERM', { exit_code: 143 }, 'always warning failure'],
  ['Ctrl-C, as somebody is there', { exit_code: 130 }, ''],
])('%s is told', (_, change, when) => {
  const told = (['always', 'warning', 'failure'] as const).filter((one) => shouldNotify({ ...well, ...change }, one));
  expect(told.join(' ')).toBe(when);
});

test('one line says what ended how, why, what is missing and what to do next', () => {
  expect(buildNotification(well, place).text).toBe(
    'oddslake nightly on box: done (exit 0). 1,234 new ticks, generation 12.',
  );
  expect(buildNotification(incomplete, place).text).toBe(
    'oddslake nightly on box: done, but incomplete (exit 4). Missing: KXBTC (answered 503), and 30 more. Next: Run it again.',
  );
  expect(buildNotification(base, place).text).toBe('oddslake nightly on box: was not started (exit 2). No key.');
});

test('a long text is cut between characters', () => {
  for (const start of ['', 'a']) {
    const reason = start + '😀'.repeat(600);
    const told = buildNotification(
      { ...incomplete, failures: [{ ...incomplete.failures[0]!, reason }], error: reason },
      place,
    );
    expect(JSON.stringify(told)).not.toMatch(/\\ud[89a-f]/);
    expect(told.failures[0]!.reason.length).toBeLessThanOrEqual(300);
  }
});

test('programs get the facts, chat receivers the fields that they read', () => {
  const told = buildNotification(incomplete, place);
  expect(told).toMatchObject({
    job: 'nightly',
    outcome: 'incomplete',
    exit_code: 4,
    error: null,
    next_action: 'Run it again.',
    run_id: 'r1',
    host: 'box',
    archive: '/srv/lake',
    started_at: '2026-11-22T03:00:00Z',
    finished_at: '2026-11-22T03:01:00Z',
    failures: [{ symbol: 'KXBTC', from: '1970-01-01T00:00:00Z', to: '1970-01-01T00:01:00Z', reason: 'answered 503' }],
    failures_count: 31,
  });
  // Slack and Mattermost read text, Discord content.
  expect(told.content).toBe(told.text);
  expect(told.allowed_mentions).toEqual({ parse: [] });
  const reserved = [
    'channel',
    'username',
    'icon_url',
    'attachments',
    'blocks',
    'embeds',
    'components',
    'flags',
    'type',
  ];
  for (const name of reserved) expect(told).not.toHaveProperty(name);
});

test('nobody is called, nothing is linked, and the line stays one and short, whatever a service says', () => {
  const reason = `<!channel> @everyone <https://x.example|click>\n\u001b[31m${'x'.repeat(5000)}`;
  const { text } = buildNotification({ ...base, error: reason, failures: [] }, place);
  for (const sign of ['<', '>', '\n', '\u001b', '@everyone']) expect(text).not.toContain(sign);
  expect(text.length).toBeLessThanOrEqual(2000);
  const long = { ...incomplete, failures: Array.from({ length: 20 }, () => ({ ...incomplete.failures[0]!, reason })) };
  expect(JSON.stringify(buildNotification(long, place)).length).toBeLessThan(20_000);
});

test('docs/OPERATING.md shows what is sent', () => {
  const page = readFileSync(new URL('../../../docs/OPERATING.md', import.meta.url), 'utf8');
  const shown = JSON.parse(/```json\n(.*?)```/s.exec(page)![1]!) as Record<string, unknown>;
  const told: Record<string, unknown> = buildNotification(incomplete, place);
  for (const [name, value] of Object.entries(shown)) expect([name, typeof value]).toEqual([name, typeof told[name]]);
  expect(Object.keys((shown.failures as object[])[0]!)).toEqual(Object.keys((told.missing as object[])[0]!));
});
