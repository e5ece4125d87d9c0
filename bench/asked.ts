import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readRawFile } from '../src/archive/raw/raw-file.ts';
import { buildRequestPath } from '../src/client/client.ts';
import { paths } from '../src/contract/paths.ts';
import type { RawRequest } from '../src/contract/raw-page.ts';

/** Longest piece of raw pages, decompressed. */
const pieceBytesMax = 2 ** 30;

/**
 * Writes the paths of all that the runs of an archive asked, by the answers that it keeps as they came, one a line and in
 * their order. Returns how many there are.
 */
export async function writeAsked(archive: string, file: string): Promise<number> {
  const asked: string[] = [];
  for (const name of globSync('.oddslake/raw/*/*.raw', { cwd: archive }).sort()) {
    for await (const piece of readRawFile(readFileSync(join(archive, name)), pieceBytesMax)) {
      if (piece.kind !== 'pages') throw new Error(`${name} is ${piece.kind}`);
      for (const page of piece.pages) asked.push(pathOf(page.asked));
    }
  }
  writeFileSync(file, `${asked.join('\n')}\n`);
  return asked.length;
}

function pathOf(asked: RawRequest): string {
  const { route, ...rest } = asked;
  const { meaning: _, ...query } = { meaning: null, ...rest };
  const given = Object.entries(query).filter((pair): pair is [string, string | number] => pair[1] !== null);
  return buildRequestPath(paths[route], Object.fromEntries(given));
}
