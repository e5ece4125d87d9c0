import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readRawFile } from '../src/archive/raw/raw-file.ts';
import { buildRequestPath } from '../src/client/client.ts';
import { paths } from '../src/contract/paths.ts';
import type { RawRequest } from '../src/contract/raw-page.ts';

/** Maximum length of a decompressed piece of raw pages, bytes. */
const pieceBytesMax = 2 ** 30;

/**
 * Writes the request paths of an archive's runs to a file, one per line and in order, as recorded in the raw responses.
 * Returns their number.
 */
export async function writeRequestPaths(archive: string, file: string): Promise<number> {
  const request: string[] = [];
  for (const name of globSync('.oddslake/raw/*/*.raw', { cwd: archive }).sort()) {
    for await (const piece of readRawFile(readFileSync(join(archive, name)), pieceBytesMax)) {
      if (piece.kind !== 'pages') throw new Error(`${name} is ${piece.kind}`);
      for (const page of piece.pages) request.push(toPath(page.asked));
    }
  }
  writeFileSync(file, `${request.join('\n')}\n`);
  return request.length;
}

function toPath(request: RawRequest): string {
  const { route, ...rest } = request;
  const { meaning: _, ...query } = { meaning: null, ...rest };
  const given = Object.entries(query).filter((pair): pair is [string, string | number] => pair[1] !== null);
  return buildRequestPath(paths[route], Object.fromEntries(given));
}
