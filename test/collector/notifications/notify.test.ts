import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { UsageError } from '../../../src/base/errors.ts';
import { summarizeNotStarted } from '../../../src/cli/run-job.ts';
import { buildNotification, notifyRunEnd, shouldNotify } from '../../../src/collector/notifications/notify.ts';
import { createVerdict, type Finding } from '../../../src/contract/finding.ts';
import { receiver } from '../../e2e/receiver.ts';
import { contextOf } from '../run/one-process.ts';

const finding: Finding = {
  kind: 'failing symbols',
  severity: 'warning',
  message: 'KXBTC: HTTP 503, 2 attempts (and 30 more)',
  command: 'oddslake backfill --from 2026-11-22 --to 2026-11-23',
};
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
  ...{ findings: [], verdict: createVerdict([], 'collected to 2026-11-22 03:00 UTC') },
};
const find = (message = finding.message): Pick<Summary, 'findings' | 'verdict'> => ({
  findings: [{ ...finding, message }],
  verdict: createVerdict([{ ...finding, message }], ''),
});
const incomplete: Summary = {
  ...well,
  ...find(),
  outcome: 'incomplete',
  exit_code: 4,
  failures_count: 31,
  failures: [{ symbol: 'KXBTC', from: 0, to: 60_000, reason: 'HTTP 503' }],
};
const place = { host: 'box', archive: '/srv/lake', complete: (command: string) => command.replace(' ', ' -o /lake ') };

test('sends no part of the key, wherever a text is truncated', async () => {
  const { url, reported: received } = await receiver();
  const context = await contextOf('/lake', 'https://box.test', Date.now, [`notify.webhook_url=${url}`]);
  for (const length of [290, 294, 296, 300]) {
    const reason = `${'x'.repeat(length)} sandbox-key and more`;
    const failures = [{ symbol: 'A', from: 0, to: 1, reason }];
    await notifyRunEnd(context, { ...incomplete, ...find(reason), failures, warnings: [reason], warnings_count: 1 });
  }
  expect(received).toHaveLength(4);
  for (const { body } of received) expect(JSON.stringify(body)).not.toMatch(/x s/);
});

test.each<[string, Partial<Summary>, string]>([
  ['a good end', {}, 'always'],
  ['a good end with a warning', find(), 'always warning'],
  ['a good end of which the judge does not warn', { warnings_count: 1 }, 'always'],
  ['anything but 0', { exit_code: 4 }, 'always warning failure'],
  ['SIGTERM', { exit_code: 143 }, 'always warning failure'],
  ['Ctrl-C, as somebody is there', { exit_code: 130 }, ''],
])('%s is reported', (_, change, when) => {
  const conditions = (['always', 'warning', 'failure'] as const).filter((one) =>
    shouldNotify({ ...well, ...change }, one),
  );
  expect(conditions.join(' ')).toBe(when);
});

test('is the verdict and its command in one line', () => {
  expect(buildNotification(well, place).text).toBe(
    'oddslake nightly on box (exit 0): OK: collected to 2026-11-22 03:00 UTC',
  );
  expect(buildNotification(incomplete, place).text).toBe(
    'oddslake nightly on box (exit 4): KXBTC: HTTP 503, 2 attempts (and 30 more); next: oddslake -o /lake backfill --from 2026-11-22 --to 2026-11-23',
  );
  expect(buildNotification(base, place).text).toBe('oddslake nightly on box (exit 2): No key');
});

test('truncates a long text between characters', () => {
  for (const start of ['', 'a']) {
    const reason = start + '😀'.repeat(600);
    const failures = [{ ...incomplete.failures[0]!, reason }];
    const notification = buildNotification({ ...incomplete, ...find(reason), failures, error: reason }, place);
    expect(JSON.stringify(notification)).not.toMatch(/\\ud[89a-f]/);
    expect(notification.failures[0]!.reason.length).toBeLessThanOrEqual(300);
    expect(notification.findings[0]!.message.length).toBeLessThanOrEqual(300);
    // The command is not cut off.
    expect(notification.text).toContain(' --to 2026-11-23');
  }
});

test('contains fields for programs and for chat receivers', () => {
  const notification = buildNotification(incomplete, place);
  expect(notification).toMatchObject({
    job: 'nightly',
    outcome: 'incomplete',
    exit_code: 4,
    error: null,
    verdict: { state: 'warning', command: 'oddslake -o /lake backfill --from 2026-11-22 --to 2026-11-23' },
    findings: [{ ...finding, command: 'oddslake -o /lake backfill --from 2026-11-22 --to 2026-11-23' }],
    findings_count: 1,
    run_id: 'r1',
    host: 'box',
    archive: '/srv/lake',
    started_at: '2026-11-22T03:00:00Z',
    finished_at: '2026-11-22T03:01:00Z',
    failures: [{ symbol: 'KXBTC', from: '1970-01-01T00:00:00Z', to: '1970-01-01T00:01:00Z', reason: 'HTTP 503' }],
    failures_count: 31,
  });
  // Slack and Mattermost show `text`, Discord `content`.
  expect(notification.content).toBe(notification.text);
  expect(notification.allowed_mentions).toEqual({ parse: [] });
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
  for (const name of reserved) expect(notification).not.toHaveProperty(name);
});

test('removes mentions, links and line breaks from texts of the service', () => {
  const reason = `<!channel> @everyone <https://x.example|click>\n\u001b[31m${'x'.repeat(5000)}`;
  const { text } = buildNotification({ ...base, ...find(reason) }, place);
  for (const sign of ['<', '>', '\n', '\u001b', '@everyone']) expect(text).not.toContain(sign);
  expect(text.length).toBeLessThanOrEqual(2000);
  const long = {
    ...incomplete,
    ...find(reason),
    failures: Array.from({ length: 20 }, () => ({ ...incomplete.failures[0]!, reason })),
  };
  expect(JSON.stringify(buildNotification(long, place)).length).toBeLessThan(20_000);
});

test('docs/OPERATING.md shows the payload', () => {
  const page = readFileSync(new URL('../../../docs/OPERATING.md', import.meta.url), 'utf8');
  const shown = JSON.parse(/```json\n(.*?)```/s.exec(page)![1]!) as Record<string, unknown>;
  const notification: Record<string, unknown> = buildNotification(incomplete, place);
  for (const [name, value] of Object.entries(shown))
    expect([name, typeof value]).toEqual([name, typeof notification[name]]);
  for (const name of ['failures', 'findings'])
    expect(Object.keys((shown[name] as object[])[0]!)).toEqual(Object.keys((notification[name] as object[])[0]!));
});
