import { describe, expect, test } from 'vitest';
import { decodeOrderbook } from '../../src/client/decode.ts';
import { UnreadableResponseError } from '../../src/client/response-body.ts';

const decode = (text: string) => decodeOrderbook(Buffer.from(text), 'S');

describe('a response of the order-book route', () => {
  test.each([
    ['an object', '{"symbol":"S","bids":[],"asks":[],"generated_at":1795089600000}', 1795089600000],
    ['a list', '[{"symbol":"S","bids":[]}]', null],
    ['one without a symbol', '{"bids":[[0.1,1]],"asks":[]}', null],
    ['one among others', '{"data":[{"symbol":"X"},{"symbol":"S"}]}', null],
    ['one whose time is not an integer', '{"generated_at":"now"}', null],
  ])('is accepted with its text as received: %s', (_, text, generatedAt) => {
    expect(decode(text)).toEqual({ body: JSON.parse(text) as object, text, generatedAt });
  });

  test.each([
    ['of another symbol', '{"symbol":"X","bids":[],"asks":[]}', 'an order book of another symbol, "X"'],
    ['of another symbol, deeper', '{"data":{"book":[{"symbol":"X"}]}}', 'an order book of another symbol, "X"'],
    ['of broken JSON', '{"bids":[', 'broken JSON'],
    ['of nothing', ' ', 'an empty body'],
    ['of a scalar', '0.5', 'JSON that is not an object or array'],
    ['of null', 'null', 'JSON that is not an object or array'],
  ])('is rejected, and retried: %s', (_, text, reason) => {
    expect(() => decode(text)).toThrow(new UnreadableResponseError(reason));
  });
});
