import { expect, test } from 'vitest';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { recordOwed } from '../../src/archive/journal/gap-records.ts';
import { finishRun } from '../../src/archive/journal/runs.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { readArchiveStatus } from '../../src/archive/read/archive-status.ts';
import { readStatus } from '../../src/archive/read/status.ts';
import { Html, html } from '../../src/base/html.ts';
import { countCompleteDays } from '../../src/contract/completeness-counts.ts';
import { computeTotals, renderPageDocument } from '../../src/server/web/document.ts';
import { answer, append, day0, dayMs, hourMs, market, now, opened, publishNow } from '../archive/scratch.ts';
import { serving, sharedServing } from './serving.ts';

const bare = { headers: { authorization: '' } };

async function published() {
  const archive = opened();
  recordMarkets(archive.state.db, [market('AAA', { opensAt: day0 }), market('BBB')], now, true);
  append(
    archive,
    answer(
      'AAA',
      [
        [day0, 0.5],
        [day0 + dayMs, 0.25],
      ],
      { windows: [{ from: day0, to: now - hourMs }] },
    ),
  );
  await publishNow(archive);
  return archive;
}

test('serves the page without a key, with a strict content security policy', async () => {
  const { ask } = await serving(await published());
  const page = await ask('/', bare);
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  const policy = page.headers.get('content-security-policy')!;
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
  expect(page.headers.get('cache-control')).toBe('no-cache');
  const text = await page.text();
  // Nothing that the policy forbids, and no other host.
  expect(text).not.toMatch(/<style|<script(?![^>]* src=")|\sstyle=|\son\w+=|https?:\/\//);
  expect(text).not.toContain('AAA');
});

test('shows the totals of the manifest', async () => {
  const archive = await published();
  const manifest = archive.readManifest();
  const totals = computeTotals(manifest, { nowMs: now, lagMsMax: dayMs, status: readArchiveStatus(archive, now) });
  expect(totals).toMatchObject({ ticks: 2, symbols: 2, generation: 1, days: 3, reached: manifest.reached });
  // The day that is not over does not count, as in the report.
  const lifetimeRules = { lookbackMs: 0, lingerMs: dayMs };
  const status = readStatus(archive, { namedSymbols: null, views: [], lifetimeRules }, now);
  expect(countCompleteDays(status.completeness)).toEqual({ complete: totals.daysComplete, total: totals.days });
  expect(totals.span).toEqual({ first: day0, last: day0 + dayMs });
  expect(totals.datasets.map(({ name }) => name)).toEqual(['ticks', 'symbols', 'candles_1h', 'candles_1d', 'coverage']);
  const bytes = listManifestFiles(manifest).reduce((sum, file) => sum + file.bytes, 0);
  expect(totals.bytes).toBe(bytes);
  const page = renderPageDocument({ ...totals, reached: now - 90 * 60_000 }, now, '/assets/x', '1.0.0');
  expect(page).toContain('<dd>1 h 30 min</dd>');
});

test('shows the verdict, without the symbols and messages of its findings', async () => {
  const archive = await published();
  const failures = [{ kind: 'failed', from: now - hourMs, to: now, reason: 'it is broken' }] as const;
  recordOwed(archive.state.db, [{ symbol: 'AAA', covered: [], failures }], now);
  finishRun(archive.state.db, 'run', now, 0, 'null');
  const { ask } = await serving(archive);
  expect(await (await ask('/', bare)).text()).toContain('<p class="verdict warning list-only">Failing symbols</p>');
  const text = await (await ask('/readyz', bare)).text();
  expect(JSON.parse(text)).toMatchObject({
    verdict: { state: 'warning', text: 'Failing symbols' },
    findings: [{ kind: 'failing symbols', severity: 'warning' }],
  });
  expect(text).not.toMatch(/AAA|broken/);
});

test('says that an archive is empty', async () => {
  const { ask } = await serving(opened());
  const text = await (await ask('/', bare)).text();
  expect(text).toContain('Nothing is published yet');
  expect(text).toContain('<code>oddslake nightly</code>');
});

test('serves every file of the page as immutable', async () => {
  const { ask } = await serving(opened());
  const wanted = [...(await (await ask('/', bare)).text()).matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(
    ([, path]) => path!,
  );
  const seen = new Set(wanted);
  for (const path of wanted) {
    const file = await ask(path, bare);
    expect([path, file.status]).toEqual([path, 200]);
    expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    const text = await file.text();
    expect(text).not.toMatch(/from '\.\/[a-z-]+\.ts'/);
    for (const [, name] of path.endsWith('.js') ? text.matchAll(/\bfrom '\.\/([a-z-]+\.js)'/g) : []) {
      const next = path.replace(/[^/]+$/, name!);
      if (!seen.has(next)) wanted.push(next);
      seen.add(next);
    }
  }
  expect(wanted.length).toBeGreaterThan(15);
});

test('responds with 304 for a known file, and forbids caching under an old stamp', async () => {
  const { ask } = await serving(opened());
  const [, path] = /href="(\/assets\/[^"]+\.css)"/.exec(await (await ask('/', bare)).text())!;
  const etag = (await ask(path!, bare)).headers.get('etag')!;
  expect(etag).toMatch(/^"[0-9a-f]{64}(-gzip)?"$/);
  for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const again = await ask(path!, { headers: { authorization: '', 'if-none-match': tags } });
    expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', etag]);
  }
  expect((await ask(path!, { headers: { authorization: '', 'if-none-match': '"other"' } })).status).toBe(200);
  const old = await ask(path!.replace(/assets\/[^/]+/, 'assets/0000'), bare);
  expect([old.status, old.headers.get('cache-control')]).toEqual([200, 'no-cache']);
});

const shared = sharedServing();

test.each(['view.ts', '..%2f..%2fserver.ts', '%2e%2e%2fdocument.ts', 'uplot.d.ts', 'nothing.js', '__proto__'])(
  'does not serve %s',
  async (name) => {
    const { ask } = shared();
    expect((await ask(`/assets/x/${name}`, bare)).status).toBe(404);
  },
);

test('escapes text once, and HTML not at all', () => {
  const inner = html`<b>${'<i>&"\''}</b>`;
  expect(inner.text).toBe('<b>&lt;i&gt;&amp;&quot;&#39;</b>');
  expect(html`${[inner, new Html('<hr>')]}${3}`.text).toBe(`${inner.text}<hr>3`);
});
