import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

/** Paths below the root of what an archive has quarantined, oldest first. */
export const quarantineFiles = (root: string): string[] =>
  globSync('.oddslake/quarantine/generation-*.ndjson.gz', { cwd: root }).sort();

/** The lines of all of it, in the order of its publishes. */
export const quarantineLines = (root: string): string[] =>
  quarantineFiles(root).flatMap((path) => {
    const text = gunzipSync(readFileSync(join(root, path))).toString();
    return text.trimEnd().split('\n');
  });
