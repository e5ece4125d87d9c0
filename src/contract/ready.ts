import { Type } from 'typebox';
import { archiveStates } from '../core/verdict.ts';
import { oneOf } from './export.ts';

export const ReadyResponse = Type.Object({
  status: Type.Literal('ready'),
  generation: Type.Integer({ minimum: 1, description: 'The published generation.' }),
  lag_seconds: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
    description: 'Seconds that the watermark, but for what is lost, lies behind now; null where no symbol is live.',
  }),
  verdict: oneOf(archiveStates, 'How whole the archive is, as `oddslake status` says it.'),
});
