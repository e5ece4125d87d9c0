import { createRequire } from 'node:module';

// The packages that measure and wrap any text compile large patterns. They are loaded at the first text that needs them, because most
// outputs have only characters of one column, and are not wrapped.

const require = createRequire(import.meta.url);
const loadStringWidth = () => (require('string-width') as typeof import('string-width')).default;
const loadWrapAnsi = () => (require('wrap-ansi') as typeof import('wrap-ansi')).default;

/**
 * Texts of characters that take one column each and combine with no other: Latin without the soft hyphen, general punctuation without
 * the marks of zero width, arrows, and the lines of tables.
 */
export const oneColumnText = /^[\x20-\x7e\xa1-\xac\xae-\u02ff\u2010-\u2027\u2030-\u203b\u2190-\u2193\u2500-\u257f]*$/;

/** The number of terminal columns of a text, without its escape sequences. */
export const measureText = (text: string): number => (oneColumnText.test(text) ? text.length : loadStringWidth()(text));

/** Wraps a text at spaces to lines of at most `width` columns. A longer word is not broken. */
export const wrapLines = (text: string, width: number): string[] => loadWrapAnsi()(text, width).split('\n');
