import { resolve } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { createBadValueError, defaultLayer } from './source.ts';

/** A value and its source, as messages name it. */
export interface SourcedValue {
  readonly value: unknown;
  readonly from: string;
}
export type MergedSettings = Map<string, SourcedValue>;

/** Validates the URL of a webhook or of a ping. Its path and query are secret. */
export function parseSecretUrl(key: string, text: string | null, merged: MergedSettings): string | null {
  if (text === null) return null;
  const url = URL.parse(text);
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (usable && url.hash === '') return url.href;
  const from = findSecretSource(key, merged);
  throw createBadValueError(key, text, from, 'an http or https URL without credentials or fragment');
}

/** Where a secret was set: itself, or the file that contains it. */
const findSecretSource = (key: string, merged: MergedSettings): string =>
  ((merged.get(`${key}_file`)?.value ?? null) === null ? merged.get(key) : merged.get(`${key}_file`))!.from;

/** Validates what mail needs: recipients, a sender, and one way to send it. */
export function checkEmail(values: ReadonlyMap<string, unknown>, merged: MergedSettings): void {
  const get = (name: string): unknown => values.get(`notify.email.${name}`);
  const url = get('smtp_url') as string | null;
  const parsed = url === null ? null : URL.parse(url);
  if (url !== null && (parsed === null || !/^smtps?:$/.test(parsed.protocol) || parsed.hostname === ''))
    throw createBadValueError(
      'notify.email.smtp_url',
      url,
      findSecretSource('notify.email.smtp_url', merged),
      'smtp://USER:PASSWORD@HOST:PORT, or smtps://',
    );
  const addresses = [...(get('to') as string[]), ...[get('from') as string | null].filter((one) => one !== null)];
  const bad = addresses.find((one) => !/^[^\s@<>,;"]+@[^\s@<>,;"]+$/.test(one));
  if (bad !== undefined)
    throw new UsageError(`notify.email: ${JSON.stringify(bad)} is not an address such as ops@example.org`);
  const ways = [url, get('sendmail')].filter((way) => way !== null);
  if (ways.length > 1) throw new UsageError('notify.email: set either smtp_url or sendmail, not both');
  const isUsed = (get('to') as string[]).length > 0;
  if (isUsed && (ways.length === 0 || get('from') === null))
    throw new UsageError('notify.email.to needs notify.email.from, and notify.email.smtp_url or notify.email.sendmail');
}

/** Validates the path of the textfile. The node exporter silently ignores files that do not end with .prom. */
export function parseTextfilePath({ value, from }: SourcedValue, base: string): string | null {
  if (typeof value !== 'string') return null;
  if (value.endsWith('.prom')) return resolve(base, value);
  throw createBadValueError(
    'metrics.textfile',
    value,
    from,
    'a path that ends with .prom, which is what the node exporter reads',
  );
}

/**
 * The address of the catalogue that the report links to: that of the setting, else that of `oddslake serve` if its port is
 * set, so that it is known. The address of all interfaces is none.
 * @throws SettingError if it is not an address for a link
 */
export function resolveCatalogueUrl(merged: MergedSettings): string | null {
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
