import { expect, test } from 'vitest';
import { type PageLayout, pageLayouts } from '../../src/sandbox/page-formats.ts';
import {
  columns,
  dayMs,
  fetchPage,
  findBusiest,
  hourMs,
  noon,
  openSandbox,
  type Page,
  sendRequest,
} from './sandbox-requests.ts';

test('returns all ticks by pages from the earliest on', async () => {
  const box = await openSandbox({ cap: 100, echoWindow: 'tightened' });
  const { symbol, from, to, rows } = findBusiest(box);
  const ticks: Page['ticks'][number][] = [];
  for (let cursor = from; cursor < to; ) {
    const part = await fetchPage(box, { symbol, from: cursor, to, limit: 5000 });
    expect(part.count).toBe(part.ticks.length);
    expect(part.count).toBeLessThanOrEqual(100);
    expect(part.from).toBe(cursor);
    ticks.push(...part.ticks);
    cursor = part.to;
  }
  expect(ticks.length).toBe(rows);
  expect(columns(ticks)).toEqual(box.readTruth(symbol, { from, to }));
});

test('returns all ticks by pages from the latest back', async () => {
  const box = await openSandbox({ cap: 100, truncate: 'latest', echoWindow: 'tightened' });
  const { symbol, from, to } = findBusiest(box);
  const ticks: Page['ticks'][number][] = [];
  for (let end = to; end > from; ) {
    const part = await fetchPage(box, { symbol, from, to: end });
    expect(part.to).toBe(end);
    ticks.unshift(...part.ticks);
    end = part.from;
  }
  expect(columns(ticks)).toEqual(box.readTruth(symbol, { from, to }));
});

test('truncates a page silently and echoes the requested window', async () => {
  const box = await openSandbox({ cap: 50 });
  const { symbol, from, to } = findBusiest(box);
  expect(await fetchPage(box, { symbol, from, to, limit: 500 })).toMatchObject({
    count: 50,
    from,
    to,
    generated_at: noon,
  });
  expect(await fetchPage(box, { symbol, from, to, limit: 20 })).toMatchObject({ count: 20, from, to });
  box.set({ defaultLimit: 30 });
  expect((await fetchPage(box, { symbol, from, to })).count).toBe(30);
  box.set({ echoWindow: 'none' });
  expect(Object.keys(await fetchPage(box, { symbol, from, to }))).toEqual(['symbol', 'ticks', 'count', 'generated_at']);
});

test('sends the documented keys in the documented order without spaces', async () => {
  const box = await openSandbox({ cap: 2 });
  const { symbol, from, to } = findBusiest(box);
  const { t, p } = box.readTruth(symbol, { from, to });
  expect(await (await sendRequest(box, 'ticks', { symbol, from, to })).text()).toBe(
    `{"symbol":"${symbol}","ticks":[{"t":${t[0]},"p":${p[0]}},{"t":${t[1]},"p":${p[1]}}],"count":2,"from":${from},"to":${to},"generated_at":${noon}}`,
  );
});

test('writes the same page in every layout', async () => {
  const box = await openSandbox({ cap: 40 });
  const { symbol, from, to } = findBusiest(box);
  const compact = await fetchPage(box, { symbol, from, to });
  const texts = new Set<string>();
  const layouts: (PageLayout | 'mixed')[] = [...pageLayouts, 'mixed'];
  for (const layout of layouts) {
    box.set({ layout });
    const text = await (await sendRequest(box, 'ticks', { symbol, from, to })).text();
    texts.add(text);
    const read = JSON.parse(text) as Page;
    expect(read).toMatchObject({ symbol, count: 40, from, to, generated_at: noon });
    expect(read.ticks.map(({ t, p }) => ({ t, p }))).toEqual(compact.ticks);
  }
  expect(texts.size).toBe(pageLayouts.length);
});

test('reverses and shuffles a page without losing a tick', async () => {
  const box = await openSandbox({ cap: 200 });
  const { symbol, from, to } = findBusiest(box);
  const { ticks } = await fetchPage(box, { symbol, from, to });
  box.set({ order: 'newest-first' });
  expect((await fetchPage(box, { symbol, from, to })).ticks).toEqual(ticks.toReversed());
  box.set({ order: 'shuffled' });
  const shuffled = (await fetchPage(box, { symbol, from, to })).ticks;
  expect(shuffled).not.toEqual(ticks);
  expect(shuffled.toSorted((a, b) => a.t - b.t)).toEqual(ticks);
});

test('repeats ticks inside a page and counts them toward the cap', async () => {
  const box = await openSandbox({ cap: 100, repeatShare: 0.5 });
  const { symbol, from, to } = findBusiest(box);
  const full = await fetchPage(box, { symbol, from, to });
  expect(full.count).toBe(100);
  expect(full.ticks.length).toBe(100);
  const singles = new Set(full.ticks.map(({ t }) => t)).size;
  expect(singles).toBeGreaterThan(55);
  expect(singles).toBeLessThan(80);
  expect((await fetchPage(box, { symbol, from, to, limit: 1 })).count).toBe(1);
});

test('includes or excludes either end of a window', async () => {
  const box = await openSandbox();
  const { symbol, from: start, to: end } = findBusiest(box);
  const { t } = box.readTruth(symbol, { from: start, to: end });
  const [from, to] = [t[5]!, t[9]!];
  const timesOf = async (fromInclusive: boolean, toInclusive: boolean) => {
    box.set({ fromInclusive, toInclusive });
    return (await fetchPage(box, { symbol, from, to })).ticks.map((tick) => t.indexOf(tick.t));
  };
  expect(await timesOf(true, false)).toEqual([5, 6, 7, 8]);
  expect(await timesOf(true, true)).toEqual([5, 6, 7, 8, 9]);
  expect(await timesOf(false, false)).toEqual([6, 7, 8]);
  expect(await timesOf(false, true)).toEqual([6, 7, 8, 9]);
});

test('limits windows to now and to the retention, and states it', async () => {
  const box = await openSandbox();
  const { symbol } = findBusiest(box);
  expect(await fetchPage(box, { symbol, from: noon - hourMs, to: noon + hourMs })).toMatchObject({
    from: noon - hourMs,
    to: noon,
  });
  expect(await fetchPage(box, { symbol, from: noon + hourMs })).toMatchObject({ from: noon, to: noon, count: 0 });
  expect(await fetchPage(box, { symbol })).toMatchObject({ from: noon - dayMs, to: noon });
  box.set({ retentionMs: 3 * hourMs });
  const kept = await fetchPage(box, { symbol, from: noon - dayMs });
  expect(kept.from).toBe(noon - 3 * hourMs);
  expect(columns(kept.ticks)).toEqual(box.readTruth(symbol, { from: noon - 3 * hourMs, to: noon }));
  const before = noon - 5 * hourMs;
  expect(await fetchPage(box, { symbol, from: before - hourMs, to: before })).toMatchObject({
    from: before,
    to: before,
    count: 0,
  });
});

test('shows late ticks after their delay only, and all of them in the end', async () => {
  const box = await openSandbox({ lateShare: 0.3, lateDelayMsMax: 2 * hourMs });
  const window = { from: noon - hourMs, to: noon };
  const { symbol } = findBusiest(box, window);
  const ticks = box.readTruth(symbol, window, noon + dayMs);
  const first = columns((await fetchPage(box, { symbol, ...window })).ticks);
  expect(first).toEqual(box.readTruth(symbol, window));
  expect(first.t.length).toBeLessThan(ticks.t.length);
  box.set({ nowMs: noon + hourMs });
  const second = columns((await fetchPage(box, { symbol, ...window })).ticks);
  expect(second.t.length).toBeGreaterThan(first.t.length);
  expect(box.readTruth(symbol, { from: 0, to: Number.MAX_SAFE_INTEGER }).t.length).toBeGreaterThan(ticks.t.length);
  box.set({ nowMs: noon + 3 * hourMs });
  expect(columns((await fetchPage(box, { symbol, ...window })).ticks)).toEqual(ticks);
});

test('revises the price of some ticks once, some time after them', async () => {
  const box = await openSandbox({ reviseShare: 0.3, reviseAfterMs: 2 * hourMs });
  const window = { from: noon - hourMs, to: noon };
  const { symbol } = findBusiest(box, window);
  const final = box.readTruth(symbol, window, noon + dayMs);
  const first = columns((await fetchPage(box, { symbol, ...window })).ticks);
  expect(first.t).toEqual(final.t);
  const changed = first.p.filter((price, i) => price !== final.p[i]).length;
  expect(changed).toBeGreaterThan(0);
  expect(changed).toBeLessThan(first.p.length / 2);
  expect(first.p.every((price) => price >= 0 && price <= 1)).toBe(true);
  box.set({ nowMs: noon + 2 * hourMs });
  expect(columns((await fetchPage(box, { symbol, ...window })).ticks)).toEqual(final);
});

test('thins out old ticks, always the same ones, and keeps recent ones', async () => {
  const box = await openSandbox({ ticksPerDay: 400 });
  const window = { from: noon - 12 * hourMs, to: noon };
  const { symbol } = findBusiest(box, window);
  const allTicks = box.readTruth(symbol, window);
  box.set({ thinShare: 0.5, thinAfterMs: 6 * hourMs });
  const remaining = columns((await fetchPage(box, { symbol, ...window })).ticks);
  expect(columns((await fetchPage(box, { symbol, ...window })).ticks)).toEqual(remaining);
  const young = allTicks.t.filter((t) => t >= noon - 6 * hourMs);
  expect([...remaining.t].filter((t) => t >= noon - 6 * hourMs)).toEqual([...young]);
  const [before, after] = [allTicks.t.length - young.length, remaining.t.length - young.length];
  expect(after).toBeGreaterThan(before * 0.3);
  expect(after).toBeLessThan(before * 0.7);
  expect([...remaining.t].every((t) => allTicks.t.includes(t))).toBe(true);
});

test('compresses pages for clients that accept it, if enabled', async () => {
  const box = await openSandbox({ cap: 500 });
  const { symbol, from, to } = findBusiest(box);
  expect((await sendRequest(box, 'ticks', { symbol, from, to })).headers.get('content-encoding')).toBe('gzip');
  box.set({ gzip: false });
  const plain = await sendRequest(box, 'ticks', { symbol, from, to });
  expect(plain.headers.get('content-encoding')).toBeNull();
  expect(plain.headers.get('content-type')).toBe('application/json');
});
