import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  chooseHashShare,
  type HashableFile,
  type HashShare,
  hashDueShare,
} from '../../src/archive/integrity/daily-hash-share.ts';
import { computeVerifiedThrough } from '../../src/archive/journal/published-files.ts';
import { dayMs } from '../../src/base/window.ts';
import { checkProperty } from '../harness/properties.ts';
import { flip } from './damaged.ts';
import { answer, append, clockAt, day0, opened, now as publishedAt, publishNow } from './scratch.ts';

const now = Date.UTC(2026, 6, 1);
const every = 30 * dayMs;
const files = (...ages: (number | undefined)[]): HashableFile[] =>
  ages.map((days) => ({ bytes: 100, hashedAt: days === undefined ? undefined : now - days * dayMs }));

test('takes the fraction of all bytes that the elapsed time is of the interval', () => {
  const thirty = files(...Array.from({ length: 30 }, (_, i) => i));
  expect(chooseHashShare(thirty, now - dayMs, now, every).files).toEqual([thirty[29]]);
  expect(chooseHashShare(thirty, now - 3 * dayMs, now, every).files).toEqual(thirty.slice(27).reverse());
  // Before the first share: that of one day.
  expect(chooseHashShare(thirty, null, now, every).files).toEqual([thirty[29]]);
  // After a long pause: all files, and nothing more is due afterwards.
  const whole = chooseHashShare(thirty, now - 400 * dayMs, now, every);
  expect([whole.files.length, whole.hashedTo(30)]).toEqual([30, now]);
});

test('takes files that were never hashed first', () => {
  const some = files(3, undefined, 40, 1);
  expect(chooseHashShare(some, now - every / 2, now, every).files).toEqual([some[1], some[2]]);
});

test('owes nothing if the clock was ahead, and nothing at once afterwards', () => {
  const share = chooseHashShare(files(1, 2), now + dayMs, now, every);
  expect([share.files, share.hashedTo(0)]).toEqual([[], now]);
});

test('carries over what is due for a file that is too large for one share', () => {
  const [large, ...small] = [{ bytes: 3000, hashedAt: 0 }, ...files(...Array.from({ length: 30 }, () => 1))] as const;
  let to = now;
  let days = 0;
  for (; days < 40; days++) {
    const share = chooseHashShare([large, ...small], to, now + days * dayMs, every);
    to = share.hashedTo(share.files.length);
    if (share.files.includes(large)) break;
    expect(share.files).toEqual([]);
  }
  // Half of all bytes.
  expect(days).toBe(15);
});

test('hashes every file again within the interval, on any schedule', () => {
  checkProperty(
    [
      fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 40 }),
      fc.array(fc.integer({ min: 1, max: 72 }), { minLength: 200, maxLength: 200 }),
    ],
    30,
    (sizes, hours) => {
      const all = sizes.map((bytes, i) => ({ bytes, i, hashedAt: now - i }));
      let nowMs = now;
      let to: number | null = now;
      for (const gap of hours) {
        nowMs += gap * 3_600_000;
        const share: HashShare<(typeof all)[number]> = chooseHashShare(all, to, nowMs, every);
        for (const file of share.files) file.hashedAt = nowMs;
        to = share.hashedTo(share.files.length);
        // The longest interval between two runs, and a rounding.
        const msMax = every + 72 * 3_600_000;
        for (const file of all) expect(nowMs - file.hashedAt).toBeLessThanOrEqual(msMax);
      }
    },
  );
});

test('hashes nothing more once its time is over, and what is left in the next run', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('AAA', [[day0, 0.5]]));
  const { path } = (await publishNow(archive)).manifest.datasets.ticks.files[0]!;
  flip(join(archive.layout.root, path));
  const clock = clockAt(publishedAt + dayMs);
  const hash = (durationMsMax: number) =>
    hashDueShare(archive, { runId: 'run', clock, intervalMs: dayMs, durationMsMax });
  expect(await hash(0)).toEqual([]);
  expect(await hash(60_000)).toEqual([{ path, kind: 'checksum mismatch' }]);
});

test('is verified since the time of the file that was hashed longest ago', () => {
  const computeOf = (...ages: readonly (number | undefined)[]): number | null => {
    const hashed = files(...ages).map((file, i) => ({ path: String(i), sha256: '', hashedAt: file.hashedAt }));
    return computeVerifiedThrough(hashed, ({ path }) => hashed[Number(path)]!.hashedAt);
  };
  expect(computeOf(1, 5, 2)).toBe(now - 5 * dayMs);
  expect(computeOf(1, undefined)).toBeNull();
  expect(computeOf()).toBeNull();
});
