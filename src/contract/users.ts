import { Type } from 'typebox';

/** What GET /api/v1/me answers: what the credential is, and what it may do. */
export const MeResponse = Type.Object(
  {
    kind: Type.Union([Type.Literal('key'), Type.Literal('user')], {
      description: '`key`: a market data key; `user`: a user token.',
    }),
    key: Type.Optional(
      Type.Object(
        {
          id: Type.String({ description: 'What `oddslake keys revoke` takes.' }),
          name: Type.String({ description: 'What it was created as.' }),
        },
        { description: 'The key; absent for a user token.' },
      ),
    ),
    user: Type.Optional(Type.String({ description: 'Whom the token stands for; absent for a key.' })),
    workspace: Type.Optional(
      Type.Union([Type.String(), Type.Null()], { description: "The token's workspace; absent for a key." }),
    ),
    scopes: Type.Optional(Type.Array(Type.String(), { description: "The token's scopes; absent for a key." })),
    requests_per_minute: Type.Integer({ minimum: 1, description: 'Requests a minute that it may make.' }),
    generated_at: Type.Integer({ description: 'When the response was generated, epoch milliseconds UTC.' }),
  },
  { description: 'A credential, without its secret.' },
);
export type MeResponse = Type.Static<typeof MeResponse>;
