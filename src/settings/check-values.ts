import { resolve } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { createBadValueError } from './source.ts';

/** A value and its source, as messages name it. */
export interface SourcedValue {
  readonly value: unknown;
  readonly from: string;
}
export type MergedSettings = Map<string, SourcedValue>;

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
