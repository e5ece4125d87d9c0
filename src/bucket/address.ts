import { UsageError } from '../base/errors.ts';

/** Where an archive is in object storage: `s3://BUCKET/PREFIX`. */
export interface BucketAddress {
  readonly bucket: string;
  /** Without a slash at either end; empty: the whole bucket belongs to the archive. */
  readonly prefix: string;
  /** `s3://BUCKET/PREFIX`. */
  readonly url: string;
}

/** Names of buckets: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html */
const bucketPattern = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/** Characters that are safe in keys, paths and SQL. */
const prefixPattern = /^[A-Za-z0-9!_.()-]+(\/[A-Za-z0-9!_.()-]+)*$/;

/**
 * Parses the address of an archive in object storage.
 * @param what names the source of the text in the error
 * @throws UsageError if it is not one
 */
export function parseBucketAddress(text: string, what: string): BucketAddress {
  const [, bucket = '', rest = ''] = /^s3:\/\/([^/]*)(?:\/(.*))?$/s.exec(text.trim()) ?? [];
  const prefix = rest.replace(/\/+$/, '');
  const isPrefix = prefix === '' || (prefixPattern.test(prefix) && !/(^|\/)\.{1,2}(\/|$)/.test(prefix));
  if (bucketPattern.test(bucket) && isPrefix)
    return { bucket, prefix, url: prefix === '' ? `s3://${bucket}` : `s3://${bucket}/${prefix}` };
  const shown = /[@?#]/.test(text) ? '(hidden)' : JSON.stringify(text);
  throw new UsageError(
    `${what} is ${shown}: expected s3://BUCKET/PREFIX, with letters, digits and - _ . ! ( ) in the prefix`,
  );
}

/** The key of an object, from its path below the prefix; with a slash at its begin, from that below the bucket. */
export const toKey = ({ prefix }: BucketAddress, path: string): string =>
  prefix === '' || path.startsWith('/') ? path.replace(/^\//, '') : `${prefix}/${path}`;

/** Whether a text is an address of this kind rather than a folder. */
export const isBucketUrl = (text: string): boolean => text.startsWith('s3://');
