import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { limitMs } from '../../harness/limits.ts';
import { needsPath } from '../../harness/needs.ts';
import type { Serving } from '../serving.ts';
import { leastContrast } from './contrast.ts';

// Test setup for pages: Debian's Chromium, one per file, with a new context for each visit.

/** The same browser without windows, which opens a page in a third of the CPU time. */
const headlessShell = '/usr/bin/chromium-headless-shell';
const executablePath = existsSync(headlessShell) ? headlessShell : '/usr/bin/chromium';
const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Options of tests that need a browser. */
export const needsBrowser = needsPath(executablePath, `there is no ${executablePath}: .ci/tools installs it`);

/** Timeout of an element on the page: less than that of a test, so that the error names the element. */
const waitMsMax = limitMs / 5;
export const soon = { timeout: waitMsMax };

let browser: Browser | undefined;

/** Call it once in a file. */
export function withBrowser(): void {
  beforeAll(async () => {
    if (existsSync(executablePath))
      browser = await chromium.launch({ executablePath, args: flags, timeout: waitMsMax });
  });
  afterAll(() => browser?.close());
}

export interface Visit {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors and warnings of the console, and uncaught exceptions. */
  readonly complaints: string[];
  /** All requested URLs. */
  readonly requested: string[];
}

/** Opens the page in a new context, with the key stored unless `key` is null. */
export async function visit(
  { url, key: usual }: Serving,
  { hash = '', key = usual, ...options }: { hash?: string; key?: string | null } & BrowserContextOptions = {},
): Promise<Visit> {
  const opened = await newVisit(options);
  if (key !== null) await opened.page.addInitScript(`sessionStorage.setItem('oddslake.key', ${JSON.stringify(key)})`);
  await opened.page.goto(`${url}/${hash}`);
  return opened;
}

/** Opens a file in a new context without network access. */
export async function visitFile(path: string, options: BrowserContextOptions = {}): Promise<Visit> {
  const opened = await newVisit({ offline: true, ...options });
  await opened.page.goto(`file://${path}`);
  return opened;
}

/** Widths and schemes in which the pages are checked. */
export const looks = ([1280, 390] as const).flatMap((width) =>
  (['light', 'dark'] as const).map((scheme) => [width, scheme] as const),
);

/**
 * Opens a file, and expects no error, request, clipping, low contrast, wrong paper or injected script. Returns the widths of the
 * plots that are shown, too.
 */
export async function expectSound(file: string, width: number, colorScheme: 'light' | 'dark', plots: string) {
  const { page, complaints, requested } = await visitFile(file, { viewport: { width, height: 900 }, colorScheme });
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
  const [contrast, of] = (await page.evaluate(leastContrast)) as [number, string];
  expect(contrast, of).toBeGreaterThan(4.5);
  const paper = await page.evaluate('getComputedStyle(document.body).backgroundColor');
  expect(paper).toBe(colorScheme === 'dark' ? 'rgb(20, 25, 27)' : 'rgb(252, 252, 251)');
  expect(await page.evaluate('globalThis.hit')).toBeUndefined();
  expect([complaints, requested]).toEqual([[], [`file://${file}`]]);
  const widths = `[...document.querySelectorAll('${plots}')].map((svg) => svg.getBoundingClientRect().width)`;
  const shown = ((await page.evaluate(widths)) as number[]).filter((one) => one > 0);
  return { page, shown };
}

async function newVisit(options: BrowserContextOptions): Promise<Visit> {
  const context = await browser!.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(waitMsMax);
  const complaints: string[] = [];
  const requested: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => requested.push(request.url()));
  return { page, context, complaints, requested };
}

/** Waits until the chart is drawn. */
export const chartDrawn = (page: Page): Promise<void> => page.locator('figure:not([aria-busy]) canvas').waitFor();

/** Colours of the chart: `[red, green, blue]` of the pixels in a row of the canvas, at shares of its size. */
export async function pixelColumn(page: Page, t: number, range: { from: number; to: number }): Promise<Set<string>> {
  return new Set(
    (await page.evaluate(`(() => {
      const canvas = document.querySelector('figure canvas');
      const over = document.querySelector('figure .u-over').getBoundingClientRect();
      const box = canvas.getBoundingClientRect();
      const scale = canvas.width / box.width;
      const share = ${(t - range.from) / (range.to - range.from)};
      const x = Math.round((over.left - box.left + over.width * share) * scale);
      const top = Math.round((over.top - box.top) * scale);
      const { data } = canvas.getContext('2d').getImageData(x, top, 1, Math.round(over.height * scale));
      const seen = [];
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0) seen.push([data[i], data[i + 1], data[i + 2]].join());
      return seen;
    })()`)) as string[],
  );
}
