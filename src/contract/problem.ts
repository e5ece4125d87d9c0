import { Type } from 'typebox';

/** Parameters and fields that one answer names: a small body can have thousands that are wrong. */
export const problemErrorsMax = 100;

/** The body of every error: RFC 9457, `application/problem+json`. */
export const Problem = Type.Object(
  {
    type: Type.String({
      description: 'A URI that names the kind of problem; `about:blank` where the status says it all.',
    }),
    title: Type.String({ description: 'The kind of problem in a few words.' }),
    status: Type.Integer({ minimum: 400, maximum: 599, description: 'The status of the answer.' }),
    detail: Type.Optional(Type.String({ description: 'What happened, to what, and what to do.' })),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: 'The parameter or field.' }),
          reason: Type.String({ description: 'What was expected of it.' }),
        }),
        {
          maxItems: problemErrorsMax,
          description: `Every parameter or field that was refused; of more than ${problemErrorsMax} the first.`,
        },
      ),
    ),
  },
  { $id: 'Problem', description: 'An error (RFC 9457).' },
);
export type Problem = Type.Static<typeof Problem>;

export const problemType = 'application/problem+json';
