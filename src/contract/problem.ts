import { Type } from 'typebox';

/** Maximum number of errors in one response. A small body can have thousands of invalid fields. */
export const problemErrorsMax = 100;

/** The body of every error: RFC 9457, `application/problem+json`. */
export const Problem = Type.Object(
  {
    type: Type.String({
      description: 'URI of the problem type; `about:blank` if the status is sufficient.',
    }),
    title: Type.String({ description: 'Short description of the problem type.' }),
    status: Type.Integer({ minimum: 400, maximum: 599, description: 'Status code of the response.' }),
    detail: Type.Optional(Type.String({ description: 'Description of the error and what to do.' })),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: 'Name of the parameter or field.' }),
          reason: Type.String({ description: 'What was expected.' }),
        }),
        {
          maxItems: problemErrorsMax,
          description: `The invalid parameters and fields; at most the first ${problemErrorsMax}.`,
        },
      ),
    ),
  },
  { $id: 'Problem', description: 'An error (RFC 9457).' },
);
export type Problem = Type.Static<typeof Problem>;

export const problemType = 'application/problem+json';
