import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { palette } from '../../base/html.ts';

/** A static file of the page. */
interface Asset {
  readonly type: string;
  readonly bytes: Buffer;
  /** With quotes, as in the header. */
  readonly etag: string;
}

interface Assets {
  readonly files: ReadonlyMap<string, Asset>;
  /** A hash of all files: a URL that contains it may be cached forever. */
  readonly stamp: string;
}

const mediaTypes: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml; charset=utf-8',
};

let cachedAssets: Assets | undefined;

/**
 * The files of the page: the client (built, or with its types stripped), the colours of every page, and the chart
 * library. They are read once, on first use: the files of a program do not change while it runs.
 */
export function loadAssets(): Assets {
  cachedAssets ??= readAssets();
  return cachedAssets;
}

function readAssets(): Assets {
  const folder = join(import.meta.dirname, 'client');
  const uplot = join(dirname(createRequire(import.meta.url).resolve('uplot/package.json')), 'dist');
  const clientFiles = readdirSync(folder)
    .filter((name) => /^[a-z-]+\.(ts|js|css|svg)$/.test(name))
    .map((name) => [name.replace(/\.ts$/, '.js'), readContent(join(folder, name))] as const);
  const files = new Map<string, Asset>(
    [
      ...clientFiles,
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
  // The same as the build does, so that a checkout and the package serve the same modules.
  const text = stripTypeScriptTypes(bytes.toString('utf8'));
  return Buffer.from(text.replace(/(\bfrom\s*')(\.\/[a-z-]+)\.ts'/g, "$1$2.js'"));
}

const hashContent = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');
