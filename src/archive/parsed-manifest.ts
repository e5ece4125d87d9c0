import { sha256 } from './disk/file-system.ts';
import { type Manifest, parseManifest } from './format/manifest.ts';

/** A manifest, and the SHA-256 of its text. */
export interface ParsedManifest {
  readonly hash: string;
  readonly manifest: Manifest;
}

/**
 * The manifest that this process parsed or committed last. That of a large archive has megabytes, and a night opens the archive
 * twice: for its run, and for the report. The hash of the bytes identifies it, whatever archive they are of.
 */
let last: ParsedManifest | undefined;

/**
 * Parses the bytes of manifest.json, unless the same bytes were parsed last or are in `known`.
 * @param path appears in errors @param hash SHA-256 of the bytes, if the caller has it
 * @throws as `parseManifest`
 */
export function parseManifestBytes(
  bytes: Uint8Array,
  path: string,
  known?: ParsedManifest,
  hash = sha256(bytes),
): ParsedManifest {
  if (known?.hash === hash) return known;
  if (last?.hash !== hash) last = { hash, manifest: parseManifest(decodeManifest(bytes), path) };
  return last;
}

/** Keeps a manifest that this process has created, so that it need not be parsed. @param hash SHA-256 of its text */
export function keepManifest(hash: string, manifest: Manifest): ParsedManifest {
  last = { hash, manifest };
  return last;
}

export const decodeManifest = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
