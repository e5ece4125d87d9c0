import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { palette } from '../../base/html.ts';

/** A file that the page loads. */
export interface Asset {
  readonly type: string;
  readonly bytes: Buffer;
  /** In quotes, as the header has it. */
  readonly etag: string;
}

export interface Assets {
  readonly files: ReadonlyMap<string, Asset>;
  /** Changes with any byte of any file: paths that hold it may be kept for good. */
  readonly stamp: string;
}

const mediaTypes: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml; charset=utf-8',
};

let cachedAssets: Assets | undefined;

/**
 * What the page is made of: the client, as it is built or with its types taken out, the colours of every page, and the
 * chart library. Read when it is first asked for, and once, as a process lives no longer than the files of its program stay the same.
 */
export function loadAssets(): Assets {
  cachedAssets ??= readAssets();
  return cachedAssets;
}

function readAssets(): Assets {
  const folder = join(import.meta.dirname, 'client');
  const uplot = join(dirname(createRequire(import.meta.url).resolve('uplot/package.json')), 'dist');
  const own = readdirSync(folder)
    .filter((name) => /^[a-z-]+\.(ts|js|css|svg)$/.test(name))
    .map((name) => [name.replace(/\.ts$/, '.js'), readContent(join(folder, name))] as const);
  const files = new Map<string, Asset>(
    [
      ...own,
      ['uplot.js', readFileSync(join(uplot, 'uPlot.esm.js'))] as const,
      ['uplot.css', readFileSync(join(uplot, 'uPlot.min.css'))] as const,
      ['palette.css', Buffer.from(palette)] as const,
    ].map(([name, bytes]) => [
      name,
      { type: mediaTypes[name.split('.').at(-1)!]!, bytes, etag: `"${hashContent(bytes)}"` },
    ]),
  );
  const stamp = hashContent([...files].map(([name, { etag }]) => name + etag).join('\n')).slice(0, 16);
  return { files, stamp };
}

function readContent(path: string): Buffer {
  const bytes = readFileSync(path);
  if (!path.endsWith('.ts')) return bytes;
  // What the build does, done at the start: the browser gets the same modules from a checkout and from the package.
  const text = stripTypeScriptTypes(bytes.toString('utf8'));
  return Buffer.from(text.replace(/(\bfrom\s*')(\.\/[a-z-]+)\.ts'/g, "$1$2.js'"));
}

const hashContent = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');
