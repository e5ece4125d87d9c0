import { OrderbookAnswer, OrderbookQuery } from '../../contract/orderbook.ts';
import { paths } from '../../contract/paths.ts';
import { openOrderBooks } from '../../reading/read-order-book.ts';
import { oneSymbol } from '../../state/symbols.ts';
import { unknownSymbol } from '../common-errors.ts';
import type { ServiceContext } from '../context.ts';
import type { App } from '../fastify-types.ts';
import { ProblemError } from '../problem-details.ts';

/** `/api/v1/orderbook`: the latest snapshot of a symbol. */
export function orderbookRoutes(app: App, { archive, current, files }: ServiceContext): void {
  const books = openOrderBooks(archive, current, files);
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
        response: { 200: OrderbookAnswer },
      },
    },
    async (request) => {
      const { symbol } = request.query;
      const book = await books.latest(symbol);
      if (book === null) {
        if (oneSymbol(archive.state.db, symbol) === undefined) throw unknownSymbol();
        throw new ProblemError(404, 'No order book of this symbol was polled.');
      }
      const { t, bids, asks, answeredAt } = book;
      return { symbol, t, bids: [...bids], asks: [...asks], generated_at: answeredAt };
    },
  );
}
