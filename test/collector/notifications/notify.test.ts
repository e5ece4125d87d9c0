import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/errors.ts';
import { summarizeNotStarted } from '../../../src/cli/run-job.ts';
import { notifyRunEnd } from '../../../src/collector/notifications/notify.ts';
import { receiver } from '../../e2e/receiver.ts';
import { contextOf } from '../run/one-process.ts';

test('sends no part of the key, wherever a text is truncated', async () => {
  const { url, told: received } = await receiver();
  const context = await contextOf('/lake', 'https://box.test', Date.now, [`notify.webhook_url=${url}`]);
  const base = summarizeNotStarted('nightly', '1', Date.now(), new UsageError('No.'));
  for (const length of [290, 294, 296, 300]) {
    const reason = `${'x'.repeat(length)} sandbox-key and more`;
    const failures = [{ symbol: 'A', from: 0, to: 1, reason }];
    await notifyRunEnd(context, { ...base, failures, failures_count: 1, warnings: [reason], warnings_count: 1 });
  }
  expect(received).toHaveLength(4);
  for (const { body } of received) expect(JSON.stringify(body)).not.toMatch(/x s/);
});
