import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type Disk, systemDisk } from '../../src/archive/disk/file-system.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { readPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { commitIdKey, setMeta } from '../../src/archive/journal/database.ts';
import { acceptWindows, recordLost, revokeGaps } from '../../src/archive/journal/gap-records.ts';
import { readAllSymbols, recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { union } from '../../src/base/window.ts';
import {
  answer,
  append,
  day0,
  hashes,
  hourMs,
  market,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
} from './scratch.ts';
import { contentsOf, copyOf, statesOf, united, uniteNow } from './united.ts';

describe('two archives', () => {
  const hours = (from: number, to: number) => ({ from: day0 + from * hourMs, to: day0 + to * hourMs });
  /** An archive with these answers for A, each published. */
  const answered = async (...answers: Parameters<typeof answer>[2][]): Promise<string> => {
    const archive = opened();
    for (const rest of answers) {
      append(archive, answer('A', [], { requestedWindow: hours(0, 24), windows: [], ...rest }));
      await publishNow(archive);
    }
    archive.close();
    return archive.layout.root;
  };
  const coverageOf = (root: string): unknown[] => contentsOf(root).coverage as unknown[];
  const windowsOf = (root: string): unknown[] =>
    union(publishedRows(root, 'coverage').map((row) => ({ from: row[2] as number, to: row[3] as number })));
  const both = async (one: string, two: string): Promise<[string, string]> => [
    await united(copyOf(one), [two]),
    await united(copyOf(two), [one]),
  ];

  test('make a day complete of two halves', async () => {
    const [one, two] = [
      await answered({ windows: [hours(0, 12)] }),
      await answered({
        windows: [hours(12, 24)],
        ticks: { t: Float64Array.of(day0 + 13 * hourMs), p: Float64Array.of(1) },
      }),
    ];
    for (const root of await both(one, two)) {
      const archive = opened({ root });
      expect(statesOf(archive)).toEqual({ '2026-06-01': 'complete' });
      archive.close();
    }
  });

  test('keep days whose symbols are complete in one of them each', async () => {
    const recorded = async (complete: string, missing: string): Promise<string> => {
      const archive = opened();
      const [early, late] = [hours(0, 12), hours(12, 24)];
      // Published windows have the earlier time, which is before the end of the day.
      append(archive, answer(complete, [[day0, 0.5]], { windows: [early], observedAt: day0 + 12 * hourMs }));
      append(archive, answer(complete, [[day0 + 13 * hourMs, 0.5]], { windows: [hours(11, 24)] }));
      append(archive, answer(missing, [[day0, 0.5]], { windows: [late] }));
      await publishNow(archive);
      expect(statesOf(archive)).toEqual({ '2026-06-01': 'incomplete' });
      archive.close();
      return archive.layout.root;
    };
    for (const root of await both(await recorded('A', 'B'), await recorded('B', 'A'))) {
      const archive = opened({ root });
      expect(statesOf(archive)).toEqual({ '2026-06-01': 'complete' });
      archive.close();
    }
  });

  test('take no proof that one of them withdrew later, and all that came after', async () => {
    const withdrew = await answered({ windows: [hours(0, 24)] }, { withdrawn: [hours(6, 12)], observedAt: now + 5 });
    const older = await answered({ windows: [hours(0, 24)], observedAt: now + 5 });
    const later = await answered({ windows: [hours(0, 24)], observedAt: now + 6 });
    for (const root of await both(withdrew, older)) expect(windowsOf(root)).toHaveLength(2);
    for (const root of await both(withdrew, later)) expect(windowsOf(root)).toHaveLength(1);
    // The list goes on to a third archive.
    const [passed] = await both(older, withdrew);
    for (const root of await both(passed, older)) expect(windowsOf(root)).toHaveLength(2);
    for (const root of await both(passed, later)) {
      expect(windowsOf(root)).toHaveLength(1);
      const before = hashes(root, '**/*');
      await united(root, [withdrew, older, passed]);
      expect(hashes(root, '**/*')).toEqual(before);
    }
  });

  test('keep a withdrawal when the state is lost, and take what was fetched after it', async () => {
    const whole = { windows: [hours(0, 24)] };
    const rest = [hours(0, 6), hours(12, 24)];
    const withdrew = await answered(whole, { withdrawn: [hours(6, 12)], observedAt: now + 5 });
    const older = await answered(whole);
    const again = await answered(whole, { ...whole, observedAt: now + 6 });
    for (const root of await both(withdrew, older)) {
      expect(windowsOf(root)).toEqual(rest);
      const without = copyOf(root, false);
      const states = opened({ root: without });
      expect(union(readPublishedCoverage(states.state.db, 'A'))).toEqual(rest);
      expect(statesOf(states)).toEqual({ '2026-06-01': 'incomplete' });
      states.close();
      expect(windowsOf(await united(without, [older]))).toEqual(rest);
      for (const covered of await both(without, again)) expect(windowsOf(covered)).toEqual([hours(0, 24)]);
    }
  });

  test('keep what one of them fetched after a withdrawal beside older proof, if a third one withdrew it before', async () => {
    const whole = { windows: [hours(0, 24)] };
    const again = await answered(
      whole,
      { withdrawn: [hours(6, 12)], observedAt: now + 5 },
      { windows: [hours(6, 12)], observedAt: now + 9 },
    );
    const withdrew = await answered(whole, { withdrawn: [hours(6, 12)], observedAt: now + 7 });
    const older = await answered(whole);
    for (const order of [
      [again, withdrew, older],
      [withdrew, older, again],
      [older, again, withdrew],
    ])
      expect(windowsOf(await united(copyOf(order[0]!), order.slice(1)))).toEqual([hours(0, 24)]);
  });

  test('publish the same windows, where a withdrawal was extended', async () => {
    const inferred = { ...hours(0, 2), fetchedAt: now, evidence: 'inferred' } as const;
    const one = await answered({ withdrawn: [hours(0, 1)] }, { withdrawn: [hours(0, 2)], covered: [inferred] });
    const other = await answered({ symbol: 'B', windows: [hours(0, 1)] });
    const [ab, ba] = await both(one, other);
    expect(coverageOf(ab)).toHaveLength(2);
    expect(contentsOf(ab)).toEqual(contentsOf(ba));
  });

  test('bring back no accepted gap that was revoked after it was accepted', async () => {
    const gap = { symbol: 'A', ...hours(8, 10), reason: 'known', reportedAt: null };
    const accepting = async (acceptedAt: number): Promise<string> => {
      const archive = opened({ root: await answered({ windows: [hours(0, 6)] }) });
      acceptWindows(archive.state.db, [{ ...gap, acceptedAt }]);
      await publishNow(archive, now, 'run', { judges: true });
      archive.close();
      return archive.layout.root;
    };
    const archive = opened({ root: await accepting(1) });
    revokeGaps(archive.state.db, 'A', hours(0, 9), 5);
    await uniteNow(archive, await accepting(3));
    expect(archive.readManifest().accepted).toMatchObject([hours(9, 10)]);
    await uniteNow(archive, await accepting(6));
    expect(archive.readManifest().accepted).toMatchObject([hours(8, 10)]);
  });

  test('begin again if another run publishes meanwhile', async () => {
    const other = await answered({ windows: [hours(0, 12)] });
    const root = await answered({ windows: [hours(12, 24)] });
    let isPublished = false;
    const writeInBackground: Disk['writeInBackground'] = (path, bytes) => {
      if (!isPublished) setMeta(archive.state.db, commitIdKey, '0'.repeat(32));
      isPublished = true;
      return systemDisk.writeInBackground(path, bytes);
    };
    const archive: Archive = opened({ root, disk: { ...systemDisk, writeInBackground } });
    await uniteNow(archive, other);
    expect(isPublished).toBe(true);
    expect(statesOf(archive)).toEqual({ '2026-06-01': 'complete' });
  });

  test('keep the precedence that the state knows: a later poll does not replace a price of a preferred import', async () => {
    const at = day0 + hourMs;
    const polled = (p: number, observedAt: number) => answer('A', [[at, p]], { observedAt });
    const preferred = { origin: 'import', rank: precedenceRanks.preferred, windows: [] } as const;
    const recorded = async (...answers: ReturnType<typeof answer>[]): Promise<string> => {
      const archive = opened();
      for (const one of answers) {
        append(archive, one);
        await publishNow(archive);
      }
      archive.close();
      return archive.layout.root;
    };
    const own = await recorded(polled(0.5, now), answer('A', [[at, 0.6]], { ...preferred, observedAt: day0 }));
    // One that has the same price, and one that has the one that was replaced.
    for (const other of [await recorded(polled(0.6, now + 5)), await recorded(polled(0.5, now + 5))]) {
      const archive = opened({ root: await united(copyOf(own), [other]) });
      append(archive, polled(0.4, now + 9));
      await publishNow(archive);
      expect(publishedTicks(archive.layout.root)).toEqual([expect.stringContaining(' 0.6')]);
    }
  });

  test('restore what one of them lost, if the other has as many ticks', async () => {
    const ticks = { t: Float64Array.of(day0 + 7 * hourMs), p: Float64Array.of(0.5) };
    const lost = await answered({ windows: [hours(0, 6)] });
    const archive = opened({ root: lost });
    recordLost(archive.state.db, [{ dataset: 'ticks', symbol: 'A', ...hours(6, 12), ticks: 1 }], now);
    await publishNow(archive, now, 'run', { judges: true });
    expect(archive.readManifest().lost).toHaveLength(1);
    archive.close();
    const [full, empty] = [
      await answered({ windows: [hours(0, 24)], ticks }),
      await answered({ windows: [hours(0, 24)] }),
    ];
    for (const root of await both(lost, full))
      expect(contentsOf(root)).toMatchObject({ lost: undefined, ticks: [expect.any(String)] });
    for (const root of await both(lost, empty)) {
      expect(contentsOf(root).lost).toEqual([{ dataset: 'ticks', symbol: 'A', ...hours(6, 12), ticks: 1 }]);
      expect(coverageOf(root)).toHaveLength(2);
    }
  });

  /** An archive with these answers, that lost a window without ticks. */
  const losing = async (window: ReturnType<typeof hours>, ...answers: Parameters<typeof answer>[2][]) => {
    const root = await answered(...answers);
    const archive = opened({ root });
    recordLost(archive.state.db, [{ dataset: 'ticks', symbol: 'A', ...window, ticks: 0 }], now);
    await publishNow(archive, now, 'run', { judges: true });
    archive.close();
    return root;
  };

  test('restore no window that one of them both lost and withdrew', async () => {
    const full = await answered({ windows: [hours(0, 24)] });
    const withdrew = { withdrawn: [hours(6, 12)], observedAt: now + 5 };
    const lost = await losing(hours(6, 12), { windows: [hours(0, 6)] }, withdrew);
    for (const root of await both(full, lost)) {
      expect(coverageOf(root)).toHaveLength(2);
      expect(contentsOf(root).lost).toHaveLength(1);
    }
  });

  test('keep a day complete in which only the other one lost a window', async () => {
    // Published windows have the earlier time, which is before the end of the day.
    const halves = [{ windows: [hours(0, 12)], observedAt: day0 + 14 * hourMs }, { windows: [hours(12, 24)] }];
    const full = await answered(...halves);
    const lost = await losing(hours(13, 20), { windows: [hours(0, 13), hours(20, 24)] });
    const archive = opened({ root: await united(full, [lost]) });
    expect(statesOf(archive)).toEqual({ '2026-06-01': 'complete' });
  });

  test('lose no market list that is recorded meanwhile', async () => {
    const other = opened();
    const list = (archive: Archive, at: number, isActive: boolean) =>
      recordMarkets(archive.state.db, [market('A', { isActive })], at, true);
    list(other, now, true);
    append(other, answer('A', [[day0, 0.5]]));
    await publishNow(other);
    let isListed = false;
    const writeInBackground: Disk['writeInBackground'] = (path, bytes) => {
      if (!isListed && path.includes('symbols')) list(archive, now + hourMs, false);
      isListed ||= path.includes('symbols');
      return systemDisk.writeInBackground(path, bytes);
    };
    const archive: Archive = opened({ disk: { ...systemDisk, writeInBackground } });
    await uniteNow(archive, other.layout.root);
    expect(isListed).toBe(true);
    expect(readAllSymbols(archive.state.db)).toMatchObject([{ isActive: false, lastSeen: now + hourMs, ticks: 1 }]);
  });

  test('keep the gaps that were accepted in either', async () => {
    const accepting = async (from: number, reason: string, acceptedAt: number): Promise<string> => {
      const root = await answered({ windows: [hours(0, 6)] });
      const archive = opened({ root });
      acceptWindows(archive.state.db, [
        { symbol: 'A', ...hours(from, from + 4), reason, acceptedAt, reportedAt: null },
      ]);
      await publishNow(archive, now, 'run', { judges: true });
      archive.close();
      return root;
    };
    for (const root of await both(await accepting(8, 'early', 1), await accepting(10, 'late', 2)))
      expect(contentsOf(root).accepted).toMatchObject([
        { ...hours(8, 10), reason: 'early' },
        { ...hours(10, 14), reason: 'late' },
      ]);
  });
});
