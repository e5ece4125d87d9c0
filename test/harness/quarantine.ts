import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

/** Paths of an archive's quarantined files below the root, oldest first. */
export const quarantineFiles = (root: string): string[] =>
  globSync('.oddslake/quarantine/generation-*.ndjson.gz', { cwd: root }).sort();

/** The lines of all quarantined files, in the order of their publishes. */
export const quarantineLines = (root: string): string[] =>
  quarantineFiles(root).flatMap((path) => {
    const text = gunzipSync(readFileSync(join(root, path))).toString();
    return text.trimEnd().split('\n');
  });
