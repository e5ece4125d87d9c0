import { readSymbol } from '../../archive/journal/symbols.ts';
import { openOrderBookReader } from '../../archive/read/read-order-book.ts';
import { paths } from '../../contract/paths.ts';
import { OrderbookQuery, OrderbookResponse } from '../../contract/service.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { createUnknownSymbolError, ProblemError } from '../http/problem-details.ts';

/** `/api/v1/orderbook`: the latest snapshot of a symbol. */
export function registerOrderBookRoutes(app: App, { archive, current, files }: ServiceContext): void {
  const books = openOrderBookReader(archive, current, files);
  app.get(
    paths.orderbook,
    {
      schema: {
        summary: 'The latest order book of a symbol',
        description:
          'The snapshot with the greatest time. 404 for a symbol that the archive does not know, and for one of which it ' +
          'has no order book. `generated_at` is the moment of the last poll that brought one: the archive knows nothing of later.',
        tags: ['realtime'],
        querystring: OrderbookQuery,
        response: { 200: OrderbookResponse },
      },
    },
    async (request) => {
      const { symbol } = request.query;
      const book = await books.readLatest(symbol);
      if (book === null) {
        if (readSymbol(archive.state.db, symbol) === undefined) throw createUnknownSymbolError();
        throw new ProblemError(404, 'No order book of this symbol was polled.');
      }
      const { t, bids, asks, fetchedAt } = book;
      return { symbol, t, bids: [...bids], asks: [...asks], generated_at: fetchedAt };
    },
  );
}
