import { Type } from 'typebox';

export const Ready = Type.Object({
  status: Type.Literal('ready'),
  generation: Type.Integer({ minimum: 1, description: 'The published generation.' }),
  lag_seconds: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
    description: 'Seconds that the watermark, but for what is lost, lies behind now; null where no symbol is live.',
  }),
});
