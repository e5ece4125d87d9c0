import { UsageError } from '../core/errors.ts';

/**
 * The address of a service without a slash at its end; `what` names where the text is from.
 * @throws UsageError where it is no http or https URL, or holds credentials, a query or a fragment
 */
export function parseServiceUrl(given: string, what: string): string {
  const text = given.trim();
  const url = URL.parse(text);
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (usable && url.search === '' && url.hash === '') return url.href.replace(/\/+$/, '');
  const shown = /[@?#]/.test(text) ? '(hidden)' : JSON.stringify(text);
  throw new UsageError(`${what} is ${shown}: expected an http or https URL without credentials, query or fragment`);
}
