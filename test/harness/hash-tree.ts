import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The SHA-256 of each file below a folder, and an empty text for each folder, by path. */
export function hashTree(root: string): Record<string, string> {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    entries.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(root.length + 1), entry.isDirectory() ? '' : hash('sha256', readFileSync(path))];
    }),
  );
}
