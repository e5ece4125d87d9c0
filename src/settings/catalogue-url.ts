import type { SourcedValue } from './check-values.ts';
import { createBadValueError, defaultLayer } from './source.ts';

/**
 * The address of the catalogue that the report links to: that of the setting, else that of `oddslake serve` if its port is
 * set, so that it is known. The address of all interfaces is none.
 * @throws SettingError if it is not an address for a link
 */
export function resolveCatalogueUrl(merged: ReadonlyMap<string, SourcedValue>): string | null {
  const { value, from } = merged.get('report.catalogue_url')!;
  if (value === null) return findServiceUrl(merged.get('service.host')!, merged.get('service.port')!);
  const url = URL.parse(value as string);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return url.href;
  throw createBadValueError('report.catalogue_url', value, from, 'an http or https URL without credentials');
}

function findServiceUrl(host: SourcedValue, port: SourcedValue): string | null {
  const name = String(host.value);
  if (port.from === defaultLayer.from || port.value === 0 || ['0.0.0.0', '::'].includes(name)) return null;
  return URL.parse(`http://${name.includes(':') ? `[${name}]` : name}:${port.value}/`)?.href ?? null;
}
