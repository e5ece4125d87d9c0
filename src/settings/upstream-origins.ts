import { relative, resolve } from 'node:path';
import type { MergedSettings } from './check-values.ts';
import { defaultLayer } from './source.ts';

/** Where the address and the key of an upstream were set, for messages; null if they are not set. */
export interface UpstreamOrigins {
  readonly baseUrl: string | null;
  readonly apiKey: string | null;
}

/**
 * Names where the address and the key come from: a variable, a flag, a line of the config file, or a key file.
 * @param base folder of relative paths
 * @param lines line of each key of the config file, counted from 1
 * @param paths the settings of a source in place of those of the only service
 */
export function nameUpstreamOrigins(
  merged: MergedSettings,
  base: string,
  configFile: string | null,
  lines: ReadonlyMap<string, number>,
  paths: ReadonlyMap<string, string> = new Map(),
): UpstreamOrigins {
  const name = (setting: string): string | null => {
    const path = paths.get(setting) ?? setting;
    const { value = null, from = '' } = merged.get(path) ?? {};
    if (value === null || from === defaultLayer.from) return null;
    if (from === '--set') return `--set ${path}`;
    if (from !== configFile) return from;
    const line = lines.get(path);
    return `${path} in ${shortenPath(from)}${line === undefined ? '' : `:${line}`}`;
  };
  const keyFile = name('upstream.api_key_file');
  const keyPath = merged.get(paths.get('upstream.api_key_file') ?? 'upstream.api_key_file')?.value;
  return {
    baseUrl: name('upstream.base_url'),
    apiKey: keyFile === null ? name('upstream.api_key') : `${shortenPath(resolve(base, String(keyPath)))} (${keyFile})`,
  };
}

/** Relative to the working folder if it lies below it. */
function shortenPath(path: string): string {
  const short = relative('.', path);
  return short === '' || short.startsWith('..') ? path : short;
}
