import type { LRUCache } from 'lru-cache';

/** The length of a SHA-256 in hexadecimal. */
const hashLength = 64;

/**
 * Removes the entries of files that are no longer published. Their keys begin with the hash of a file.
 * @param onDropped called with each removed value
 */
export function dropReplaced<Value extends object | boolean>(
  cache: LRUCache<string, Value>,
  hashes: ReadonlySet<string>,
  onDropped: (value: Value) => void = () => {},
): void {
  for (const [key, value] of [...cache.entries()]) {
    if (hashes.has(key.slice(0, hashLength))) continue;
    cache.delete(key);
    onDropped(value);
  }
}
